"""Which files of a live history count, and the removal of those that no longer do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple
from time import monotonic

from whence.history import layout
from whence.history.draft import KINDS
from whence.live.records import Record
from whence.history.manifest import Manifest
from whence.history.sealed import read_sealed_table
from whence.history.store import Store

GRACE_SECONDS = 15.0
"""How long files that a newer version replaced stay, for those who are reading them."""
LIVE_KINDS = (*KINDS, "segments-", "processes-", "crossings-", "log-", "tail-", "closed-", "carry-")


def named_by(manifest: Manifest, records: Iterable[Record]) -> set[str]:
    """The files of a version, by its manifest and its segments."""
    named = manifest.files()
    for record in records:
        named.update(name for name in (*astuple(record.files), record.boundary_file) if name)
    return named


class Files:
    """The files of one run."""

    def __init__(self, store: Store, run: str) -> None:
        self._store, self._run = store, run
        self._named: set[str] = set()
        self._old: list[tuple[float, set[str]]] = []

    def go_on(self, manifest: Manifest) -> None:
        """Go on from a version that an earlier writer committed; what it wrote and never committed is removed."""
        segments = read_sealed_table(self._store, self._path(manifest.tables.segments), layout.SEGMENT_FILES)
        self._named = manifest.files() | {name for column in segments.columns for name in column.to_pylist() if name}
        for name in self._store.names(layout.run_folder(self._run)):
            if name not in self._named and name.startswith(LIVE_KINDS):
                self._store.delete(self._path(name))

    def committed(self, named: set[str]) -> None:
        """A version with these files counts from now on: what it no longer names goes, after a while."""
        at = monotonic()
        self._old.append((at, self._named - named))
        self._named = named
        while self._old and self._old[0][0] < at - GRACE_SECONDS:
            for name in self._old.pop(0)[1]:
                self._store.delete(self._path(name))

    def _path(self, name: str) -> str:
        return f"{layout.run_folder(self._run)}/{name}"
