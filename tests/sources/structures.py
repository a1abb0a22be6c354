"""Bad JSON that knows its structure: one value of a sample spelled wrong, doubled, swapped, nested, cut, of another type.

Byte by byte, a fuzzer mostly makes texts that break at once. These cases stay well formed around the one thing that is
wrong, and so reach what a reader does with a record.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
from hypothesis import strategies as st

from ledto.sources import Source
from ledto.sources.conformance import checked_rows, piece_of

_TOKEN = re.compile(rb'[\[\]{},:]|"(?:[^"\\\n]|\\.)*"|-?\d[\d.eE+-]*|true|false|null')
_OPENING = re.compile(rb"[\[{]")
_SPACES = b" \t\r\n"


@dataclass(frozen=True)
class Node:
    """Where one value stands in a sample."""

    start: int
    stop: int
    key: tuple[int, int] | None
    """Where its key stands, quotes included, if it has one."""
    top: bool
    """Whether it is a whole document."""


@dataclass(frozen=True)
class Case:
    """A bad input."""

    what: str
    data: bytes
    is_wrong: bool
    """Whether it surely is no sequence of strict JSON documents, so that a reader of such has to complain."""


def read_checked(source: Source, case: Case) -> pa.Table:
    """The rows of a case, each held to what a row promises; raises `SourceCheckFailed`."""
    return checked_rows(source, piece_of(case.data), case.what)


def complains(rows: pa.Table) -> bool:
    """Whether any row has a reason."""
    return bool(rows["reason"].null_count < rows.num_rows)


def nodes(sample: bytes) -> list[Node]:
    """Every JSON value in a sample, also of those that stand in a line of other text; text that is none is passed over."""
    found: list[Node] = []
    position = 0
    while opening := _OPENING.search(sample, position):
        start = opening.start()
        inside: list[Node] = []
        try:
            position = _value(sample, start, None, True, inside)
            found += inside
        except ValueError:
            position = start + 1
    return found


def _value(data: bytes, start: int, key: tuple[int, int] | None, top: bool, found: list[Node]) -> int:
    place = len(found)
    token, position = _next(data, start)
    begin = position - len(token)
    closing = {b"{": b"}", b"[": b"]"}.get(token)
    if closing is None and token in b"]},:":
        raise ValueError
    if closing is not None:
        following, after = _next(data, position)
        while following != closing:
            own_key = None
            if closing == b"}":
                own_key = after - len(following), after
                colon, position = _next(data, after)
                if colon != b":":
                    raise ValueError
            position = _value(data, position, own_key, False, found)
            following, after = _next(data, position)
            if following == b",":
                position = after
                following, after = _next(data, position)
            elif following != closing:
                raise ValueError
        position = after
    found.insert(place, Node(begin, position, key, top))
    return position


def _next(data: bytes, position: int) -> tuple[bytes, int]:
    while data[position : position + 1] and data[position : position + 1] in _SPACES:
        position += 1
    token = _TOKEN.match(data, position)
    if token is None:
        raise ValueError
    return token[0], token.end()


Change = Callable[[bytes, list[Node], int, int], "bytes | None"]
"""Sample, its nodes, two numbers to choose with -> the bad input; None where this cannot be done to it."""


def _put(*texts: bytes) -> Change:
    def change(data: bytes, values: list[Node], which: int, how: int) -> bytes:
        node = values[which % len(values)]
        return data[: node.start] + texts[how % len(texts)] + data[node.stop :]

    return change


def _put_text(*texts: bytes) -> Change:
    """Into a text, at its beginning."""

    def change(data: bytes, values: list[Node], which: int, how: int) -> bytes | None:
        among = [node for node in values if data[node.start : node.start + 1] == b'"']
        if not among:
            return None
        at = among[which % len(among)].start + 1
        return data[:at] + texts[how % len(texts)] + data[at:]

    return change


def _cut(data: bytes, values: list[Node], which: int, how: int) -> bytes:
    tops = [node for node in values if node.top]
    node = tops[which % len(tops)]
    return data[: node.start + 1 + how % (node.stop - node.start - 1)]


def _without_a_bracket_or_quote(data: bytes, values: list[Node], which: int, how: int) -> bytes | None:
    among = [node for node in values if data[node.start] in b'{["']
    node = among[which % len(among)]
    at = node.start if how % 2 else node.stop - 1
    return data[:at] + data[at + 1 :]


def _key_twice(data: bytes, values: list[Node], which: int, how: int) -> bytes | None:
    among = [node for node in values if node.key is not None]
    if not among:
        return None
    node = among[which % len(among)]
    assert node.key is not None
    key = data[slice(*node.key)]
    if how % 3 == 0 and key[1:2].isalpha():
        key = b'"\\u00' + b"%02x" % key[1] + key[2:]
    value = b"null" if how % 2 else data[node.start : node.stop]
    return data[: node.stop] + b"," + key + b":" + value + data[node.stop :]


def _key_renamed(data: bytes, values: list[Node], which: int, how: int) -> bytes | None:
    among = [node for node in values if node.key is not None]
    if not among:
        return None
    node = among[which % len(among)]
    assert node.key is not None
    key = data[slice(*node.key)]
    others = (
        key.swapcase(),
        b'""',
        b'" "',
        key[:-1] + b'\\u0000"',
        data[slice(*(among[how % len(among)].key or (0, 0)))],
    )
    return data[: node.key[0]] + others[how % len(others)] + data[node.key[1] :]


def _swapped(data: bytes, values: list[Node], which: int, how: int) -> bytes | None:
    a, b = sorted((values[which % len(values)], values[how % len(values)]), key=lambda node: node.start)
    if a.stop > b.start:
        return None
    return data[: a.start] + data[b.start : b.stop] + data[a.stop : b.start] + data[a.start : a.stop] + data[b.stop :]


def _repeated(data: bytes, values: list[Node], which: int, how: int) -> bytes:
    node = values[which % len(values)]
    copies = b",".join([data[node.start : node.stop]] * (2 + how % 20))
    return data[: node.start] + b"[" + copies + b"]" + data[node.stop :]


def _spliced(data: bytes, values: list[Node], which: int, how: int) -> bytes:
    a, b = values[which % len(values)], values[how % len(values)]
    return data[: a.start] + data[b.start : b.stop] + data[a.stop :]


def _encoded(data: bytes, values: list[Node], which: int, how: int) -> bytes:
    text = data.decode("utf-8", errors="replace")
    return text.encode(("utf-16", "utf-16-le", "utf-32", "cp037")[how % 4], errors="replace")


_NO_JSON = (b"NaN", b"-Infinity", b"undefined", b"01", b"1.", b".5", b"+1", b"0x10", b"'a'", b"True", b"/**/1", b"1,")
_HUGE = (b"9" * 30, b"-" + b"9" * 30, b"1e999", b"-1e999", b"9" * 5_000, b"123456789e400")
_DEEP = tuple(opening * 100 + b"1" + closing * 100 for opening, closing in ((b"[", b"]"), (b'{"a":', b"}")))
_TYPES = (
    *(b"null", b"true", b"false", b"0", b"-1", b"1.5", b"1e3"),
    *(b'""', b'"text"', b'"-9"', b"[]", b"{}", b"[null]", b'{"a":[]}'),
)
_LARGE = (
    *(b"9223372036854775807", b"-9223372036854775808", b"18446744073709551615", b"9007199254740993"),
    *(b'"9223372036854775807"', b'"18446744073709551616"', b'"' + b"f" * 300 + b'"'),
)
_NO_UTF8 = (
    *(b"\xff", b"\xed\xa0\x80", b"\xc3", b"\\ud800", b"\\udc00\\ud800", b"\xf4\x90\x80\x80", b"\xc0\x80"),
    # Longer than what is shown of a bad record, and longer still where each byte is shown as an escape.
    b"\xff" * 3_000,
)
_ODD_TEXT = (b"\\u0000", b"\\n\\r", b"\xe2\x80\xa8", b"\xf0\x9f\x98\x80", b"/", b" ", b"\\ud83d\\ude00", b"-", b"00")

WRONG: dict[str, Change] = {
    "no JSON": _put(*_NO_JSON),
    "a number beyond any": _put(*_HUGE),
    "nested too deep": _put(*_DEEP),
    "a key twice": _key_twice,
    "no UTF-8": _put_text(*_NO_UTF8),
    "a control character": _put_text(b"\x00", b"\n", b"\x1f", b"\\q"),
    "cut off": _cut,
    "a bracket or quote lost": _without_a_bracket_or_quote,
}
"""What no sequence of strict JSON documents is left by."""

STRANGE: dict[str, Change] = {
    "another type": _put(*_TYPES),
    "a large number": _put(*_LARGE),
    "odd text": _put_text(*_ODD_TEXT),
    "a key renamed": _key_renamed,
    "two values swapped": _swapped,
    "a value repeated": _repeated,
    "a value in the place of another": _spliced,
    "another encoding": _encoded,
}
"""What may be right, and mean something else."""


def bad_json(sample: bytes) -> st.SearchStrategy[Case]:
    """Cases of a sample of JSON; that it has values is checked."""
    values = nodes(sample)
    assert values, "the sample holds no JSON"
    number = st.integers(0, 1 << 20)

    def case(first: str, which: int, how: int, second: tuple[str, int, int] | None) -> Case:
        data = (WRONG | STRANGE)[first](sample, values, which, how)
        if data is None:
            return Case("the sample", sample, False)
        if second is None or not (changed := nodes(data)):
            return Case(first, data, first in WRONG)
        what, *choice = second
        again = (WRONG | STRANGE)[what](data, changed, *choice)
        return Case(f"{first}, then {what}", data if again is None else again, False)

    names = st.sampled_from([*WRONG, *STRANGE])
    return st.builds(case, names, number, number, st.none() | st.none() | st.tuples(names, number, number))
