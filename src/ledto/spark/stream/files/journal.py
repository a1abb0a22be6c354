"""Record on disk which files a followed folder gave, in order: the numbers that Spark's offsets count.

A folder changes and remembers nothing. Each piece of a file is recorded and synced, with its number, before an offset
that covers it is given out. So the same numbers mean the same bytes after any restart.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from ledto.spark.stream.contract import StreamSourceError

_LOCK_SECONDS: Final = 10.0
_LOCK_PAUSE_SECONDS: Final = 0.05


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """A piece of a file, as it was when it was first seen."""

    number: int
    name: str
    location: str
    size_bytes: int
    modified_ns: int
    arrival_ns: int
    """The modification time, or that of an earlier file if it is later: never falls with the number."""
    format: str | None
    start: int = 0
    stop: int | None = None
    lines_before: int = 0

    @property
    def weight_bytes(self) -> int:
        """How many bytes there are to read."""
        return (self.size_bytes if self.stop is None else min(self.stop, self.size_bytes)) - self.start


class Journal:
    """An append-only file of lines of JSON, held by one process at a time.

    The first line is its head: the journal's random name, the next number, and the latest arrival. A torn last line was
    never relied on, and is cut off.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._lock = _lock_file(path.with_name(path.name + ".lock"))
        self._entries: dict[int, JournalEntry] = {}
        self.locations: set[str] = set()
        self.name = os.urandom(8).hex()
        self.next = 0
        """The number that the next piece will get."""
        self.arrival_ns = -(1 << 63)
        """The latest arrival so far."""
        if path.exists():
            self._load()
        else:
            self._rewrite()
        self._file = path.open("ab")

    def _load(self) -> None:
        """Read the journal; raises `StreamSourceError` if it is damaged."""
        data = self._path.read_bytes()
        whole = data.rfind(b"\n") + 1
        lines = data[:whole].splitlines()
        try:
            head: dict[str, Any] = json.loads(lines[0])
            self.name, self.next, self.arrival_ns = head["journal"], head["next"], head["arrival_ns"]
            for line in lines[1:]:
                self._remember(JournalEntry(**json.loads(line)))
        except (IndexError, KeyError, TypeError, ValueError):
            raise StreamSourceError(
                f"{self._path} is not a journal of files, or is damaged; start with a new checkpoint and history"
            ) from None
        if whole < len(data):
            os.truncate(self._path, whole)

    def _remember(self, entry: JournalEntry) -> None:
        self._entries[entry.number] = entry
        self.locations.add(entry.location)
        self.next = max(self.next, entry.number + 1)
        self.arrival_ns = max(self.arrival_ns, entry.arrival_ns)

    def append(self, pieces: Sequence[JournalEntry]) -> None:
        """Record these pieces, durably when this returns. Their numbers go on from `next`."""
        if not pieces:
            return
        self._file.write(b"".join(_line(asdict(piece)) for piece in pieces))
        self._file.flush()
        os.fsync(self._file.fileno())
        for piece in pieces:
            self._remember(piece)

    def between(self, start: int, stop: int) -> list[JournalEntry]:
        """Get the pieces ``start <= number < stop``; raises `StreamSourceError` if one is not recorded."""
        try:
            return [self._entries[number] for number in range(start, stop)]
        except KeyError as missing:
            raise StreamSourceError(
                f"{self._path} has no piece {missing}, which the checkpoint asks for: journal and checkpoint are of "
                "different streams; use a new checkpoint and history"
            ) from None

    def forget(self, *, before: int, unless: Iterable[str]) -> None:
        """Forget the pieces below `before`, except those of the locations in `unless`."""
        kept = set(unless)
        self._entries = {n: piece for n, piece in self._entries.items() if n >= before or piece.location in kept}
        self.locations = {piece.location for piece in self._entries.values()}
        self._file.close()
        self._rewrite()
        self._file = self._path.open("ab")

    def _rewrite(self) -> None:
        """Replace the file by one with all pieces that are remembered, durably."""
        head = {"journal": self.name, "next": self.next, "arrival_ns": self.arrival_ns}
        new = self._path.with_name(self._path.name + ".new")
        with new.open("wb") as file:
            file.write(_line(head))
            file.writelines(_line(asdict(piece)) for piece in self._entries.values())
            file.flush()
            os.fsync(file.fileno())
        new.replace(self._path)
        folder = os.open(self._path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def close(self) -> None:
        """Release the journal for another process."""
        self._file.close()
        os.close(self._lock)


def _line(content: dict[str, Any]) -> bytes:
    return json.dumps(content, separators=(",", ":")).encode() + b"\n"


def _lock_file(path: Path) -> int:
    """Lock a file; waits a little, because the reader of a query that was just stopped may still hold it.

    Raises `StreamSourceError` if another run holds it.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    deadline = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return descriptor
        except BlockingIOError:
            if time.monotonic() > deadline:
                os.close(descriptor)
                raise StreamSourceError(
                    f"another run follows files with the journal {path.with_suffix('')}; stop it, or give this one a "
                    "checkpoint of its own"
                ) from None
            time.sleep(_LOCK_PAUSE_SECONDS)
