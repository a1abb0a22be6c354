"""Scan JSON lines in the format ``ledto`` at compiled speed. Take a line only if every byte of it is clear.

A line that it takes gives the same row as `ledto.sources.native.records.row_from_line`. It leaves all other lines to that
function: those with an error of any kind, escapes of more than one letter, exponents, lists of messages, joined lines or
vector stamps. So this module decides nothing about what a record means.
"""

from __future__ import annotations

from typing import Any, Final, cast

import numpy as np

from ledto.events.schema import FIRST, KINDS, LOCAL, RECEIVE, SEND
from ledto.kernels import Kernel, inlined, kernel, part
from ledto.sources.json.scanner_values import (
    BACKSLASH,
    BYTES,
    CLOSE_BRACE,
    COLON,
    COMMA,
    EMPTY_OBJECT,
    INTEGER,
    LINE_END,
    MINUS,
    MOST_KEYS,
    NULL,
    OBJECT,
    OPEN_BRACE,
    OPEN_BRACKET,
    QUOTE,
    STRING,
    UNSURE,
    ZERO,
    after_space,
    container_end,
    integer_of,
    iso_time,
    same_text,
    scalar_end,
    string_end,
)
from ledto.sources.json.strict import MOST_DEPTH
from ledto.sources.record_fields import JSON_FIELDS, REQUEST_IDS, SPAN_IDS, TRACE_IDS

TAKEN: Final = 1
LEFT: Final = 2
"""The status of a line: the scanner took it, or left it to the exact reader."""

TEXT_COLUMNS: Final = (
    *("computation", "process", "sends", "receives", "id", "name", "stamp"),
    *("line", "line_span", "line_parent", "line_phase"),
)
"""The columns of texts. A line that a trace and a span name has the span in ``line_span``."""
COMPUTATION, PROCESS, SENDS, RECEIVES, ID, NAME, STAMP, LINE, LINE_SPAN, LINE_PARENT, LINE_PHASE = range(
    len(TEXT_COLUMNS)
)
INTEGER_COLUMNS: Final = ("seq", "time", "arrival")
SEQ, TIME, ARRIVAL = range(len(INTEGER_COLUMNS))
_MISSING = -1
"""The length of a text that a record does not have, and the number of an id that it does not have."""
_LOCAL, _SEND, _RECEIVE, _NO_KIND = KINDS.index(LOCAL), KINDS.index(SEND), KINDS.index(RECEIVE), len(KINDS)
"""The number of each kind of event in `KINDS`, and of none."""

_F_COMPUTATION = JSON_FIELDS.index("computation")
_F_PROCESS = JSON_FIELDS.index("process")
_F_SEQ = JSON_FIELDS.index("seq")
_F_TIME = JSON_FIELDS.index("time")
_F_ARRIVAL = JSON_FIELDS.index("arrival")
_F_KIND = JSON_FIELDS.index("kind")
_F_MESSAGE = JSON_FIELDS.index("message")
_F_SENDS = JSON_FIELDS.index("sends")
_F_RECEIVES = JSON_FIELDS.index("receives")
_F_ID = JSON_FIELDS.index("id")
_F_NAME = JSON_FIELDS.index("name")
_F_STAMP = JSON_FIELDS.index("stamp")
_F_ATTRIBUTES = JSON_FIELDS.index("attributes")
_F_LINE = JSON_FIELDS.index("line")
_F_LINE_PARENT = JSON_FIELDS.index("line_parent")
_F_LINE_JOINS = JSON_FIELDS.index("line_joins")
_F_LINE_PHASE = JSON_FIELDS.index("line_phase")
_F_UNKNOWN = len(JSON_FIELDS)
"""The number of each field, and of all others."""
_NAMES = np.frombuffer("".join(JSON_FIELDS).encode(), np.uint8)
_NAME_AT = np.cumsum([0, *map(len, JSON_FIELDS)]).astype(np.int64)

_IDS = tuple(name.encode() for name in (*TRACE_IDS, *SPAN_IDS, *REQUEST_IDS))
_ID_NAMES = np.frombuffer(b"".join(_IDS), np.uint8)
_ID_AT = np.cumsum([0, *map(len, _IDS)]).astype(np.int64)
_FIRST_SPAN_ID, _FIRST_REQUEST_ID, _NO_ID = len(TRACE_IDS), len(TRACE_IDS) + len(SPAN_IDS), len(_IDS)
_ID_END = ord("d")
"""The last letter of all these names: most other names need not be compared."""
_VECTOR = np.frombuffer(b'"vector"', np.uint8)
_LOCAL_TEXT, _SEND_TEXT, _RECEIVE_TEXT, _FIRST_TEXT = (
    np.frombuffer(text.encode(), np.uint8) for text in (LOCAL, SEND, RECEIVE, FIRST)
)


@part
def _field(data: Any, start: int, stop: int) -> int:
    """Return the number of the field with this name, or `_F_UNKNOWN`."""
    for field in range(_F_UNKNOWN):
        at = _NAME_AT[field]
        if _NAME_AT[field + 1] - at == stop - start:
            i = 0
            while i < stop - start and data[start + i] == _NAMES[at + i]:
                i += 1
            if i == stop - start:
                return field
    return _F_UNKNOWN


@part
def _id(data: Any, start: int, stop: int) -> int:
    """Return the number of the id of a trace, span or request with this name, or `_NO_ID`."""
    for number in range(_NO_ID):
        at = _ID_AT[number]
        if _ID_AT[number + 1] - at == stop - start:
            i = 0
            while i < stop - start and data[start + i] == _ID_NAMES[at + i]:
                i += 1
            if i == stop - start:
                return number
    return _NO_ID


@part
def _is(data: Any, start: int, stop: int, text: Any) -> bool:
    """Return whether these bytes are the text."""
    if stop - start != len(text):
        return False
    i = 0
    while i < len(text) and data[start + i] == text[i]:
        i += 1
    return i == len(text)


@inlined
def _names_line(kind: int, start: int, stop: int) -> bool:
    """Return whether the value of the field ``line`` is text that is not empty. Any other value stays an attribute."""
    return kind == STRING and stop - start > 2


@part
def _holds(data: Any, start: int, stop: int, text: Any) -> bool:
    """Return whether the text occurs in these bytes."""
    at = start
    while at <= stop - len(text) and not (data[at] == text[0] and _is(data, at, at + len(text), text)):
        at += 1
    return at <= stop - len(text)


@part
def _set_text(
    data: Any,
    row: int,
    spans: Any,
    span: int,
    kind: int,
    start: int,
    stop: int,
    escapes: int,
    may_be_empty: bool,
    may_be_integer: bool,
) -> bool:
    """Write where a text is; False if the value is not text, or is empty and may not be."""
    if kind == STRING:
        start, stop = start + 1, stop - 1
        if start == stop and not may_be_empty:
            return False
    # The exact reader writes -0 as 0.
    elif kind != INTEGER or not may_be_integer or (data[start] == MINUS and data[start + 1] == ZERO):
        return False
    spans[span, row, 0], spans[span, row, 1], spans[span, row, 2] = start, stop - start, escapes
    return True


@part
def _first_id(data: Any, first: int, stop: int, id_at: Any, zeros: bool) -> int:
    """Return the number of the first of these ids that names something, or `_MISSING`. Zeros count only if `zeros`."""
    for number in range(first, stop):
        at, end = id_at[number, 0], id_at[number, 1]
        if at < end:
            while not zeros and at < end and data[at] == ZERO:
                at += 1
            if at < end:
                return number
    return _MISSING


@part
def _set_named_line(data: Any, id_at: Any, row: int, spans: Any) -> None:
    """Write the line that the ids of a record name, if it has ids."""
    span = _MISSING
    named = _first_id(data, 0, _FIRST_SPAN_ID, id_at, False)
    if named != _MISSING:
        span = _first_id(data, _FIRST_SPAN_ID, _FIRST_REQUEST_ID, id_at, False)
    else:
        named = _first_id(data, _FIRST_REQUEST_ID, _NO_ID, id_at, True)
    if named != _MISSING:
        spans[LINE, row, 0], spans[LINE, row, 1] = id_at[named, 0], id_at[named, 1] - id_at[named, 0]
        spans[LINE, row, 2] = id_at[named, 2]
    if span != _MISSING:
        spans[LINE_SPAN, row, 0], spans[LINE_SPAN, row, 1] = id_at[span, 0], id_at[span, 1] - id_at[span, 0]
        spans[LINE_SPAN, row, 2] = id_at[span, 2]


@part
def _resolve(
    data: Any,
    unit_ns: int,
    unknowns: int,
    kind_of: Any,
    begin: Any,
    close: Any,
    escaped: Any,
    ids: int,
    id_at: Any,
    row: int,
    spans: Any,
    integers: Any,
    integer_known: Any,
    kinds: Any,
) -> bool:
    """Write the row of a line from its members; False to leave the line to the exact reader."""
    for span in range(len(TEXT_COLUMNS)):
        spans[span, row, 1] = _MISSING
    for field in range(_F_UNKNOWN):
        if kind_of[field] == NULL:
            kind_of[field] = 0
    for field, span, may_be_empty, may_be_integer in (
        (_F_COMPUTATION, COMPUTATION, True, False),
        (_F_PROCESS, PROCESS, False, False),
        (_F_NAME, NAME, True, False),
        (_F_ID, ID, False, True),
        (_F_SENDS, SENDS, False, True),
        (_F_RECEIVES, RECEIVES, False, True),
        (_F_LINE_PARENT, LINE_PARENT, False, False),
        (_F_LINE_PHASE, LINE_PHASE, False, False),
    ):
        kind = kind_of[field]
        if kind and not _set_text(data, row, spans, span, kind, begin[field], close[field], escaped[field],
                                  may_be_empty, may_be_integer):  # fmt: skip
            return False
    if not kind_of[_F_PROCESS] or kind_of[_F_LINE_JOINS]:
        return False
    if _names_line(kind_of[_F_LINE], begin[_F_LINE], close[_F_LINE]):
        _set_text(data, row, spans, LINE, STRING, begin[_F_LINE], close[_F_LINE], escaped[_F_LINE], False, False)
    elif ids:
        _set_named_line(data, id_at, row, spans)
    if (kind_of[_F_LINE_PARENT] or kind_of[_F_LINE_PHASE]) and spans[LINE, row, 1] == _MISSING:
        return False
    if kind_of[_F_LINE_PHASE] and not _is(data, begin[_F_LINE_PHASE] + 1, close[_F_LINE_PHASE] - 1, _FIRST_TEXT):
        return False
    for field, place in ((_F_SEQ, SEQ), (_F_TIME, TIME), (_F_ARRIVAL, ARRIVAL)):
        kind = kind_of[field]
        integer_known[place, row] = kind != 0
        if kind == INTEGER:
            integers[place, row] = integer_of(data, begin[field], close[field])
        elif kind == STRING and field != _F_SEQ and not escaped[field]:
            time, good = iso_time(data, begin[field] + 1, close[field] - 1, unit_ns)
            if not good:
                return False
            integers[place, row] = time
        elif kind:
            return False
        else:
            integers[place, row] = 0
    if not kind_of[_F_SEQ] and not kind_of[_F_TIME]:
        return False
    if kind_of[_F_ATTRIBUTES] and (
        unknowns or (kind_of[_F_ATTRIBUTES] != OBJECT and kind_of[_F_ATTRIBUTES] != EMPTY_OBJECT)
    ):
        return False
    event_kind = _NO_KIND
    if kind_of[_F_KIND]:
        first, last = begin[_F_KIND] + 1, close[_F_KIND] - 1
        if kind_of[_F_KIND] != STRING:
            return False
        if _is(data, first, last, _LOCAL_TEXT):
            event_kind = _LOCAL
        elif _is(data, first, last, _SEND_TEXT):
            event_kind = _SEND
        elif _is(data, first, last, _RECEIVE_TEXT):
            event_kind = _RECEIVE
        else:
            return False
    message = kind_of[_F_MESSAGE]
    if message:
        if event_kind == _SEND:
            span = SENDS
        elif event_kind == _RECEIVE:
            span = RECEIVES
        else:
            return False
        if spans[span, row, 1] != _MISSING:
            return False
        if not _set_text(data, row, spans, span, message, begin[_F_MESSAGE], close[_F_MESSAGE],
                         escaped[_F_MESSAGE], False, True):  # fmt: skip
            return False
    sends, receives = spans[SENDS, row, 1] != _MISSING, spans[RECEIVES, row, 1] != _MISSING
    if (event_kind == _SEND and not sends) or (event_kind == _RECEIVE and not receives):
        return False
    if event_kind == _LOCAL and receives:
        return False
    if kind_of[_F_STAMP]:
        if kind_of[_F_STAMP] != OBJECT:
            return False
        # The exact reader compares a vector clock with those before it, so it must see all of them.
        if _holds(data, begin[_F_STAMP], close[_F_STAMP], _VECTOR):
            return False
        spans[STAMP, row, 0], spans[STAMP, row, 2] = begin[_F_STAMP], 0
        spans[STAMP, row, 1] = close[_F_STAMP] - begin[_F_STAMP]
    if event_kind == _NO_KIND:
        event_kind = _RECEIVE if receives else (_SEND if sends else _LOCAL)
    kinds[row] = event_kind
    return True


@kernel(
    f"int64({BYTES}, int64, int64, int64, boolean, int64, int64[:, ::1], uint8[::1], "
    "int32[:, :, ::1], int64[:, ::1], uint8[:, ::1], uint8[::1], int64[::1], uint8[::1])",
    plain=False,
)
def scan(
    data: Any,
    start: int,
    stop: int,
    unit_ns: int,
    all_utf8: bool,
    line_limit: int,
    lines: Any,
    status: Any,
    spans: Any,
    integers: Any,
    integer_known: Any,
    kinds: Any,
    attribute_ends: Any,
    attributes: Any,
) -> int:
    """Scan the lines of ``data[start:stop]``; return the number of rows.

    Each line that is not blank is a row. Writes, for each row: ``lines``, its number in the block, start and stop;
    ``status``, `TAKEN` or `LEFT`. For a row that is taken, also: ``spans``, the start, length and number of escapes of
    each of `TEXT_COLUMNS` (`_MISSING` as length if there is no text); ``integers``, each of `INTEGER_COLUMNS`, and
    ``integer_known``, whether there is one; ``kinds``, a number of `ledto.events.schema.KINDS`; ``attribute_ends``, where
    its attributes end in ``attributes``. They begin where those of the row before it end.
    """
    frames = np.empty((MOST_DEPTH, 2), np.int64)
    keys = np.empty((MOST_KEYS, 2), np.int64)
    unknown = np.empty((MOST_KEYS, 4), np.int64)
    # Of each field's value: its kind (0 if the field is missing), where it begins and ends, its number of escapes.
    kind_of = np.zeros(_F_UNKNOWN, np.int64)
    begin = np.zeros(_F_UNKNOWN, np.int64)
    close = np.zeros(_F_UNKNOWN, np.int64)
    escaped = np.zeros(_F_UNKNOWN, np.int64)
    # Where the text of each id begins and ends, and its number of escapes. An id that is not text has length 0.
    id_at = np.zeros((_NO_ID, 3), np.int64)
    rows, written = 0, 0
    line_start, number = start, 0
    while line_start < stop:
        line_end = line_start
        while line_end < stop and data[line_end] != LINE_END:
            line_end += 1
        at = after_space(data, line_start, line_end)
        if at < line_end:
            lines[rows, 0], lines[rows, 1], lines[rows, 2] = number, line_start, line_end
            is_taken = line_end - line_start <= line_limit and data[at] == OPEN_BRACE
            unknowns, ids = 0, 0
            if is_taken:
                kind_of[:] = 0
                at = after_space(data, at + 1, line_end)
                more = not (at < line_end and data[at] == CLOSE_BRACE)
                while more:
                    is_taken = False
                    if at >= line_end or data[at] != QUOTE:
                        break
                    key_start = at
                    key_stop, escapes = string_end(data, at + 1, line_end, all_utf8)
                    if key_stop == UNSURE or escapes:
                        break
                    at = after_space(data, key_stop, line_end)
                    if at >= line_end or data[at] != COLON:
                        break
                    at = after_space(data, at + 1, line_end)
                    value_start = at
                    if at < line_end and (data[at] == OPEN_BRACE or data[at] == OPEN_BRACKET):
                        at, kind = container_end(data, at, line_end, all_utf8, frames, keys)
                        escapes = 0
                    else:
                        at, kind, escapes = scalar_end(data, at, line_end, all_utf8)
                    if at == UNSURE:
                        break
                    field = _field(data, key_start + 1, key_stop - 1)
                    if field != _F_UNKNOWN:
                        if kind_of[field]:
                            break
                        kind_of[field] = kind
                        begin[field], close[field], escaped[field] = value_start, at, escapes
                    if field == _F_UNKNOWN or (field == _F_LINE and not _names_line(kind, value_start, at)):
                        if unknowns == MOST_KEYS:
                            break
                        twice = False
                        for other in range(unknowns):
                            if same_text(data, unknown[other, 0], unknown[other, 1], key_start, key_stop):
                                twice = True
                                break
                        if twice:
                            break
                        unknown[unknowns, 0], unknown[unknowns, 1] = key_start, key_stop
                        unknown[unknowns, 2], unknown[unknowns, 3] = value_start, at
                        unknowns += 1
                        if kind == STRING and data[key_stop - 2] == _ID_END:
                            number_of_id = _id(data, key_start + 1, key_stop - 1)
                            if number_of_id != _NO_ID:
                                if not ids:
                                    id_at[:] = 0
                                ids += 1
                                id_at[number_of_id, 0], id_at[number_of_id, 1] = value_start + 1, at - 1
                                id_at[number_of_id, 2] = escapes
                    at = after_space(data, at, line_end)
                    if at >= line_end:
                        break
                    if data[at] == COMMA:
                        at = after_space(data, at + 1, line_end)
                        is_taken = True
                    elif data[at] == CLOSE_BRACE:
                        is_taken = True
                        more = False
                    else:
                        break
                if is_taken:
                    is_taken = after_space(data, at + 1, line_end) == line_end
            if is_taken:
                is_taken = _resolve(
                    data, unit_ns, unknowns, kind_of, begin, close, escaped, ids, id_at,
                    rows, spans, integers, integer_known, kinds,
                )  # fmt: skip
            if is_taken:
                if unknowns:
                    attributes[written] = OPEN_BRACE
                    written += 1
                    for i in range(unknowns):
                        if i:
                            attributes[written] = COMMA
                            written += 1
                        for source in range(unknown[i, 0], unknown[i, 1]):
                            attributes[written] = data[source]
                            written += 1
                        attributes[written] = COLON
                        written += 1
                        for source in range(unknown[i, 2], unknown[i, 3]):
                            attributes[written] = data[source]
                            written += 1
                    attributes[written] = CLOSE_BRACE
                    written += 1
                elif kind_of[_F_ATTRIBUTES] == OBJECT:
                    for source in range(begin[_F_ATTRIBUTES], close[_F_ATTRIBUTES]):
                        attributes[written] = data[source]
                        written += 1
            attribute_ends[rows] = written
            status[rows] = TAKEN if is_taken else LEFT
            rows += 1
        line_start = line_end + 1
        number += 1
    return rows


def scanning_pays(seconds: float) -> bool:
    """Return whether scanning saves time for input that takes so many seconds without it.

    If not, the seconds count as spent: once they add up to what loading the scanner takes, it pays
    (`ledto.kernels.Kernel.count_and_decide`).
    """
    return cast("Kernel", scan).count_and_decide(seconds)


@kernel(f"void({BYTES}, int32[:, ::1], int64[::1], int32[::1], uint8[::1])", plain=False)
def copy_texts(data: Any, spans: Any, rows: Any, ends: Any, out: Any) -> None:
    """Copy the texts of these rows one after the other, with escapes decoded; ``ends[i + 1]`` is the end of the i-th."""
    written = 0
    ends[0] = 0
    for i in range(len(rows)):
        start, length, escapes = spans[rows[i], 0], spans[rows[i], 1], spans[rows[i], 2]
        if escapes:
            at = start
            while at < start + length:
                byte = data[at]
                if byte == BACKSLASH:
                    at += 1
                    byte = data[at]
                    # \b \f \n \r \t
                    if byte == 98:
                        byte = 8
                    elif byte == 102:
                        byte = 12
                    elif byte == 110:
                        byte = 10
                    elif byte == 114:
                        byte = 13
                    elif byte == 116:
                        byte = 9
                out[written] = byte
                written += 1
                at += 1
        else:
            for at in range(start, start + length):
                out[written] = data[at]
                written += 1
        ends[i + 1] = written
