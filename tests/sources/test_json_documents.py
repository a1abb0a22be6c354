"""Walking JSON documents of any size: what is taken is what stands there, and damage takes little with it."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterator
from contextlib import closing, suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledto.sources import FileSlice
from ledto.sources.contract import TornStream
from ledto.sources.json import documents as json_documents
from ledto.sources.json import extent
from ledto.sources.json.documents import Cursor, Damage, DocumentValue, document_rows
from ledto.sources.json.extent import Unfit, value_end
from ledto.sources.rows import Row
from tests.sources.reading import piece

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(-1e9, 1e9) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=25,
)
LAYOUTS = st.sampled_from([{}, {"indent": 1}, {"separators": (",", ":")}, {"ensure_ascii": False, "indent": "\t"}])
MARKER = rb'\{"id":'


def spelled(value: Any, layout: dict[str, Any]) -> bytes:
    return json.dumps(value, **layout).encode()


def taken_rows(cursor: Cursor) -> Iterator[Row]:
    """Lists of records: each record's text is its row's name."""
    if cursor.peek() != b"[":
        taken = cursor.take()
        yield Row(name=taken.raw.decode(errors="replace"), place=taken.offset)
        return
    for _ in cursor.elements():
        taken = cursor.take()
        yield Row(name=taken.raw.decode(errors="replace"), place=taken.offset)


def records(data: bytes) -> list[str]:
    """The records and, in angle brackets, the codes of complaints."""
    rows = document_rows(piece(data), taken_rows, MARKER)
    return [row.name or f"<{(row.reason or '').partition(':')[0]}>" for row in rows]


@settings(max_examples=300)
@given(st.lists(JSON, max_size=6), LAYOUTS, st.sampled_from([b" ", b"\n", b" \r\n"]), st.integers(3, 40))
def test_every_value_is_taken_as_it_stands_with_its_place(
    values: list[Any], layout: dict[str, Any], between: bytes, block_bytes: int
) -> None:
    """A record that lost a byte at the end of a block, or got a neighbour's, would be another record."""
    texts = [spelled(value, layout) for value in values]
    data = b"\xef\xbb\xbf" + b"".join(text + between for text in texts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_documents, "BLOCK_BYTES", block_bytes)
        with closing(Cursor(piece(data))) as cursor:
            found = []
            while cursor.is_at_document():
                found.append(cursor.take())
    assert [taken.raw for taken in found] == texts
    assert all(data[taken.offset : taken.offset + len(taken.raw)] == taken.raw for taken in found)


@settings(max_examples=300)
@given(st.dictionaries(st.text(max_size=4), st.lists(JSON, max_size=4), max_size=5), LAYOUTS, st.integers(3, 40))
def test_members_and_elements_are_those_that_json_itself_reads(
    value: dict[str, list[Any]], layout: dict[str, Any], block_bytes: int
) -> None:
    """A walk that missed a member, or took one for another, would read the spans of one service as another's."""
    wanted = {key for number, key in enumerate(value) if number % 2}
    data = spelled(value, layout)
    found: dict[str, list[Any]] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_documents, "BLOCK_BYTES", block_bytes)
        with closing(Cursor(piece(data))) as cursor:
            for key in cursor.members(wanted):
                found[key] = []
                for _ in cursor.elements():
                    found[key].append(json.loads(cursor.take().raw))
            assert not cursor.is_at_document()
    assert found == {key: value[key] for key in value if key in wanted}


@settings(max_examples=500)
@given(JSON, LAYOUTS, st.data())
def test_an_end_is_found_where_json_finds_it_or_nowhere(
    value: Any, layout: dict[str, Any], data: st.DataObject
) -> None:
    """An end found too early or too late cuts records apart; one found in a text that merely begins alike invents them."""
    text = spelled(value, layout)
    after = data.draw(st.sampled_from([b"", b",", b"]", b" {", b"\n"]))
    assert value_end(text + after, 0, is_all=True) == len(text)
    cut = data.draw(st.integers(0, len(text) - 1))
    assert value_end(text[:cut], 0, is_all=False) is None


RECORDS = ['{"id":1}', '{"id":2,"x":["a,]}"]}', '{"id":3}']
A, B, C = RECORDS


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"[{A},{B},{C}]", RECORDS),
        (f"[{A},\n{B}]\n{C}", RECORDS),
        (f"{A}{B} {C}", RECORDS),
        ("", []),
        (" \n", []),
        ("[]", []),
        (f"[{A},{B}", [A, B, "<not-json>"]),
        (f"[{A},{B},", [A, B, "<not-json>"]),
        (f'[{A},{{"id":', [A, "<not-json>"]),
        (f"[{A} {B},{C}]", [A, "<not-json>", B, C]),
        (f"[{A},,{B},{C}]", [A, "<not-json>", B, C]),
        (f"[{A}}},{B},{C}]", [A, "<not-json>", B, C]),
        (f'[{{"id":1,{B},{C}]', ["<not-json>", B, C]),
        (f'[{{"id":"1}},{B},{C}]', ["<not-json>", B, C]),
        (f'[{{"id":[1}},{B},{C}]', ["<not-json>", B, C]),
        (f"[{A},{B}],{C}", [A, B, "<not-json>", C]),
        (f"{A}\ngarbage\n{B}\n{C}", [A, "<not-json>", B, C]),
        (f'{A}\n{{"id":2,"x":["a\n{C}', [A, "<not-json>", C]),
        (f'{A}\n{{"id":2,"x":\n{B}\n{C}', [A, "<not-json>", B, C]),
        (f"garbage {A} garbage\n{B}", ["<not-json>", A, "<not-json>", B]),
        (f"garbage\n[[1],\n [2]]\n{C}", ["<not-json>", "[1]", "[2]", C]),
    ],
)
def test_after_damage_reading_goes_on_where_a_record_surely_begins(text: str, expected: list[str]) -> None:
    """One lost quote must not take the rest of a large file with it, nor may anything vanish without a word."""
    assert records(text.encode()) == expected


def test_damage_says_where_it_is_what_was_expected_and_where_reading_goes_on() -> None:
    """A user has to find the place in a file of gigabytes."""
    (complaint,) = (row for row in document_rows(piece(f"[{A} {B}]".encode()), taken_rows, MARKER) if row.reason)
    found = "expected ',' or ']', found '{\"id\":2,\"x\":[\"a,]}\"]'"
    assert complaint.reason == f"not-json: at byte 10: {found}; reading goes on at byte 10"
    assert (complaint.place, complaint.text) == (10, "")
    (complaint,) = document_rows(piece(b'[{"a":' + b"x" * 50), taken_rows, MARKER)
    assert complaint.reason == "not-json: at byte 1: the text ends inside of what begins here; the rest is not read"
    assert (complaint.place, complaint.text) == (1, '{"a":' + "x" * 50)


def test_a_record_beyond_the_limit_is_told_and_does_not_hide_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bracket that is never closed would otherwise make one record of the whole file, and hold it in memory."""
    monkeypatch.setattr(json_documents, "BLOCK_BYTES", 64)
    huge = b'{"x":[' + b"1," * 600 + b"1]}"
    for text, after in ((b"[" + huge + b"," + A.encode() + b"]", [A]), (b"[" + huge[:-2], [])):
        limited = Cursor(piece(text), limit_bytes=1_000)
        with closing(limited) as cursor, pytest.raises(Damage, match=r"^record-too-long: at byte 1:") as caught:
            list(taken_rows(cursor))
        rest = text[caught.value.search_from :]
        assert [name for name in records(rest) if name in RECORDS] == after


class Endless:
    """A list of records without end, or nearly so."""

    RECORD = b'{"id":1,"x":[2,"' + b"three" * 200 + b'"]},'

    def __init__(self, size: int) -> None:
        self.left = size // len(self.RECORD)
        self.ready = b"["

    def read(self, wanted: int) -> bytes:
        if len(self.ready) < wanted:
            more = min(wanted // len(self.RECORD) + 1, self.left)
            self.ready += self.RECORD * more
            self.left -= more
        given_bytes, self.ready = self.ready[:wanted], self.ready[wanted:]
        return given_bytes

    def close(self) -> None:
        pass


def test_memory_is_that_of_a_block_whatever_the_size_of_the_file() -> None:
    """Files of many gigabytes are read on machines that have less."""
    tracemalloc.start()
    try:
        with closing(Cursor(FileSlice("endless", lambda _: Endless(30 << 20)))) as cursor:
            taken = 0
            # Its end is missing, which is damage.
            with suppress(Damage):
                for _ in cursor.elements():
                    cursor.take()
                    taken += 1
        assert taken == (30 << 20) // len(Endless.RECORD)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("unit", [b'{"id":1,', b'{"id":[],', b"{\n", b'{"id":"', b'[{"id":1},{"id":'])
def test_files_made_to_be_scanned_again_and_again_are_not(unit: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where every byte may begin a record that never ends, a scan from each would take days for a file of megabytes."""
    monkeypatch.setattr(json_documents, "_RESCANNED_AT_FIRST_BYTES", 1_000)
    scanned_bytes = 0

    def counting(data: bytes, start: int, *, is_all: bool) -> int | None:
        nonlocal scanned_bytes
        try:
            end = value_end(data, start, is_all=is_all)
        except Unfit as error:
            scanned_bytes += error.position - start
            raise
        scanned_bytes += (len(data) if end is None else end) - start
        return end

    monkeypatch.setattr(json_documents, "value_end", counting)
    data = unit * 4_000
    found = records(data)
    assert found
    assert any(name.startswith("<") for name in found)
    assert scanned_bytes < 10 * len(data) + 100_000


class Torn(Endless):
    """As a compressed file that lacks its end."""

    def read(self, wanted: int) -> bytes:
        given_bytes = super().read(wanted)
        if not given_bytes:
            raise TornStream("it ends in the middle of what was compressed")
        return given_bytes


def test_a_torn_file_gives_what_it_holds_and_says_that_it_is_torn() -> None:
    """What was read before the tear is good, and a user has to know that there was more."""
    rows = list(document_rows(FileSlice("torn", lambda _: Torn(3 * len(Endless.RECORD))), taken_rows, MARKER))
    assert [row.reason is None for row in rows] == [True] * 3 + [False] * 2
    assert [(row.reason or "").partition(":")[0] for row in rows[3:]] == ["not-json", "torn-file"]
    assert rows[-1].place == 3 * len(Endless.RECORD) + 1


def test_one_value_in_a_file_is_taken_again_after_rewinding() -> None:
    """What an object is may show by a later key; then it is read from its beginning."""
    with closing(Cursor(piece(b' {"a": 1, "b": 2} '))) as cursor:
        cursor.peek()
        cursor.hold()
        assert next(cursor.members(("b",))) == "b"
        cursor.rewind()
        assert cursor.take() == DocumentValue(1, b'{"a": 1, "b": 2}')


@pytest.mark.parametrize("after", [b"", b" ", b",", b" \n, {", b"]", b"x", b"\0"])
def test_the_end_of_good_json_is_found_quickly_and_in_the_same_place(after: bytes) -> None:
    """Where a record ends must not depend on how that was found, and counting brackets takes thirty times as long."""
    for value in (b"{}", b"[]", b'{"a":"]}\\"","b":[{"c":[1,2]},null]}', '["é",{"x":{}}]'.encode()):
        data = b"  " + value + after
        assert extent.quick_end(data, 2) == 2 + len(value)
        if after != b" \n, {":
            assert extent._container_end(data, 2) == 2 + len(value)
    for torn in (b'{"a":1', b'{"a" 1}', b"[1,]", b"[" * 5_000, b'{"a":"\n"}'):
        with suppress(extent.Unfinished):
            assert extent.quick_end(torn + after, 0) is None
