"""Keep batches on disk that could not be sent, also for the next start of the process.

A folder holds one sub-folder for each process that spools. The process keeps its file ``owner`` locked while it lives. A
batch is one file, ``ORDER.BATCH.jsonl``. It is written under another name, synced and renamed, so it is never half there.
A process that starts adopts the batches of processes that have ended, whose locks are free.

Guarantees: a batch for which `put` returned True survives a crash of the process and of the machine. It keeps its bytes
and its id: a batch that was sent just before a crash is sent again as the same batch. Batches take at most `limit_bytes`,
adopted ones included.
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
    """Records that are always sent together under one id. `path` is their file, if they are on disk."""

    id: str
    body: bytes
    path: Path | None = None

    @property
    def events(self) -> int:
        """Count the records."""
        return self.body.count(b"\n")


class Spool:
    """The batches that one process has on disk. Thread-safe."""

    def __init__(self, folder: os.PathLike[str] | str, owner: str, *, limit_bytes: int) -> None:
        """Make a sub-folder, lock it, and adopt the batches of ended processes. Raises OSError if the disk fails."""
        self._folder = Path(folder)
        self._own_folder = self._folder / owner
        self._limit_bytes = limit_bytes
        self._own_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = _lock(self._own_folder)
        if lock is None:
            raise FileExistsError(
                f"another process spools into {self._own_folder}; give each start its own incarnation"
            )
        self._lock = lock
        for sibling in self._folder.iterdir():
            if sibling != self._own_folder and sibling.is_dir():
                self._adopt(sibling)
        paths = sorted(self._own_folder.glob(f"*{_SUFFIX}"))
        self._waiting = deque((path, path.stat().st_size) for path in paths)
        self._number = 0
        self._guard = threading.Lock()
        self.bytes_kept = sum(size for _, size in self._waiting)

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, batch: Batch) -> bool:
        """Write a batch to disk and sync it. Return False and leave no file if there is no room or the disk fails.

        A batch that has a file already is not written again: whoever closes a sender and its thread may both bring it.
        """
        with self._guard:
            return batch.path is not None or self._put(batch)

    def _put(self, batch: Batch) -> bool:
        if self.bytes_kept + len(batch.body) > self._limit_bytes:
            return False
        self._number += 1
        path = self._own_folder / f"{time.time_ns():020d}-{self._number:08d}.{batch.id}{_SUFFIX}"
        torn = path.with_suffix(".part")
        try:
            with open(torn, "xb", opener=_private) as file:
                file.write(batch.body)
                file.flush()
                os.fsync(file.fileno())
            os.rename(torn, path)
            _sync_folder(self._own_folder)
        except OSError:
            for file_made in (torn, path):
                with contextlib.suppress(OSError):
                    file_made.unlink()
            return False
        batch.path = path
        self._waiting.append((path, len(batch.body)))
        self.bytes_kept += len(batch.body)
        return True

    def oldest(self) -> Batch | None:
        """Read the oldest batch; None if there is none. Skip files that cannot be read."""
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
        """Delete a batch."""
        with self._guard:
            for entry in self._waiting:
                if entry[0] == path:
                    self._waiting.remove(entry)
                    self.bytes_kept -= entry[1]
                    break
        with contextlib.suppress(OSError):
            path.unlink()

    def close(self) -> None:
        """Release the lock. The next start adopts the batches that remain."""
        if not self._waiting:
            _remove(self._own_folder)
        os.close(self._lock)

    def forget(self) -> None:
        """Close the lock's file in a forked child. The parent keeps the lock."""
        os.close(self._lock)

    def _adopt(self, sibling: Path) -> None:
        """Move the batches of an ended process here. Do nothing if it lives or the disk fails."""
        with contextlib.suppress(OSError):
            lock = _lock(sibling)
            if lock is None:
                return
            try:
                for path in sibling.glob(f"*{_SUFFIX}"):
                    os.rename(path, self._own_folder / path.name)
                _sync_folder(self._own_folder)
                _remove(sibling)
            finally:
                os.close(lock)


def _lock(folder: Path) -> int | None:
    """Lock the folder; return the open file, or None while its owner lives."""
    # Not above: the package must also load on systems without it.
    import fcntl

    file = os.open(folder / _OWNER, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(file)
        return None
    return file


def _remove(folder: Path) -> None:
    """Remove a folder that has no batches, with half-written files. Hold its lock."""
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
