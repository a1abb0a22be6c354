"""Read a live history: its newest version, and the deliveries after a number."""

from __future__ import annotations

import os
from threading import Lock

import pyarrow as pa

from ledto.history import layout
from ledto.history.errors import NoHistory
from ledto.history.manifest import Manifest, Stream, read_manifest
from ledto.history.sealed import missing
from ledto.history.store import Store
from ledto.live.delivery_log import DeliveryLog
from ledto.questions.history import History


class LiveHistory:
    """The history at a path, live or not, as it is now. Threads may share it."""

    def __init__(self, history: str | os.PathLike[str] | Store) -> None:
        self.store = history if isinstance(history, Store) else Store(history)
        self._lock = Lock()
        self._opened: tuple[tuple[str, int], History] | None = None
        self._read: tuple[tuple[int, ...], Manifest] | None = None
        """The manifest that was read last, and the signature that its file had before."""

    def current(self) -> History:
        """Open the newest committed version; raises `NoHistory` before the first commit.

        Files of older versions are deleted after some seconds. A question to an old version then raises
        `HistoryReplaced`: ask a newer one.
        """
        newest = self._manifest().version
        with self._lock:
            if self._opened is None or self._opened[0] != newest:
                history = History(self.store.root)
                self._opened = (history.run.manifest.version, history)
            return self._opened[1]

    @property
    def version(self) -> int:
        """The number of the newest commit; 0 before the first, and for a history that was made at once."""
        try:
            return self._manifest().version[1]
        except NoHistory:
            return 0

    def state(self) -> Stream | None:
        """Read what the writer stored with the newest commit; None if there is no live history."""
        try:
            return self._manifest().stream
        except NoHistory:
            return None

    def last_delivery(self) -> int:
        """Read the number of the newest delivery; 0 if there is none."""
        state = self.state()
        return 0 if state is None else state.log.last

    def _manifest(self) -> Manifest:
        """Read the manifest, unless it was read and its file is the same: those who wait for a commit ask all the time."""
        try:
            signature = self.store.signature(layout.MANIFEST)
        except OSError:
            signature = None
        with self._lock:
            if signature is not None and self._read is not None and self._read[0] == signature:
                return self._read[1]
        # A file that is replaced meanwhile has another signature, and is read again at the next call.
        manifest = read_manifest(self.store)
        if signature is not None:
            with self._lock:
                self._read = (signature, manifest)
        return manifest

    def deliveries(self, after: int, limit: int = 10_000) -> pa.Table:
        """Read up to `limit` deliveries after a number, ascending: rows of `ledto.live.DELIVERED`.

        All of them are in the history that `current` opens from now on. Raises `LogTrimmed` and `DamagedHistory`.
        """
        while True:
            manifest = read_manifest(self.store)
            try:
                return DeliveryLog.of(manifest).after(self.store, manifest.run, after, limit)
            except FileNotFoundError as gone:
                if read_manifest(self.store).version == manifest.version:
                    raise missing(str(gone.filename or self.store)) from None
