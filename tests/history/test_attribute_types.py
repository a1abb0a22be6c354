from __future__ import annotations

import json
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from ledto.history import attribute_types as types
from ledto.history.attribute_types import attribute_types, merge_types

VALUES: list[Any] = [
    0,
    -7,
    2**63 - 1,
    -(2**63),
    2**63,
    -(2**63) - 1,
    10**30,
    1.5,
    -0.0,
    1e300,
    True,
    False,
    None,
    "",
    "402",
]
VALUES += [[], [1], {}, {"in": 5}, {"in": {"deep": True}}, {"in": None, "a.b": 1, "": 2}]


def naive(objects: list[dict[str, Any]]) -> dict[str, str]:
    """The rule, word for word, over all values of each name."""
    values: dict[str, list[Any]] = {}

    def add(outer: str, members: dict[str, Any]) -> None:
        for name, value in members.items():
            if outer and (not name or "." in name):
                continue
            values.setdefault(outer + name, []).append(value)
            if isinstance(value, dict) and name and "." not in name:
                add(f"{outer}{name}.", value)

    for members in objects:
        add("", members)
    found = {}
    for name, all_values in sorted(values.items()):
        some = [value for value in all_values if value is not None]
        numbers = [value for value in some if type(value) in (int, float)]
        if not some:
            found[name] = "null"
        elif all(type(value) is bool for value in some):
            found[name] = "boolean"
        elif len(numbers) < len(some):
            found[name] = "text"
        else:
            whole = all(type(value) is int and -(2**63) <= value < 2**63 for value in numbers)
            found[name] = "integer" if whole else "number"
    return found


def found_in(objects: list[dict[str, Any]]) -> dict[str, str]:
    return attribute_types(pa.chunked_array([[json.dumps(each) for each in objects]], pa.string()))


@pytest.mark.parametrize("seed", range(40))
def test_an_attribute_has_the_type_of_its_values_however_they_are_cut(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A number that is taken for a text sorts 99 after 402; a run in more pieces must not have other types."""
    random = Random(seed)
    monkeypatch.setattr(types, "TEXTS_AT_ONCE", random.choice((1, 3, 1000)))
    monkeypatch.setattr(types, "MOST_SHAPES", random.choice((1, 1000)))
    of_name = {name: random.sample(VALUES, random.randint(1, 3)) for name in ("a", "b", "in", "http.in", "http", "")}
    objects = [
        {name: random.choice(values) for name, values in of_name.items() if random.random() < 0.7}
        for _ in range(random.randint(0, 12))
    ]
    assert found_in(objects) == naive(objects)
    cut = random.randint(0, len(objects))
    assert merge_types([found_in(objects[:cut]), found_in(objects[cut:])]) == naive(objects)


def test_numbers_that_no_column_holds_are_texts() -> None:
    """They would be infinite: larger than every limit in a condition."""
    texts = pa.chunked_array([['{"a": 1e999, "b": 1}', '{"b": NaN}', '{"c": "\\ud800"}']])
    assert attribute_types(texts) == {"a": "text", "b": "text", "c": "text"}
    assert attribute_types(pa.chunked_array([[None, None]], pa.string())) == {}


def test_objects_nested_without_end_do_not_stop_a_run() -> None:
    """One hostile line would stop the run of all others."""
    text = '{"a":' * 400 + "1" + "}" * 400
    assert len(attribute_types(pa.chunked_array([[text]]))) == types.MOST_DEPTH
