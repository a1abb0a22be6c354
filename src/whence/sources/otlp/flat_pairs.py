r"""Lists of keys and values, as OpenTelemetry writes attributes, rewritten as the text of one object each.

``[{"key":"a","value":{"stringValue":"x"}},{"key":"b","value":{"boolValue":true}}]`` becomes ``{"a":"x","b":true}`` by
replacing what stands between keys and values, in many lists at once; no pair becomes an object of Python. That is right
because of three things:

- The lists are good JSON. A quote inside of a JSON text has a backslash before it, so ``},{"key":`` and the like never
  match inside of a text.
- What comes out is parsed. It must be an object whose values are texts, numbers and words, for each list.
- Each object has as many members as its list has ``{"key":``. So no other member was taken for a pair, and no key came
  twice.

A list that fails in one of these, or in which a character is spelled as ``\u0041`` or ``\/``, must be read pair by pair.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec

from whence.sources.sure_json import NOT_TAKEN, NotSure

Flat: TypeAlias = tuple[str, dict[str, Any]]
"""A list of pairs as the text of an object, and as its values."""

Join: TypeAlias = Callable[[bytes], bytes]
"""Replaces what stands between each key and its value by a colon, in many lists, and checks the spelling of numbers."""

_PAIR = b'{"key":'
_PAIR_END = b"}}"
_LIST_BEGIN, _LIST_END = b"[" + _PAIR, _PAIR_END + b"]"
_ESCAPED = re.compile(rb"\\[u/]")
_OBJECTS = msgspec.json.Decoder(dict[str, str | int | float | bool])


def flat_objects(lists: list[bytes], join: Join) -> list[Flat | None]:
    """Each of these lists of good, compact JSON as an object; None for one that must be read pair by pair.

    No list is empty.
    """
    joined = b"\n".join(lists)
    if _ESCAPED.search(joined):
        usual = [None if _ESCAPED.search(each) else each for each in lists]
        found = iter(flat_objects([each for each in usual if each is not None], join))
        return [None if each is None else next(found) for each in usual]
    try:
        written = _without_brackets(join(joined))
        # With a line end inside of a list, there are more lines than objects.
        texts, values = written.decode().split("\n"), _OBJECTS.decode_lines(written)
        return [
            (text, members) if len(members) == pairs.count(_PAIR) else None
            for text, members, pairs in zip(texts, values, lists, strict=True)
        ]
    except NOT_TAKEN:
        return [None] * len(lists)


def _without_brackets(lists: bytes) -> bytes:
    if not (lists.startswith(_LIST_BEGIN) and lists.endswith(_LIST_END)):
        raise NotSure
    within = lists[len(_LIST_BEGIN) : -len(_LIST_END)]
    return b"{%b}" % within.replace(_PAIR_END + b"," + _PAIR, b",").replace(_LIST_END + b"\n" + _LIST_BEGIN, b"}\n{")
