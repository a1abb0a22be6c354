"""The compiled scanner of JSON lines writes into buffers of fixed size: records that fill each one, and one more.

Compiled code does not check bounds, so a write beyond one would damage memory and perhaps show as a wrong row elsewhere.
``make test-bounds`` runs these with checks; here the rows are compared with those of the reader in Python.
"""

from __future__ import annotations

import json

import numpy as np
import pytest

from ledto.sources.json import scanner as scan
from ledto.sources.json.scanner_values import MOST_KEYS
from ledto.sources.json.strict import MOST_DEPTH
from ledto.sources.lines import LinesBlock
from ledto.sources.native.lines import JsonLines
from ledto.sources.native.scanned import _Scanned
from tests.sources.reading import table

PLAIN = JsonLines(compiled_from_bytes=1 << 60)
COMPILED = JsonLines(compiled_from_bytes=0)


def _taken(data: bytes) -> list[bool]:
    """Scan, and compare the rows with those of the reader in Python; which lines the scanner took."""
    assert table(COMPILED, data).equals(table(PLAIN, data))
    return (_Scanned(LinesBlock(0, 1, data), "ns").status == scan.TAKEN).tolist()


def _line(**fields: object) -> bytes:
    return json.dumps({"process": "a", "seq": 1, **fields}, separators=(",", ":")).encode()


@pytest.mark.parametrize("lines", [1, 2, 63, 64, 65])
@pytest.mark.parametrize("end", [b"", b"\n"], ids=["no line end", "line end"])
def test_one_row_a_line(lines: int, end: bytes) -> None:
    """There is room for one row more than line ends: a last line without one takes it."""
    assert _taken(b"\n".join([_line()] * lines) + end) == [True] * lines


@pytest.mark.parametrize("line", [b"{", b"x", b"{}", b'"', b"-", b'{"', b'{"a":', b'{"a":[', b'{"a":-', b'{"a":f'])
def test_lines_of_a_few_bytes(line: bytes) -> None:
    """The shortest lines make the most rows for their bytes, and end where the scanner wants to read on."""
    assert _taken(b"\n".join([line] * 50)) == [False] * 50


@pytest.mark.parametrize(("extra", "taken"), [(-1, True), (0, True), (1, False)])
def test_fields_that_become_attributes(extra: int, taken: bool) -> None:
    """`MOST_KEYS` fields of the user's own in one line, and one more or fewer."""
    assert _taken(_line(**{f"k{n}": n for n in range(MOST_KEYS + extra)})) == [taken]


@pytest.mark.parametrize(("extra", "taken"), [(-1, True), (0, True), (1, False)])
def test_keys_inside_a_value(extra: int, taken: bool) -> None:
    """Keys of all objects that are open at once share one table; those of a closed object give their room back."""
    flat = {f"k{n}": n for n in range(MOST_KEYS + extra)}
    half = (MOST_KEYS + extra) // 2
    nested = {**{f"k{n}": n for n in range(half - 1)}, "in": {f"k{n}": n for n in range(MOST_KEYS + extra - half)}}
    closed = {"list": [{f"k{n}": n for n in range(MOST_KEYS - 1)}] * 3}
    lines = [_line(x=flat), _line(attributes=flat), _line(x=nested), _line(x=closed)]
    assert _taken(b"\n".join(lines)) == [taken, taken, taken, True]


@pytest.mark.parametrize(("depth", "taken"), [(MOST_DEPTH - 2, True), (MOST_DEPTH - 1, True), (MOST_DEPTH, False)])
@pytest.mark.parametrize(("opened", "closed"), [(b"[", b"]"), (b'{"k":', b"}")], ids=["arrays", "objects"])
def test_values_inside_each_other(depth: int, taken: bool, opened: bytes, closed: bytes) -> None:
    """As deep as may be, and one deeper; the object of the line itself counts."""
    value = opened * depth + (b"1" if opened != b"[" else b"") + closed * depth
    assert _taken(_line()[:-1] + b',"x":' + value + b"}") == [taken]


def test_attributes_take_no_more_room_than_the_lines() -> None:
    """The room for attributes is that of the block: with the shortest fields of ledto's own they come nearest to it."""
    lines = [_line(**{f"{n}": 0 for n in range(MOST_KEYS)}), _line(attributes={"a": "b" * 500}), _line(**{"": ""})]
    data = b"\n".join(lines * 20)
    assert _taken(data) == [True] * 60
    found = _Scanned(LinesBlock(0, 1, data), "ns")
    assert int(found._attribute_ends[found.row_count - 1]) <= len(data) - 20 * len(lines)


def test_texts_with_escapes_are_not_longer_than_they_were() -> None:
    """The room for texts is their length in the file."""
    names = ['"' * 40, "\\" * 40, "\n\t\r\b\f/" * 8, "", "a"]
    data = b"\n".join(_line(name=name) for name in names)
    assert _taken(data) == [True] * len(names)
    assert table(COMPILED, data)["name"].to_pylist() == names


def test_numbers_at_the_ends_of_64_bits() -> None:
    """What might not fit is left to Python, digit by digit."""
    numbers = [8 * 10**18, -8 * 10**18, 10**18 - 1, (1 << 63) - 1, -(1 << 63)]
    data = b"\n".join(_line(time=number) for number in numbers)
    assert _taken(data) == [True, True, True, False, False]
    assert table(COMPILED, data)["time"].to_pylist() == numbers
    assert np.iinfo(np.int64).max == numbers[3]
