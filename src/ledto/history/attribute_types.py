"""Find the type of each attribute of a history: that of its values, whatever the source.

An attribute whose values are all whole numbers of 64 bits is an `INTEGER`, one whose values are all numbers a `NUMBER`, one
whose values are all true or false a `BOOLEAN`. Every other is `TEXT`: texts, objects, arrays, and values of several types.
Null has no type of its own: an attribute that is always null is `NULL`.

A member of an object is an attribute, too: ``{"http": {"status": 500}}`` has ``http``, a text, and ``http.status``, an
integer. Members whose names are empty or contain a dot have no name of this kind, nor have those deeper than `MOST_DEPTH`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

NULL, INTEGER, NUMBER, BOOLEAN, TEXT = "null", "integer", "number", "boolean", "text"
NUMERIC = frozenset({INTEGER, NUMBER})

TEXTS_AT_ONCE = 1 << 16
DECODED_AT_ONCE = 1_000
MOST_SHAPES = 10_000
"""The most shapes of objects that are kept before their types are joined."""
MOST_DEPTH = 16
_BIG = "[0-9]{19}"
"""Matches texts that may have a whole number beyond 64 bits. Others need no look at each number."""
_TYPES: dict[type, str] = {
    int: INTEGER,
    float: NUMBER,
    bool: BOOLEAN,
    str: TEXT,
    list: TEXT,
    dict: TEXT,
    type(None): NULL,
}
_DECODE = msgspec.json.Decoder().decode

Shape = tuple[Any, ...]
"""The names of an object's members, then for each the class of its value, or its shape if it is an object."""


def join_types(first: str, second: str) -> str:
    """Give the narrowest type that has all values of both."""
    if first == second or second == NULL:
        return first
    if first == NULL:
        return second
    return NUMBER if {first, second} == NUMERIC else TEXT


def merge_types(parts: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Join the types of several parts of a history; sorted by name."""
    types: dict[str, str] = {}
    for part in parts:
        for name, found in part.items():
            types[name] = join_types(types.get(name, NULL), found)
    return dict(sorted(types.items()))


def attribute_types(texts: pa.ChunkedArray) -> dict[str, str]:
    """Find the types of the attributes in texts of JSON objects; sorted by name."""
    if texts.null_count == len(texts):
        return {}
    # In parts: all texts together would be held twice.
    return merge_types(
        _types_in(pc.unique(texts.slice(start, TEXTS_AT_ONCE).drop_null()))
        for start in range(0, len(texts), TEXTS_AT_ONCE)
    )


def _types_in(texts: pa.Array) -> dict[str, str]:
    big = pc.match_substring_regex(texts, _BIG)
    types: dict[str, str] = {}
    shapes: set[Shape] = set()
    for members in _decoded(texts.filter(pc.invert(big)).to_pylist()):
        shape = (*members, *map(type, members.values()))
        shapes.add(_deep_shape(members) if dict in shape else shape)
        if len(shapes) > MOST_SHAPES:
            types = merge_types((types, *map(_types_of, shapes)))
            shapes.clear()
    shapes.update(map(_deep_shape, _decoded(texts.filter(big).to_pylist())))
    return merge_types((types, *map(_types_of, shapes)))


def _decoded(texts: list[str]) -> Iterator[dict[str, Any]]:
    """Decode texts of objects, many at a time: few enough to stay in the processor's cache."""
    for start in range(0, len(texts), DECODED_AT_ONCE):
        part = texts[start : start + DECODED_AT_ONCE]
        try:
            yield from _DECODE(f"[{','.join(part)}]")
        except msgspec.MsgspecError:
            # Python's reader also takes numbers that no float can hold, which stay texts, and halves of surrogate pairs.
            yield from (json.loads(text, parse_float=_finite, parse_constant=str) for text in part)


def _finite(text: str) -> float | str:
    number = float(text)
    return number if math.isfinite(number) else text


def _deep_shape(members: dict[str, Any], depth: int = 1) -> Shape:
    return (*members, *(_shape_of(value, depth) for value in members.values()))


def _shape_of(value: object, depth: int) -> type | Shape:
    if type(value) is dict and depth < MOST_DEPTH:
        return _deep_shape(value, depth + 1)
    if type(value) is int and not -(1 << 63) <= value < 1 << 63:
        return float
    return type(value)


def _types_of(shape: Shape) -> dict[str, str]:
    return merge_types({name: found} for name, found in _members(shape))


def _members(shape: Shape, outer: str = "") -> Iterator[tuple[str, str]]:
    """Yield name and type of each member, those of objects inside included. Names begin with `outer`."""
    count = len(shape) // 2
    for name, kind in zip(shape[:count], shape[count:], strict=True):
        can_be_reached = name and "." not in name
        if outer and not can_be_reached:
            continue
        yield f"{outer}{name}", TEXT if isinstance(kind, tuple) else _TYPES[kind]
        if isinstance(kind, tuple) and can_be_reached:
            yield from _members(kind, f"{outer}{name}.")


def paths(name: str, types: Mapping[str, str] | None) -> tuple[tuple[str, ...], ...]:
    """List where the value of an attribute may be: under its whole name, or else inside objects.

    Without `types`, it is not known which objects there are.
    """
    parts = tuple(name.split("."))
    nested = len(parts) > 1 and all(parts) and (types is None or parts[0] in types)
    return ((name,), parts) if nested else ((name,),)
