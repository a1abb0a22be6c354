"""Lines of the tracing library as it writes them, decoded by msgspec; all else is left to `whence.sources.tracing`.

What is taken here would be taken there, and give the same row. What msgspec lets through, and how it is found, is said in
`whence.sources.quick_objects`.
"""

from __future__ import annotations

import binascii
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

from whence.clocks.wire import MAX_COUNTER, MAX_NAME_BYTES
from whence.events.schema import LOCAL, RECEIVE, SEND
from whence.sources.quick_objects import NOT_TAKEN, is_unusual, may_be_deep
from whence.sources.rows import MOST_CAUSES, Row
from whence.sources.vectors import Growth, stamp_key

SENT: Final = "GenerateTokenTrace"
RECEIVED: Final = "ReceiveTokenTrace"

MOST_TRACE: Final = (1 << 64) - 1
_MOST_NAME_CHARACTERS = MAX_NAME_BYTES // 4
_THREE_VALUES = b"\x93"
"""In MessagePack, the head of an array of the three values that a token is."""


class _Line(Struct, forbid_unknown_fields=True):
    TracerIdentity: str
    TraceID: int
    Tag: str
    Body: dict[str, Any]
    VectorClock: dict[str, int]


class _Texts(Struct):
    """The texts of the members that keep theirs; the others are passed over."""

    Body: Raw
    VectorClock: Raw


Token = tuple[str, int, dict[str, int]]

_decode_line = msgspec.json.Decoder(_Line).decode
_decode_texts = msgspec.json.Decoder(_Texts).decode
_encode_line = msgspec.json.Encoder().encode
_decode_token = msgspec.msgpack.Decoder(Token).decode
_encode_token = msgspec.msgpack.Encoder().encode


def quick_row(raw: bytes, file: str, place: int, growth: Callable[[], Growth]) -> Row | None:
    """The row of a line; None if it must be left, and then nothing was noted in `growth`."""
    try:
        line, texts = _decode_line(raw), _decode_texts(raw)
    except NOT_TAKEN:
        return None
    process, trace, tag, clock, body = line.TracerIdentity, line.TraceID, line.Tag, line.VectorClock, bytes(texts.Body)
    if (
        _encode_line(line).count(b":") != raw.count(b":")
        or may_be_deep(raw)
        or (b"\\u00" in raw and is_unusual(raw))
        or (len(body) > 2 and (is_unusual(body) or "TraceID" in line.Body))
        or not (tag and 0 <= trace <= MOST_TRACE and _is_plain(clock, process))
    ):
        return None
    sent: tuple[str, int] | None = None
    if tag in (SENT, RECEIVED):
        token = _token(line.Body.get("Token"))
        if token is None or not _fits(token, tag, process, trace, clock):
            return None
        sent = (token[0], token[2][token[0]])
    known = growth()
    causes = known.grown("", process, clock)
    if sent is not None and tag == RECEIVED:
        causes = [sent, *(cause for cause in causes if cause != sent)]
    if len(causes) > MOST_CAUSES:
        return None
    known.note("", process, clock)
    own = clock[process]
    inside = body[1:-1].strip().decode()
    return Row(
        process=process,
        seq=own,
        kind=SEND if tag == SENT else RECEIVE if causes else LOCAL,
        sends=stamp_key(process, own),
        receives=stamp_key(*causes[0]) if causes else None,
        receives_more=[stamp_key(*cause) for cause in causes[1:]] if len(causes) > 1 else None,
        name=tag,
        stamp=f'{{"clock":"vector","counters":{bytes(texts.VectorClock).decode()}}}',
        attributes=f'{{{inside}{"," if inside else ""}"TraceID":"{trace}"}}',
        file=file,
        place=place,
    )


def _is_plain(clock: Mapping[str, int], process: str) -> bool:
    """Whether this surely is a clock, and counts its own process."""
    return (
        bool(process and clock.get(process))
        and "" not in clock
        and min(clock.values()) >= 0
        and max(clock.values()) <= MAX_COUNTER
        and max(map(len, clock)) <= _MOST_NAME_CHARACTERS
    )


def _token(text: object) -> Token | None:
    """The token, if it is spelled in the shortest way, as GoVector does; that leaves out keys given twice."""
    try:
        raw = _THREE_VALUES + binascii.a2b_base64(text, strict_mode=True)  # type: ignore[arg-type]
        token = _decode_token(raw)
    except (*NOT_TAKEN, TypeError):
        return None
    return token if _encode_token(token) == raw and _is_plain(token[2], token[0]) else None


def _fits(token: Token, tag: str, process: str, trace: int, clock: Mapping[str, int]) -> bool:
    """Whether the token says what the line says: that of a send all of it, that of a receive what was known before."""
    sender, payload, counters = token
    if payload != trace or 0 in counters.values() or any("\0" in name for name in counters):
        return False
    if tag == SENT:
        return sender == process and counters == clock
    known = clock.get
    return all(known(name, 0) >= count for name, count in counters.items()) and clock[process] > counters.get(
        process, 0
    )
