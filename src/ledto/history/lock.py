"""One run at a time writes a history.

On a local file system the lock is the operating system's, which lets go when the process ends, however it ends. On
object stores it is a file that says who holds it: one that a dead process of this machine left behind is taken over,
and of any other the error says which file to delete.
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
    """Held from its making until `release`; raises `HistoryInUse` where another run holds it."""

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
                f"{_who(held)} is writing the history at {self._store}: wait until it ends, or choose another folder"
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
                f"{_who(held)} is writing the history at {self._store}: wait until it ends. If it is no longer "
                f"running, delete {self._store.place(layout.LOCK)} and start again"
            )
        self._store.write(layout.LOCK, holder)

    def release(self) -> None:
        """Let others in; a second time does nothing."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
        elif not self._store.is_local:
            self._store.delete(layout.LOCK)


def _parsed(holder: bytes) -> dict[str, Any]:
    try:
        found = json.loads(holder)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _who(holder: bytes) -> str:
    found = _parsed(holder)
    if not found:
        return "another run"
    return f"run {found.get('run')} (process {found.get('process')} on {found.get('host')})"


def _is_dead_here(holder: bytes) -> bool:
    found = _parsed(holder)
    process = found.get("process")
    if found.get("host") != socket.gethostname() or not isinstance(process, int):
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False
