"""An event as a line of the format ``whence``: whatever the application passed, the line is one that the source reads.

One literal line::

    {"process":"shop@k2m7","seq":3,"time":1700000000000000000,"kind":"send","name":"ask","line":"main #q4dx",
     "sends":"shop@k2m7:3","stamp":{"clock":"lamport","time":9,"process":"shop@k2m7"},"attributes":{"order":42}}
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, Final

from whence.clocks import Stamp

NAME_CHARACTERS: Final = 1_000
"""Longer names of events are cut."""
ATTRIBUTES_BYTES: Final = 32 << 10
"""Attributes that take more are replaced by ``{"whence.cut_bytes": their size}``."""

_MOST_DEPTH = 16
_MOST_VALUES = 10_000
_INT64 = 1 << 63
_MAPPINGS = (dict, Mapping)
"""The usual one first: asking an abstract class takes longer."""
_LISTS = (list, tuple, set, frozenset)
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


def name_json(name: object) -> str:
    """A name as JSON text that the source accepts: no NUL, no half of a surrogate pair, of bounded length."""
    text = name if isinstance(name, str) else _shown(name)
    return _encode(_legal(text[:NAME_CHARACTERS]).replace("\0", "�"))


def attributes_json(attributes: Mapping[str, Any]) -> str:
    """Attributes as JSON text that the source accepts. What JSON cannot hold is spelt with `str`."""
    text = _encode(_Plain().value(attributes, 0))
    size = len(text.encode())
    return text if size <= ATTRIBUTES_BYTES else f'{{"whence.cut_bytes":{size}}}'


def line(
    head: str,
    seq: int,
    time_ns: int,
    kind: str,
    name: str,
    attributes: str,
    *,
    on_line: str,
    sends: str | None,
    receives: str | None,
    stamp: Stamp | None,
) -> bytes:
    """One line of text with its end.

    `head` is what `line_head` gives; `name` and `attributes` are JSON text. `on_line` says which line of the process the
    event is on, as members of a JSON object.
    """
    parts = [f'{head}"seq":{seq},"time":{time_ns},"kind":"{kind}","name":{name},{on_line}']
    if sends is not None:
        parts.append(f'"sends":{_encode(sends)}')
    if receives is not None:
        parts.append(f'"receives":{_encode(receives)}')
    if stamp is not None:
        parts.append(f'"stamp":{_encode(stamp.to_json())}')
    if attributes != "{}":
        parts.append(f'"attributes":{attributes}')
    return (",".join(parts) + "}\n").encode()


def line_head(process: str, computation: str) -> str:
    """How all lines of a process begin."""
    return "{" + (f'"computation":{_encode(computation)},' if computation else "") + f'"process":{_encode(process)},'


class _Plain:
    """Turns values into what JSON and 64 bits can hold; the number of values and their depth are bounded."""

    def __init__(self) -> None:
        self._left = _MOST_VALUES

    def value(self, value: object, depth: int) -> Any:
        self._left -= 1
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return _legal(str(value))
        if isinstance(value, int):
            # int(): an enumeration's member is its number. Beyond 64 bits readers of JSON differ.
            return int(value) if -_INT64 <= value < _INT64 else _shown(value)
        if isinstance(value, float):
            return float(value) if math.isfinite(value) else str(float(value))
        is_full = depth >= _MOST_DEPTH or self._left <= 0
        if isinstance(value, _MAPPINGS):
            if is_full:
                return "..."
            return {
                key if isinstance(key, str) else _shown(key): self.value(each, depth + 1)
                for key, each in _first(value.items(), self._left)
            }
        if isinstance(value, _LISTS):
            return "..." if is_full else [self.value(each, depth + 1) for each in _first(value, self._left)]
        return _shown(value)


def _first(values: Any, most: int) -> Any:
    return (each for each, _ in zip(values, range(most), strict=False))


def _legal(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text


def _shown(value: object) -> str:
    try:
        return _legal(str(value)[:NAME_CHARACTERS])
    except Exception:
        return f"<a {type(value).__name__} that cannot be shown>"
