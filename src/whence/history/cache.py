"""A cache of what was read from files, bounded in bytes, the least recently used going first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import TypeVar, cast

Value = TypeVar("Value")


class Cache:
    """Values by key. Threads may share it; two that miss the same key at once may both read it."""

    __slots__ = ("_entries", "_lock", "bytes", "limit_bytes")

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.bytes = 0
        self._entries: OrderedDict[Hashable, tuple[object, int]] = OrderedDict()
        self._lock = Lock()

    def get(self, key: Hashable, read: Callable[[], Value], size: Callable[[Value], int]) -> Value:
        """The value under the key, read where it is not here. One larger than the limit is not kept."""
        with self._lock:
            if (held := self._entries.get(key)) is not None:
                self._entries.move_to_end(key)
                return cast(Value, held[0])
        value = read()
        needed = size(value)
        with self._lock:
            if key not in self._entries and needed <= self.limit_bytes:
                self._entries[key] = value, needed
                self.bytes += needed
                while self.bytes > self.limit_bytes:
                    _, (_, freed) = self._entries.popitem(last=False)
                    self.bytes -= freed
        return value

    def holds(self, key: Hashable) -> bool:
        """Whether the key's value is here now."""
        with self._lock:
            return key in self._entries
