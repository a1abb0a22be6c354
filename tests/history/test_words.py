"""Words are split and hashed the same in Python and compiled, and the index of a segment leaves out no row group."""

from __future__ import annotations

import itertools
import json
from random import Random
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ledto.history import layout
from ledto.history import words as words_module
from ledto.history.word_index import FAILURE, WantedWord, groups_with, index_of_words
from ledto.history.words import hash_pairs, hash_words, hashes_in, json_values, split_words
from ledto.kernels import force_mode

HARD = 'aZ09_ -.\0\n\t"\\/{}[]:,éÉßẞſKİıΣσς٣²京𝒜🙂\u0301\ud83d\U0002f800'
texts = st.one_of(
    st.text(alphabet=HARD, max_size=12),
    st.text(max_size=12),
    st.sampled_from(["ORDER FAILED: 48208", "order.failed", "a\\u0041b", "C:\\name\\t", "17.50e-3", ""]),
)
clean_texts = texts.map(lambda text: text.encode(errors="ignore").decode())
values = st.recursive(
    st.one_of(texts, st.integers(), st.floats(allow_nan=False), st.booleans(), st.none()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)),
    max_leaves=6,
)


def plain_words(text: str) -> list[str]:
    """The words of a text, by Python's own idea of letters and digits."""
    found = "".join(character if character.isalnum() or ord(character) >= 0x20000 else " " for character in text)
    return [
        "".join(next(one for one in (each.casefold(), each.lower(), each) if len(one) == 1) for each in word)
        for word in found.split(" ")
        if word
    ]


def hashes_of(values: list[list[str]]) -> set[int]:
    """The hashes of the words of these values, and of two that follow each other, both without digits."""
    pairs = [
        (first, second)
        for words in values
        for first, second in itertools.pairwise(words)
        if not set(first + second) & set("0123456789")
    ]
    return {*hash_words(word for words in values for word in words).tolist(), *hash_pairs(pairs).tolist()}


def leaves(value: Any) -> list[str]:
    """All values in a document, as JSON spells them, texts as they are."""
    if isinstance(value, dict):
        return [leaf for each in value.values() for leaf in leaves(each)]
    if isinstance(value, list):
        return [leaf for each in value for leaf in leaves(each)]
    return [value if isinstance(value, str) else json.dumps(value)]


@given(texts)
def test_a_text_has_the_words_that_python_sees(text: str) -> None:
    """A word that the search splits otherwise than its user does is never found."""
    assert split_words(text) == plain_words(text)


@given(st.lists(clean_texts, max_size=6))
@example(["a" * 40, "", "é", "b"])
def test_names_have_the_same_words_compiled_and_in_python(names: list[str]) -> None:
    """What is found would depend on how large the log was when it was observed."""
    column = pa.array([None, "left out", *names], pa.string()).slice(2)
    expected = sorted(hashes_of([plain_words(name) for name in names]))
    for mode in ("plain", "compiled"):
        with force_mode(mode):
            assert sorted(set(hashes_in(column, is_json=False).tolist())) == expected, mode
            assert sorted(set(hashes_in(column.cast(pa.large_string()), is_json=False).tolist())) == expected, mode


@given(
    st.lists(
        st.tuples(st.dictionaries(texts, values, max_size=4), st.booleans(), st.sampled_from([None, 1])), max_size=4
    )
)
@example([({"name": "x\ny", "k": 'a"b\\', "n": -1.5e300, "e": "\ud83d\ude42é"}, True, None)])
def test_attributes_have_the_same_words_compiled_and_in_python(
    documents: list[tuple[dict[str, Any], bool, int | None]],
) -> None:
    """An escape that one of them reads otherwise hides a word from every search, or finds the name of an attribute."""
    spelled = [
        json.dumps(document, ensure_ascii=escaped, indent=indent).encode(errors="ignore").decode()
        for document, escaped, indent in documents
    ]
    read = [json.loads(text) for text in spelled]
    column = pa.array(spelled, pa.string())
    values_of = [plain_words(leaf) for document in read for leaf in leaves(document)]
    words = [word for value in values_of for word in value]
    assert sorted(set(words)) == sorted(
        {word for text in spelled for value in json_values(text) for word in split_words(value)}
    )
    expected = sorted(hashes_of(values_of))
    for mode in ("plain", "compiled"):
        with force_mode(mode):
            assert sorted(set(hashes_in(column, is_json=True).tolist())) == expected, mode


@given(st.binary(max_size=40))
def test_no_bytes_lead_the_compiled_loop_astray(data: bytes) -> None:
    """Attributes that are cut or no JSON at all must not read beyond their end: compiled code does not check."""
    column = pa.Array.from_buffers(
        pa.binary(), 1, [None, pa.py_buffer(np.array([0, len(data)], np.int32)), pa.py_buffer(data)]
    )
    with force_mode("compiled"):
        for is_json in (False, True):
            assert len(hashes_in(column.view(pa.string()), is_json=is_json)) <= len(data) + 1


def events_of(names: list[str | None], attributes: list[str | None], errors: list[bool | None], **own: Any) -> pa.Table:
    """A segment of these events."""
    given_columns = {"name": names, "attributes": attributes, "error": errors}
    columns = [
        pa.array(given_columns.get(field.name, [None] * len(names)), field.type).dictionary_encode()
        if field.name in layout.EVENT_DICTIONARIES
        else pa.array(given_columns.get(field.name, [None] * len(names)), field.type)
        for field in layout.EVENTS
    ]
    return pa.table({**dict(zip(layout.EVENTS.names, columns, strict=True)), **own})


class Bytes:
    """A file in memory."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def size(self) -> int:
        return len(self.data)

    def read_at(self, count: int, start: int) -> memoryview:
        return memoryview(self.data)[start : start + count]


@pytest.mark.parametrize(("rows", "group_rows"), [(1, 4), (50, 4), (3_000, 8), (20_000, 512)])
def test_the_index_gives_every_row_group_that_has_a_word(rows: int, group_rows: int) -> None:
    """An event that the index leaves out is never found, however it is asked for."""
    random = Random(rows)
    common = [f"w{number}" for number in range(40)]
    names = [f"{random.choice(common)} {random.choice(common)} {random.randrange(3 * rows)}" for _ in range(rows)]
    names[-1] += " shape ship"
    attributes = [
        None if random.random() < 0.2 else json.dumps({"key": f"u{number}", "n": number % 7}) for number in range(rows)
    ]
    errors = [random.choice((None, False, False, random.random() < 0.01)) for _ in range(rows)]
    sizes = pa.array([number + 0.5 for number in range(rows)])
    with patch.object(layout, "EVENT_ROWS", group_rows):
        index = Bytes(index_of_words(events_of(names, attributes, errors, size=sizes)))
        truth: dict[str, set[int]] = {}
        for row in range(rows):
            for word in (*names[row].split(), *([f"u{row}", str(row % 7)] if attributes[row] else []), str(row), "5"):
                truth.setdefault(word, set()).add(row // group_rows)
        for word in random.sample(sorted(truth), min(len(truth), 2_000)):
            groups = set(groups_with(index, [WantedWord.of(word)]))
            assert truth[word] <= groups, word
        failed = {row // group_rows for row in range(rows) if errors[row]}
        assert failed <= set(groups_with(index, [FAILURE]))
        absent = [f"absent{number}" for number in range(2_000)]
        wrong = sum(1 for word in absent if list(groups_with(index, [WantedWord.of(word)])))
        assert wrong < 200, "the index rules out too little"
        if rows > 1:
            assert list(groups_with(index, [WantedWord.of("ship"), WantedWord.of("ship", "shape")])) == []
            assert list(groups_with(index, [WantedWord.of("shape", "ship")]))
        both = truth["5"] & truth[names[0].split()[0]]
        assert both <= set(groups_with(index, [WantedWord.of("5"), WantedWord.of(names[0].split()[0])]))


def test_an_index_of_another_unicode_does_not_rule_out_what_it_could_not_know() -> None:
    """After an upgrade of Python, a name in a new script would no longer be found."""
    events = events_of(["größe 17"], [None], [None])
    with patch.object(words_module, "UNICODE", (1, 0, 0)), patch("ledto.history.word_index.UNICODE", (1, 0, 0)):
        index = Bytes(index_of_words(events))
    assert list(groups_with(index, [WantedWord.of("neuebuchstabenäöü")])) == [0]
    assert list(groups_with(index, [WantedWord.of("18")])) == []
