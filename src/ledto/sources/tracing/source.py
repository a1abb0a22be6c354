"""Read the files of the DistributedClocks tracing server: JSON lines, each event with its tracer's vector clock.

One literal event (one line in the file)::

    {"TracerIdentity": "shop", "TraceID": 7, "Tag": "OrderPlaced", "Body": {"Order": 12}, "VectorClock": {"shop": 2}}

An event's own entry is its number in its tracer. The entries of other tracers that grew name its causes
(`ledto.sources.vectors`). ``GenerateTokenTrace`` and ``ReceiveTokenTrace`` have the token of the message: a GoVector
message (`ledto.interop.govector`) with the trace's id and the clock of the send. A line that contradicts its token becomes
a bad row.

A tracer reads its clock a moment after the event, when another thread may have made the next one. If a token shows that,
the row has the token's clock, which other events refer to.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, Final

import pyarrow as pa

from ledto.clocks.json_fields import read_integer
from ledto.clocks.wire import check_name
from ledto.errors import StampError
from ledto.events.schema import LOCAL, RECEIVE, SEND
from ledto.sources.contract import FileSlice, Records
from ledto.sources.json.strict import members
from ledto.sources.lines import LINE_LIMIT_BYTES, blocks
from ledto.sources.native.lines import Cells, bounded_row
from ledto.sources.rows import BadRecord, Batches, Row, bad_row
from ledto.sources.times import INT64_MOST
from ledto.sources.tracing.typed import COLUMNS, MOST_TRACE, RECEIVED, SENT, quick_values
from ledto.sources.vectors import ClockGrowth, stamp_key

if TYPE_CHECKING:
    from ledto.interop.govector import GoVectorMessage

FIELDS: Final = ("TracerIdentity", "TraceID", "Tag", "Body", "VectorClock")
"""The members of a line, in any order. It has no others."""

Member = tuple[Any, str, str]
_NOTHING: Member = (None, "", "")
_TRACE_DIGITS = re.compile(r"0|[1-9]\d{0,19}", re.ASCII)
_LARGE_TRACE = re.compile(rb'("TraceID"[ \t\r]*:[ \t\r]*)([1-9]\d{18,19})(?=[ \t\r]*[,}])')
_LINES_AT_ONCE = 1_024
_SHOWN = 60


@dataclass(frozen=True)
class Tracing:
    """A source of events of the tracing library. The files of all tracing servers are one computation."""

    name: ClassVar[str] = "tracing"
    suffixes: ClassVar[tuple[str, ...]] = (".log", ".jsonl", ".json")
    splittable: ClassVar[bool] = True
    records: ClassVar[Records] = "lines"

    def read(self, piece: FileSlice) -> Iterator[pa.RecordBatch]:
        def row(line: bytes, offset: int, place: int, cells: Cells) -> Row:
            growth = cells.growth(offset)
            return bounded_row(
                line, offset, place, piece.file, lambda bare: row_from_line(bare, piece.file, place, growth)
            )

        cells, batches = Cells(piece, row), Batches(piece.file)
        for block in blocks(piece):
            if block.problem is not None:
                batches.add_rows([bad_row(piece.file, block.first_line, block.problem, block.data)])
                continue
            lines = cells.lines(block)
            while next_lines := list(islice(lines, _LINES_AT_ONCE)):
                _add(next_lines, cells, row, batches)
                if batches.is_full:
                    yield batches.take_batch()
        if not batches.is_empty:
            yield batches.take_batch()


def _add(
    lines: list[tuple[bytes, int, int]],
    cells: Cells,
    row: Callable[[bytes, int, int, Cells], Row],
    batches: Batches,
) -> None:
    """Add the rows of these lines, each with its offset and number. `row` reads those that `quick_values` cannot."""
    quick: list[tuple[Any, ...]] = []
    exact: dict[int, Row] = {}
    for number, (line, offset, place) in enumerate(lines):
        values = None
        # The file's first line may have a byte order mark.
        if offset and len(line) <= LINE_LIMIT_BYTES:
            values = quick_values(line, place, cells.growth(offset))
        if values is None:
            exact[number] = row(line, offset, place, cells)
        else:
            quick.append(values)
    columns: dict[str, Sequence[Any]] = dict(zip(COLUMNS, zip(*quick, strict=True), strict=True)) if quick else {}
    batches.add({"computation": [""] * len(quick), **columns}, exact)


def row_from_line(raw: bytes, file: str, place: int, growth: ClockGrowth) -> Row:
    """Read one line into a row, which has a reason if the line cannot be read.

    `growth` has the vector clocks before this line.
    """
    quick = quick_values(raw, place, growth)
    if quick is None:
        return exact_row(raw, file, place, growth)
    return Row(**dict(zip(COLUMNS, quick, strict=True)), file=file)


def exact_row(raw: bytes, file: str, place: int, growth: ClockGrowth) -> Row:
    """Read one line in every case, and say what is wrong with it."""
    fields: Mapping[str, Member] = {}
    try:
        fields = members(_LARGE_TRACE.sub(_quote_large_id, raw))
        return _make_row(fields, file, place, growth)
    except BadRecord as error:
        process = fields.get("TracerIdentity", _NOTHING)[0]
        is_legible = isinstance(process, str) and bool(process) and process.isprintable()
        return bad_row(file, place, str(error), raw, process=process if is_legible else None)


def _quote_large_id(number: re.Match[bytes]) -> bytes:
    """Write an id beyond signed 64 bits as text. In a string, such a member cannot occur: its quotes have backslashes."""
    value = int(number[2])
    return number[1] + b'"' + number[2] + b'"' if INT64_MOST < value <= MOST_TRACE else number[0]


def _make_row(fields: Mapping[str, Member], file: str, place: int, growth: ClockGrowth) -> Row:
    for name in FIELDS:
        if name not in fields:
            raise BadRecord("bad-field", f'a line has {", ".join(FIELDS)}; "{name}" is missing')
    unknown = next((name for name in fields if name not in FIELDS), None)
    if unknown is not None:
        raise BadRecord("bad-field", f"a line has {', '.join(FIELDS)}, and no {unknown[:_SHOWN]!r}")
    process, tag = _read_text(fields, "TracerIdentity"), _read_text(fields, "Tag")
    clock, clock_text, _ = fields["VectorClock"]
    _check_clock(clock, clock_text, process)
    trace = _read_trace(fields["TraceID"])
    token = _decode_token(fields["Body"], tag) if tag in (SENT, RECEIVED) else None
    if token is not None:
        _check_token(token, tag, process, trace, clock)
        if tag == SENT and dict(token.stamp) != clock:
            clock = dict(token.stamp)
            clock_text = json.dumps(clock, ensure_ascii=False, separators=(",", ":"))
    row = Row(process=process, seq=clock[process], name=tag, file=file, place=place)
    row.attributes = _write_attributes(fields["Body"], trace)
    row.stamp = f'{{"clock":"vector","counters":{clock_text}}}'
    row.sends = stamp_key(process, clock[process])
    _set_causes(row, clock, tag, token, growth)
    return row


def _set_causes(
    row: Row, clock: Mapping[str, int], tag: str, token: GoVectorMessage | None, growth: ClockGrowth
) -> None:
    assert row.process is not None
    causes = growth.grown("", row.process, clock)
    if token is not None and tag == RECEIVED:
        sent = (token.process, token.stamp[token.process])
        causes = [sent, *(cause for cause in causes if cause != sent)]
    row.receive([stamp_key(*cause) for cause in causes])
    growth.note("", row.process, clock)
    row.kind = SEND if token is not None and tag == SENT else LOCAL if row.receives is None else RECEIVE


def _read_text(fields: Mapping[str, Member], name: str) -> str:
    value, text, _ = fields[name]
    if not isinstance(value, str):
        raise BadRecord("bad-field", f"{name} is text, not {text[:_SHOWN]}")
    if not value:
        raise BadRecord("no-process" if name == "TracerIdentity" else "bad-field", f"{name} is empty")
    if "\0" in value:
        raise BadRecord("bad-field", f"{name} holds a NUL character")
    return value


def _read_trace(member: Member) -> int:
    """Return the id of a trace, from a number or from text with digits."""
    value, text, _ = member
    if type(value) is int and value >= 0:
        return value
    if isinstance(value, str) and _TRACE_DIGITS.fullmatch(value) and int(value) <= MOST_TRACE:
        return int(value)
    raise BadRecord("bad-field", f"TraceID is an integer from 0 to 2**64 - 1, not {text[:_SHOWN]}")


def _check_clock(clock: object, text: str, process: str) -> None:
    if not isinstance(clock, dict):
        raise BadRecord("bad-clock", f"VectorClock is an object of counts, not {text[:_SHOWN]}")
    try:
        for name, count in clock.items():
            check_name(name)
            read_integer(count, f"the entry of {name!r:.60}")
            if "\0" in name:
                raise StampError("the name of an entry holds a NUL character")
    except StampError as error:
        raise BadRecord("bad-clock", str(error)) from None
    if not clock.get(process):
        raise BadRecord("bad-clock", f"the clock does not count its own tracer {process[:_SHOWN]!r}")


def _decode_token(body: Member, tag: str) -> GoVectorMessage:
    value = body[0].get("Token") if isinstance(body[0], dict) else None
    if not isinstance(value, str):
        raise BadRecord("bad-token", f'the Body of {tag} has "Token", a GoVector message in base64')
    try:
        raw = base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError) as error:
        raise BadRecord("bad-token", f"Token is not base64: {error}") from None
    from ledto.interop.govector import GoVectorMessage  # Needs msgpack, which no other format does.

    try:
        return GoVectorMessage.from_bytes(raw, max_bytes=LINE_LIMIT_BYTES)
    except StampError as error:
        raise BadRecord("bad-token", f"Token is no GoVector message: {error}") from None


def _check_token(token: GoVectorMessage, tag: str, process: str, trace: int, clock: Mapping[str, int]) -> None:
    if type(token.payload) is not int or token.payload != trace:
        raise BadRecord("token-contradicts", f"the token is of trace {token.payload!r:.60}, the line of trace {trace}")
    if tag == SENT and token.process != process:
        sender = f"the token was made by {token.process!r:.60}"
        raise BadRecord("token-contradicts", f"{sender}, the line by {process[:_SHOWN]!r}")
    for name, count in token.stamp.items():
        least = count + (tag == RECEIVED and name == process)
        if clock.get(name, 0) < least:
            counted = f"the token knows of event {count} of {name[:_SHOWN]!r}"
            raise BadRecord("token-contradicts", f"{counted}, the line's clock has {clock.get(name, 0)}")


def _write_attributes(body: Member, trace: int) -> str:
    """Write the members of ``Body`` in their own text, and the trace's id as text, which no reader rounds."""
    value, text, _ = body
    if value is not None and not isinstance(value, dict):
        raise BadRecord("bad-field", f"Body is an object, not {text[:_SHOWN]}")
    name = next((name for name in ("TraceID", "line.TraceID") if name not in (value or ())), None)
    if name is None:
        raise BadRecord("duplicate-key", 'Body has "TraceID" and "line.TraceID": no name is left for that of the line')
    inside = text[1:-1].strip() if value else ""
    return "{" + inside + ("," if inside else "") + f'"{name}":"{trace}"' + "}"
