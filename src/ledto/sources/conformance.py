"""Check any source on whole, cut, torn and garbled inputs against what a source promises, with `check_source`."""

from __future__ import annotations

import io
import json
import pickle
import re
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pyarrow as pa

from ledto.events.schema import KINDS, PHASES, REPORTS, TEXT_LIMIT_CHARACTERS
from ledto.sources.contract import ByteStream, FileSlice, Source

_FILE = "sample"
_REASON = re.compile(r"[a-z][a-z0-9-]*: .+", re.DOTALL)
_ALL_CUTS_UP_TO_BYTES = 1_000
_CUTS = 100


class SourceCheckFailed(AssertionError):
    """A source broke a promise. The message says what was done to the sample."""


def check_source(source: Source, sample: bytes, *, seed: int = 0, mutations: int = 200) -> int:
    """Check a source on a sample of its format, which should have good and bad records; return the number of inputs tried.

    - The batches have the schema `REPORTS`, and every row keeps what that promises of good and bad rows.
    - The same bytes give the same rows: again, after pickling the source, and however few bytes a read returns.
    - Nothing is dropped: a line of garbage between any two lines shows in some row, or, if records are not made of lines,
      gives a row with a reason. A splittable source of lines gives a row for each line that is not blank.
    - Cut at any bytes, the pieces of a splittable source give the rows of the whole.
    - `mutations` torn, garbled, doubled and random inputs raise nothing, and their rows keep the promises.

    Raises `SourceCheckFailed` at the first contradiction. The same `seed` tries the same inputs.
    """
    random = Random(seed)
    whole = checked_rows(source, piece_of(sample), "the sample")
    if not whole.num_rows:
        raise SourceCheckFailed("the sample gives no rows; pass a sample with records")
    tried = 1
    _check_repeatable(source, sample, whole)
    tried += _check_nothing_dropped(source, sample, random)
    if source.splittable:
        tried += _check_cuts(source, sample, whole, random)
    for number in range(mutations):
        what, data = _mutate(sample, random)
        label = f"mutation {number} of seed {seed} ({what})"
        rows = checked_rows(source, piece_of(data), label)
        _check_same(
            rows, checked_rows(source, piece_of(data, most_bytes_a_read=5), label), f"{label}, read 5 bytes at a time"
        )
        if _is_by_line(source):
            _check_lines(data, rows, label)
        if source.splittable:
            cut = random.randint(0, len(data))
            _check_same(rows, _read_cut(source, data, [cut], label), f"{label}, cut at byte {cut}")
        tried += 1
    return tried


class _Trickle(io.BytesIO):
    """A file that returns few bytes per read, as sockets and decompressors do."""

    def __init__(self, data: bytes, most_bytes: int) -> None:
        super().__init__(data)
        self._most_bytes = most_bytes

    def read(self, size: int | None = -1, /) -> bytes:
        wanted = self._most_bytes if size is None or size < 0 else min(size, self._most_bytes)
        return super().read(wanted)


def piece_of(data: bytes, *, start: int = 0, stop: int | None = None, most_bytes_a_read: int = 1 << 30) -> FileSlice:
    """Make a piece of a file with these bytes. Its reads return at most so many bytes at a time."""

    def open_at(offset: int) -> ByteStream:
        stream = _Trickle(data, most_bytes_a_read)
        stream.seek(offset)
        return stream

    return FileSlice(_FILE, open_at, start, stop, data.count(b"\n", 0, start))


def checked_rows(source: Source, piece: FileSlice, label: str) -> pa.Table:
    """Read the rows of a piece. Raises `SourceCheckFailed`, which begins with the label, if one breaks a promise."""
    batches = []
    try:
        for batch in source.read(piece):
            if not batch.schema.equals(REPORTS):
                raise SourceCheckFailed(f"{label}: a batch has another schema than REPORTS:\n{batch.schema}")
            batch.validate(full=True)
            batches.append(batch)
    except SourceCheckFailed:
        raise
    except Exception as error:
        raise SourceCheckFailed(f"{label}: reading raised {type(error).__name__}: {error}") from error
    table = pa.Table.from_batches(batches, schema=REPORTS)
    for number, row in enumerate(table.to_pylist()):
        broken = next((promise for promise, kept in _PROMISES.items() if not kept(row)), None)
        if broken is not None:
            raise SourceCheckFailed(f"{label}: row {number} breaks the promise that {broken}: {row}")
    return table


def _is_object(text: str | None) -> bool:
    if text is None:
        return True
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


_PROMISES: dict[str, Callable[[dict[str, Any]], bool]] = {
    "a computation is text": lambda row: row["computation"] is not None,
    "a row says where it comes from": lambda row: (
        row["file"] == _FILE and row["place"] is not None and row["place"] >= 0
    ),
    "a good row has a process": lambda row: bool(row["process"]) or row["reason"] is not None,
    "a good row has a kind": lambda row: row["kind"] in KINDS or row["reason"] is not None,
    "a good row has a seq or a time": lambda row: (
        row["seq"] is not None or row["time"] is not None or row["reason"] is not None
    ),
    "a good row has no text": lambda row: row["text"] is None or row["reason"] is not None,
    "a reason is a code, a colon and what is wrong": lambda row: (
        row["reason"] is None or _REASON.fullmatch(row["reason"]) is not None
    ),
    "a bad row has its text, cut": lambda row: (
        row["reason"] is None or (row["text"] is not None and len(row["text"]) <= TEXT_LIMIT_CHARACTERS)
    ),
    "further messages follow a first one": lambda row: (
        row["receives_more"] is None or (bool(row["receives_more"]) and row["receives"] is not None)
    ),
    "keys are not empty": lambda row: "" not in (row["sends"], row["receives"], *(row["receives_more"] or ())),
    "lines have names": lambda row: (
        not {"", None} & {*(row["line_joins"] or ())} and "" not in (row["line"], row["line_parent"])
    ),
    "joined lines are null or at least one": lambda row: row["line_joins"] is None or bool(row["line_joins"]),
    "a phase is start, end or first": lambda row: row["line_phase"] is None or row["line_phase"] in PHASES,
    "a row with a line's parent or phase has a line": lambda row: (
        row["line"] is not None or (row["line_parent"] is None and row["line_phase"] is None)
    ),
    "a bad row has no error": lambda row: row["error"] is None or row["reason"] is None,
    "attributes are a JSON object": lambda row: _is_object(row["attributes"]),
    "a stamp is a JSON object": lambda row: _is_object(row["stamp"]),
}


def _check_repeatable(source: Source, sample: bytes, whole: pa.Table) -> None:
    _check_same(whole, checked_rows(source, piece_of(sample), "the sample, again"), "the sample, read again")
    copied = pickle.loads(pickle.dumps(source))
    _check_same(
        whole,
        checked_rows(copied, piece_of(sample), "the sample, after pickling"),
        "the sample, after pickling the source",
    )
    for most in (1, 7):
        trickled = checked_rows(source, piece_of(sample, most_bytes_a_read=most), "the sample, read slowly")
        _check_same(whole, trickled, f"the sample, read {most} bytes at a time")


def _check_nothing_dropped(source: Source, sample: bytes, random: Random) -> int:
    if _is_by_line(source):
        _check_lines(sample, checked_rows(source, piece_of(sample), "the sample"), "the sample")
    lines = sample.split(b"\n")
    places = range(len(lines)) if len(lines) <= _CUTS else sorted(random.sample(range(len(lines)), _CUTS))
    for place in places:
        token = f"garbage-{place}"
        data = b"\n".join([*lines[:place], token.encode(), *lines[place:]])
        label = f"a line of garbage before line {place + 1}"
        rows = checked_rows(source, piece_of(data), label).to_pylist()
        if source.records != "anywhere":
            is_shown = any(token in (row[column] or "") for row in rows for column in ("text", "name", "attributes"))
        else:
            is_shown = any(row["reason"] is not None for row in rows)
        if not is_shown:
            raise SourceCheckFailed(f"{label} shows in no row: something was dropped")
    return len(places)


def _is_by_line(source: Source) -> bool:
    return source.splittable and source.records == "lines"


def _check_lines(data: bytes, rows: pa.Table, label: str) -> None:
    expected = sum(1 for line in data.removeprefix(b"\xef\xbb\xbf").split(b"\n") if line.strip(b" \t\r"))
    if rows.num_rows != expected:
        raise SourceCheckFailed(f"{label}: {expected} lines that are not blank give {rows.num_rows} rows")


def _check_cuts(source: Source, sample: bytes, whole: pa.Table, random: Random) -> int:
    everywhere = range(len(sample) + 2)
    cuts = everywhere if len(everywhere) <= _ALL_CUTS_UP_TO_BYTES else random.sample(everywhere, _CUTS)
    for cut in cuts:
        _check_same(whole, _read_cut(source, sample, [cut], "the sample, cut"), f"the sample, cut at byte {cut}")
    for _ in range(_CUTS):
        several = sorted(random.choices(everywhere, k=random.randint(2, 6)))
        _check_same(whole, _read_cut(source, sample, several, "the sample, cut"), f"the sample, cut at bytes {several}")
    return len(cuts) + _CUTS


def _read_cut(source: Source, data: bytes, cuts: list[int], label: str) -> pa.Table:
    """Read the data in pieces; return the rows of all."""
    starts, stops = [0, *cuts], [*cuts, None]
    pieces = [piece_of(data, start=start, stop=stop) for start, stop in zip(starts, stops, strict=True)]
    return pa.concat_tables(checked_rows(source, piece, f"{label} {cuts}") for piece in pieces)


def _check_same(expected: pa.Table, actual: pa.Table, what: str) -> None:
    if not actual.equals(expected):
        a, b = expected.to_pylist(), actual.to_pylist()
        differ = (f"row {n}: {x} and {y}" for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y)
        detail = next(differ, f"{len(a)} rows and {len(b)}")
        raise SourceCheckFailed(f"{what}, gives other rows than the whole: {detail}")


def _mutate(sample: bytes, random: Random) -> tuple[str, bytes]:
    what, mutate = random.choice(list(_MUTATIONS.items()))
    return what, mutate(sample, random)


def _choose_span(data: bytes, random: Random) -> tuple[int, int]:
    start = random.randint(0, len(data))
    return start, min(len(data), start + random.randint(1, 40))


def _truncate(data: bytes, random: Random) -> bytes:
    return data[: random.randint(0, len(data))]


def _flip_bits(data: bytes, random: Random) -> bytes:
    changed = bytearray(data)
    for _ in range(random.randint(1, 8)):
        changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
    return bytes(changed)


def _insert(data: bytes, random: Random) -> bytes:
    start, _ = _choose_span(data, random)
    return data[:start] + random.choice(list(_HARD)) + data[start:]


def _delete(data: bytes, random: Random) -> bytes:
    start, stop = _choose_span(data, random)
    return data[:start] + data[stop:]


def _double(data: bytes, random: Random) -> bytes:
    start, stop = _choose_span(data, random)
    return data[:stop] + data[start:stop] + data[stop:]


def _shuffle_lines(data: bytes, random: Random) -> bytes:
    lines = data.split(b"\n")
    random.shuffle(lines)
    return b"\n".join(lines)


def _make_random(data: bytes, random: Random) -> bytes:
    return random.randbytes(random.randint(1, 200))


_MUTATIONS: dict[str, Callable[[bytes, Random], bytes]] = {
    "truncated": _truncate,
    "bits flipped": _flip_bits,
    "bytes inserted": _insert,
    "bytes deleted": _delete,
    "bytes doubled": _double,
    "lines shuffled": _shuffle_lines,
    "random bytes": _make_random,
}


def _hard() -> Iterator[bytes]:
    yield from (
        b"\0",
        b"\xff\xfe",
        b"\xed\xa0\x80",
        b"\xc3",
        b"\r",
        b"\r\n",
        b"\n\n",
        b"\x0c",
        b"\xe2\x80\xa8",
        b"\x1f",
    )
    yield from (b'"', b"\\", b"\\ud800", b"\\u0000", b"{", b"}", b"[", b"]", b"[" * 70, b'{"a":' * 70, b",", b":")
    yield from (b"NaN", b"-Infinity", b"-0", b"1e999", b"9" * 30, b"9223372036854775808", b"-9223372036854775808")
    yield from (b"null", b"true", b'"process":"twice",', b"\xef\xbb\xbf", b"9" * 5_000)


_HARD = tuple(_hard())
