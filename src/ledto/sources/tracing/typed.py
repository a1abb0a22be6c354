"""Decode usual lines of the tracing library with msgspec. `ledto.sources.tracing.source` reads all others.

Lines that are read here give the same row there. `ledto.sources.json.objects` says which malformed JSON msgspec accepts,
and how it is found.
"""

from __future__ import annotations

import binascii
from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Raw, Struct

from ledto.clocks.wire import MAX_COUNTER, MAX_NAME_BYTES
from ledto.events.schema import LOCAL, RECEIVE, SEND
from ledto.sources.json.objects import is_unusual, may_be_deep
from ledto.sources.json.typed import NOT_TAKEN
from ledto.sources.rows import MOST_CAUSES
from ledto.sources.vectors import ClockGrowth, stamp_key

SENT: Final = "GenerateTokenTrace"
RECEIVED: Final = "ReceiveTokenTrace"

MOST_TRACE: Final = (1 << 64) - 1
_MOST_NAME_CHARACTERS = MAX_NAME_BYTES // 4
_MEMBERS = 5
_TEXT = {str}
_MOST_REMEMBERED_CHARACTERS = 2_000
_THREE_VALUES = b"\x93"
"""The head of an array of three values in MessagePack. A token has these three values without the head."""

_Name = Annotated[str, Meta(min_length=1, max_length=_MOST_NAME_CHARACTERS)]
_Counters = dict[_Name, Annotated[int, Meta(ge=0, le=MAX_COUNTER)]]


class _TypedLine(Struct, forbid_unknown_fields=True):
    TracerIdentity: str
    TraceID: int
    Tag: str
    Body: Raw
    VectorClock: Raw


Token = tuple[_Name, int, _Counters]

_decode_line = msgspec.json.Decoder(_TypedLine).decode
_decode_clock = msgspec.json.Decoder(_Counters).decode
_decode_body = msgspec.json.Decoder(dict[str, Any]).decode
_encode_body = msgspec.json.Encoder().encode
_decode_token = msgspec.msgpack.Decoder(Token).decode
_encode_token = msgspec.msgpack.Encoder().encode

COLUMNS: Final = (
    *("process", "seq", "kind", "sends", "receives", "receives_more", "name", "stamp", "attributes", "place"),
)
"""The columns that `quick_values` returns. Of the others, only the file is not null."""


def quick_values(raw: bytes, place: int, growth: ClockGrowth) -> tuple[Any, ...] | None:
    """Read a line into the `COLUMNS` of its row, and note its clock; None, without a note, if the line is unusual."""
    try:
        line = _decode_line(raw)
        body, clock_text = bytes(line.Body), bytes(line.VectorClock)
        clock = _decode_clock(clock_text)
        members = _decode_body(body) if body != b"{}" else {}
    except NOT_TAKEN:
        return None
    process, trace, tag, own_entry = line.TracerIdentity, line.TraceID, line.Tag, clock.get(line.TracerIdentity)
    colons = body.count(b":")
    if (
        not (own_entry and tag and 0 <= trace <= MOST_TRACE)
        # Each of these finds keys that occur twice: in the clock, in the line, and in the body.
        or clock_text.count(b'"') != 2 * len(clock)
        or raw.count(b":") != colons + clock_text.count(b":") + process.count(":") + tag.count(":") + _MEMBERS
        or (members and (_encode_body(members).count(b":") != colons or "TraceID" in members))
        or (b"\\" in raw and (raw.count(b"\\") != body.count(b"\\") or is_unusual(body)))
        or ({*map(type, members.values())} - _TEXT and (is_unusual(body) or may_be_deep(raw)))
        or len(clock) > MOST_CAUSES
    ):
        return None
    sent: tuple[str, int] | None = None
    if tag in (SENT, RECEIVED):
        token = _read_token(members.get("Token"))
        if token is None or not _agrees(token, tag, process, trace, clock):
            return None
        sent = (token[0], token[2][token[0]])
    causes = growth.grown_since_last("", process, own_entry, clock)
    if causes is None:
        causes = growth.grown("", process, clock)
        growth.note("", process, clock)
    elif causes:
        growth.note("", process, clock)
    if sent is not None and tag == RECEIVED:
        causes = [sent, *(cause for cause in causes if cause != sent)]
    inside = body[1:-1].strip().decode()
    return (
        process,
        own_entry,
        SEND if tag == SENT else RECEIVE if causes else LOCAL,
        stamp_key(process, own_entry),
        stamp_key(*causes[0]) if causes else None,
        [stamp_key(*cause) for cause in causes[1:]] if len(causes) > 1 else None,
        tag,
        f'{{"clock":"vector","counters":{clock_text.decode()}}}',
        f'{{{inside}{"," if inside else ""}"TraceID":"{trace}"}}',
        place,
    )


def _read_token(text: object) -> Token | None:
    """Decode a token; None unless it has the shortest encoding, as GoVector writes, in which no key occurs twice."""
    if not isinstance(text, str):
        return None
    return _decode_and_remember(text) if len(text) <= _MOST_REMEMBERED_CHARACTERS else _decode(text)


def _decode(text: str) -> Token | None:
    try:
        raw = _THREE_VALUES + binascii.a2b_base64(text, strict_mode=True)
        token = _decode_token(raw)
    except NOT_TAKEN:
        return None
    sender, _, counters = token
    is_usual = sender in counters and 0 not in counters.values() and "\0" not in "".join(counters)
    return token if is_usual and _encode_token(token) == raw else None


# A token occurs at least twice: where it is made, and where it is received.
_decode_and_remember = lru_cache(maxsize=4_096)(_decode)


def _agrees(token: Token, tag: str, process: str, trace: int, clock: Mapping[str, int]) -> bool:
    """Return whether the token agrees with the line: at a send it has the line's clock, at a receive an earlier one."""
    sender, payload, counters = token
    if payload != trace:
        return False
    if tag == SENT:
        return sender == process and counters == clock
    line_count = clock.get
    for name, count in counters.items():
        if line_count(name, 0) < count:
            return False
    return clock[process] > counters.get(process, 0)
