"""Write an event as a line of the format ``ledto``. The source can read the line whatever values the application passed.

One literal line::

    {"process":"shop@k2m7","seq":3,"time":1700000000000000000,"kind":"send","name":"ask","line":"main #q4dx",
     "sends":"shop@k2m7:3","stamp":{"clock":"lamport","time":9,"process":"shop@k2m7"},"attributes":{"order":42}}
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from itertools import islice
from typing import Any, Final

from ledto.clocks import Stamp

NAME_CHARACTERS: Final = 1_000
"""The length of an event's name at most. Longer ones are cut."""
ATTRIBUTES_BYTES: Final = 32 << 10
"""The size of an event's attributes at most. Of larger ones, the largest are left out, and ``ledto.cut_bytes`` has the size
of all."""

_MOST_DEPTH = 16
_MOST_VALUES = 10_000
_INT64 = 1 << 63
_MAPPINGS = (dict, Mapping)
"""The usual one first: `isinstance` of an abstract class takes longer."""
_LISTS = (list, tuple, set, frozenset)
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


def name_json(name: object) -> str:
    """Write a name as JSON text that the source accepts. Cut it, and replace NUL and lone surrogates."""
    text = name if isinstance(name, str) else _to_text(name)
    return _encode(_replace_surrogates(text[:NAME_CHARACTERS]).replace("\0", "�"))


def attributes_json(attributes: Mapping[str, Any]) -> str:
    """Write attributes as JSON text that the source accepts. Values that JSON cannot hold become their `str`."""
    plain = _Plain().convert(attributes, 0)
    text = _encode(plain)
    size = len(text.encode())
    return text if size <= ATTRIBUTES_BYTES else _encode(_leave_out_largest(plain, size))


def _leave_out_largest(plain: dict[str, Any], size: int) -> dict[str, Any]:
    """Keep the smallest attributes, as many as fit: the level of a log record survives a long text beside it."""
    note = {"ledto.cut_bytes": size}
    room = ATTRIBUTES_BYTES - len(_encode(note))
    sizes = {name: len(_encode({name: value}).encode()) for name, value in plain.items()}
    kept = set()
    for name in sorted(sizes, key=sizes.__getitem__):
        room -= sizes[name]
        if room < 0:
            break
        kept.add(name)
    return {name: value for name, value in plain.items() if name in kept} | note


def record_line(
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
    """Write one record, with the newline.

    `head` is the result of `record_head`. `name` and `attributes` are JSON text. `on_line` has the members of the JSON
    object that name the event's line, such as ``"line":"main #q4dx"``.
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


def record_head(process: str, computation: str) -> str:
    """Write the beginning that all records of a process share."""
    return "{" + (f'"computation":{_encode(computation)},' if computation else "") + f'"process":{_encode(process)},'


class _Plain:
    """A conversion of values into ones that JSON and 64 bits can hold, with a bound on their number and depth."""

    def __init__(self) -> None:
        self._budget = _MOST_VALUES
        """How many more values may be converted. Deeper or later ones become ``...``."""

    def convert(self, value: object, depth: int) -> Any:
        self._budget -= 1
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return _replace_surrogates(str(value))
        if isinstance(value, int):
            # int() turns a member of an enumeration into its number. Beyond 64 bits, readers of JSON differ.
            return int(value) if -_INT64 <= value < _INT64 else _to_text(value)
        if isinstance(value, float):
            return float(value) if math.isfinite(value) else str(float(value))
        is_full = depth >= _MOST_DEPTH or self._budget <= 0
        if isinstance(value, _MAPPINGS):
            if is_full:
                return "..."
            return {
                key if isinstance(key, str) else _to_text(key): self.convert(member, depth + 1)
                for key, member in islice(value.items(), self._budget)
            }
        if isinstance(value, _LISTS):
            return "..." if is_full else [self.convert(member, depth + 1) for member in islice(value, self._budget)]
        return _to_text(value)


def _replace_surrogates(text: str) -> str:
    """Replace lone surrogates, which UTF-8 cannot hold."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text


def _to_text(value: object) -> str:
    """Return the value's `str`, cut; a substitute if `str` raises."""
    try:
        return _replace_surrogates(str(value)[:NAME_CHARACTERS])
    except Exception:
        return f"<a {type(value).__name__} that cannot be shown>"
