"""Batches on disk: what could not be sent, kept for a better moment, also for the next start of the process.

A folder holds one sub-folder for each process that spools, named after its start, with a file ``owner`` that the
process holds locked while it lives. A batch is one file, ``ORDER.BATCH.jsonl``, written under another name, synced and
renamed: it is there whole or not at all. A process that starts takes over the batches of those that died, and only theirs:
their locks are free.

Guarantees: a batch that `put` kept survives the process and the machine; it keeps its bytes and its id, so that a batch
which was sent just before a crash is sent again as the same batch. `put` keeps nothing beyond `limit_bytes`, adopted
batches counted.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path

_OWNER = "owner"
_SUFFIX = ".jsonl"


@dataclass(slots=True)
class Batch:
    """Lines that travel together, for good under one id. `path` is where they are kept, if they are."""

    id: str
    body: bytes
    path: Path | None = None

    @property
    def events(self) -> int:
        """How many lines it holds."""
        return self.body.count(b"\n")


class Spool:
    """The batches that one process keeps. Thread-safe."""

    def __init__(self, folder: os.PathLike[str] | str, owner: str, *, limit_bytes: int) -> None:
        """Take a place in the folder and adopt what the dead left. Raises OSError where that cannot be."""
        self._folder = Path(folder)
        self._own = self._folder / owner
        self._limit_bytes = limit_bytes
        self._own.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = _lock(self._own)
        if lock is None:
            raise FileExistsError(f"another process spools into {self._own}; give each start its own incarnation")
        self._lock = lock
        for sibling in self._folder.iterdir():
            if sibling != self._own and sibling.is_dir():
                self._adopt(sibling)
        found = sorted(self._own.glob(f"*{_SUFFIX}"))
        self._waiting = deque((path, path.stat().st_size) for path in found)
        self._number = 0
        self._guard = threading.Lock()
        self.bytes_kept = sum(size for _, size in self._waiting)

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, batch: Batch) -> bool:
        """Keep a batch, durably; False, and nothing kept, when there is no room or the disk fails.

        A batch that is kept already is not kept again: who closes a sender and its thread may both bring the same one.
        """
        with self._guard:
            return batch.path is not None or self._put(batch)

    def _put(self, batch: Batch) -> bool:
        if self.bytes_kept + len(batch.body) > self._limit_bytes:
            return False
        self._number += 1
        path = self._own / f"{time.time_ns():020d}-{self._number:08d}.{batch.id}{_SUFFIX}"
        torn = path.with_suffix(".part")
        try:
            with open(torn, "xb", opener=_private) as file:
                file.write(batch.body)
                file.flush()
                os.fsync(file.fileno())
            os.rename(torn, path)
            _sync_folder(self._own)
        except OSError:
            for left in (torn, path):
                with contextlib.suppress(OSError):
                    left.unlink()
            return False
        batch.path = path
        self._waiting.append((path, len(batch.body)))
        self.bytes_kept += len(batch.body)
        return True

    def oldest(self) -> Batch | None:
        """The batch that has waited longest, if one can be read."""
        with self._guard:
            while self._waiting:
                path, size = self._waiting[0]
                try:
                    return Batch(path.name.split(".")[1], path.read_bytes(), path)
                except OSError:
                    self._waiting.popleft()
                    self.bytes_kept -= size
        return None

    def remove(self, path: Path) -> None:
        """Forget a batch that need not be kept any more."""
        with self._guard:
            for entry in self._waiting:
                if entry[0] == path:
                    self._waiting.remove(entry)
                    self.bytes_kept -= entry[1]
                    break
        with contextlib.suppress(OSError):
            path.unlink()

    def close(self) -> None:
        """Leave: batches that remain are for the next start."""
        if not self._waiting:
            _remove(self._own)
        os.close(self._lock)

    def forget(self) -> None:
        """In a forked child: the place is the parent's."""
        os.close(self._lock)

    def _adopt(self, sibling: Path) -> None:
        with contextlib.suppress(OSError):
            lock = _lock(sibling)
            if lock is None:
                return
            try:
                for path in sibling.glob(f"*{_SUFFIX}"):
                    os.rename(path, self._own / path.name)
                _sync_folder(self._own)
                _remove(sibling)
            finally:
                os.close(lock)


def _lock(folder: Path) -> int | None:
    """Lock the folder; None while its owner lives."""
    # Only where it is needed: the package is imported on systems without it.
    import fcntl

    file = os.open(folder / _OWNER, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(file)
        return None
    return file


def _remove(folder: Path) -> None:
    """Remove a folder whose lock is held, with what a torn write left in it."""
    with contextlib.suppress(OSError):
        for torn in folder.glob("*.part"):
            torn.unlink()
        (folder / _OWNER).unlink()
        folder.rmdir()


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
