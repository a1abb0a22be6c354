"""Lock a history, so that one run at a time writes it.

On a local file system the operating system keeps the lock and releases it whenever the process ends. On object stores the
lock is a file that names its holder. If the holder was a process of this machine that has ended, the lock is taken over;
otherwise the error says which file to delete.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
from typing import Any

from ledto.history import layout
from ledto.history.errors import HistoryInUse
from ledto.history.store import Store


class Lock:
    """The lock of a history, held until `release`. Raises `HistoryInUse` if another run holds it."""

    __slots__ = ("_descriptor", "_store")

    def __init__(self, store: Store, run: str) -> None:
        self._store = store
        self._descriptor: int | None = None
        holder = json.dumps({"run": run, "host": socket.gethostname(), "process": os.getpid()}).encode()
        if store.is_local:
            self._lock_locally(holder)
        else:
            self._lock_by_file(holder)

    def _lock_locally(self, holder: bytes) -> None:
        self._store.make_folder("")
        descriptor = os.open(self._store.place(layout.LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            held = os.pread(descriptor, 4096, 0)
            os.close(descriptor)
            raise HistoryInUse(
                f"{_describe(held)} is writing the history at {self._store}: wait until it ends, or choose another folder"
            ) from None
        except OSError:
            os.close(descriptor)
            raise
        try:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, holder, 0)
        except OSError:
            os.close(descriptor)
            raise
        self._descriptor = descriptor

    def _lock_by_file(self, holder: bytes) -> None:
        if self._store.create(layout.LOCK, holder):
            return
        held = self._store.read(layout.LOCK)
        if not _is_dead_here(held):
            raise HistoryInUse(
                f"{_describe(held)} is writing the history at {self._store}: wait until it ends. If it is no longer "
                f"running, delete {self._store.place(layout.LOCK)} and start again"
            )
        self._store.write(layout.LOCK, holder)

    def release(self) -> None:
        """Release the lock. A second call does nothing."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
        elif not self._store.is_local:
            self._store.delete(layout.LOCK)


def _parse(holder: bytes) -> dict[str, Any]:
    """Parse what a lock says of its holder; empty if it is not JSON."""
    try:
        fields = json.loads(holder)
    except ValueError:
        return {}
    return fields if isinstance(fields, dict) else {}


def _describe(holder: bytes) -> str:
    fields = _parse(holder)
    if not fields:
        return "another run"
    return f"run {fields.get('run')} (process {fields.get('process')} on {fields.get('host')})"


def _is_dead_here(holder: bytes) -> bool:
    """Tell whether the holder was a process of this machine that has ended."""
    fields = _parse(holder)
    process = fields.get("process")
    if fields.get("host") != socket.gethostname() or not isinstance(process, int):
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False
