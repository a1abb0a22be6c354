"""Make a run: write files that nobody reads until `Draft.commit` replaces the manifest.

Whenever a run is killed, even by a loss of power, the folder holds the whole old history or the whole new one. The next run
removes other files that the killed one left.
"""

from __future__ import annotations

import io
import os
import re
import secrets
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ledto.errors import is_full
from ledto.history import layout
from ledto.history.errors import DamagedHistory, HistoryError, NoHistory, UnsupportedFormat
from ledto.history.lock import Lock
from ledto.history.manifest import Description, Manifest, TableFiles, read_manifest, write_manifest
from ledto.history.sealed import read_sealed, write_sealed_table
from ledto.history.store import TEMPORARY, NoSpace, Store

RUN_NAME = re.compile(r"\d{8}T\d{6}-[0-9a-f]{8}")
"""Names of the folders of runs. Folders of other names are never deleted."""
KINDS = (
    "events-",
    "skeleton-",
    "boundary-",
    "ids-",
    "lines-",
    "words-",
    "quarantine-",
    "delivery-",
    "open-",
    TEMPORARY,
)
"""How names of files begin that a commit deletes if nothing names them: repeated tasks left them."""


class Draft:
    """A new run of the history at a path, URI or `Store`. Holds the history's lock until `commit` or `abandon`.

    ::

        with Draft("shop.history") as draft:
            files = write_segment(draft.store, draft.run, 0, events, skeleton, attempt="0")
            ...
            draft.commit(Description(unit="ns", eps=0, ...), segments, processes)

    Leaving the block without `commit` abandons the run. Raises `HistoryInUse` if another run holds the lock, `HistoryError`
    if the folder is not empty and holds no history, or holds that of a stream, and `NoSpace` if the disk is full.
    """

    def __init__(self, history: str | os.PathLike[str] | Store) -> None:
        self.store = history if isinstance(history, Store) else Store(history)
        self.run = f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(4)}"
        refuse_other_folders(self.store)
        self._lock: Lock | None = None
        try:
            self._lock = Lock(self.store, self.run)
            self._refuse_live()
            self._clean_up()
            self.store.make_folder(self.folder)
        except BaseException as failure:
            self._unlock()
            if is_full(failure):
                self._leave_nothing()
                raise NoSpace(self.store) from failure
            raise

    @property
    def folder(self) -> str:
        """The folder of the run's files, within the store."""
        return layout.run_folder(self.run)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.abandon()

    def abandon(self) -> None:
        """Remove the run's files and release the lock. After `commit`, do nothing."""
        if self._lock is None:
            return
        try:
            if not self._is_committed():
                self.store.delete_folder(self.folder)
                self._leave_nothing()
        finally:
            self._unlock()

    def _leave_nothing(self) -> None:
        """Remove the folder if it never held a history: it would look like an unfinished one."""
        if self.store.exists(layout.MANIFEST) or self.store.names(layout.RUNS):
            return
        self.store.delete_folder(layout.RUNS)
        if self.store.is_local and self.store.names("") == [layout.LOCK]:
            self.store.delete(layout.LOCK)
            self.store.delete_folder("")

    def _is_committed(self) -> bool:
        """Tell whether the manifest names this run. An interrupt may come just after the manifest was replaced."""
        try:
            return read_manifest(self.store).run == self.run
        except HistoryError:
            return False

    def commit(self, description: Description, segments: pa.Table, processes: pa.Table) -> None:
        """Replace the history by this run, atomically; then remove the run before it.

        `segments` and `processes` have the columns of `layout.SEGMENTS` and `layout.PROCESSES`. Every file that they or
        the description name must be in this run's folder; raises `HistoryError` if one is not.
        """
        if self._lock is None:
            raise HistoryError(f"run {self.run} has been committed or abandoned: start another Draft")
        segments = segments.select(layout.SEGMENTS.names).cast(layout.SEGMENTS)
        processes = processes.select(layout.PROCESSES.names).cast(layout.PROCESSES)
        self._keep_named_files(segments, description)
        tables = {"segments": segments, "processes": processes, "crossings": self._crossings(segments)}
        files = {name: write_sealed_table(self.store, self.run, name, tables[name]) for name in layout.TABLES}
        for folder in (self.folder, layout.RUNS, ""):
            self.store.sync(folder)
        manifest = Manifest.of(
            description,
            run=self.run,
            created=f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
            events=pc.sum(segments["rows"]).as_py() or 0,
            segments=len(segments),
            processes=len(processes),
            computations=len(pc.unique(processes["computation"])),
            tables=TableFiles(**files),
        )
        write_manifest(self.store, manifest)
        try:
            self.store.sync("")
            self._remove_leftovers(keep=self.run)
        except OSError:
            return  # The commit is done. The next run tries the rest again.
        finally:
            self._unlock()

    def _keep_named_files(self, segments: pa.Table, description: Description) -> None:
        """Delete the files that nothing names. Raises `HistoryError` if a named one does not exist."""
        named = {name for column in layout.SEGMENT_FILES for name in segments[column].to_pylist() if name}
        named.update(description.quarantine_files)
        for policy in description.policies.values():
            named.update(policy.files)
        present = self.store.names(self.folder)
        if missing := sorted(named - set(present)):
            raise HistoryError(f"{len(missing)} files of run {self.run} were never written, such as {missing[0]}")
        for name in present:
            if name not in named and name.startswith(KINDS):
                self.store.delete(f"{self.folder}/{name}")

    def _crossings(self, segments: pa.Table) -> pa.Table:
        """Collect the messages between segments from their boundary files."""
        effects, causes = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        base = 0
        for first, starts, name in zip(
            *(segments[column].to_pylist() for column in ("first_position", "starts_computation", "boundary_file")),
            strict=True,
        ):
            base = first if starts else base
            if name is not None:
                arrays = np.load(io.BytesIO(read_sealed(self.store, f"{self.folder}/{name}")))
                effects.append(arrays["edge_row"] + first)
                causes.append(arrays["send_position"][arrays["edge_send"]] + base)
        return pa.table([np.concatenate(effects), np.concatenate(causes)], schema=layout.CROSSINGS)

    def _refuse_live(self) -> None:
        try:
            live = read_manifest(self.store).stream is not None
        except HistoryError:
            return
        if live:
            raise HistoryError(f"{self.store} is the history of a stream: name another folder, or remove that one")

    def _clean_up(self) -> None:
        """Remove what killed runs left. Keep everything if the manifest cannot be read: it may name any of the runs."""
        try:
            self._remove_leftovers(keep=read_manifest(self.store).run)
        except NoHistory:
            self._remove_leftovers(keep=None)
        except (DamagedHistory, UnsupportedFormat):
            return

    def _remove_leftovers(self, *, keep: str | None) -> None:
        for name in self.store.names(layout.RUNS):
            if name != keep and RUN_NAME.fullmatch(name):
                self.store.delete_folder(layout.run_folder(name))
        for name in self.store.names(""):
            if name.startswith(TEMPORARY):
                self.store.delete(name)

    def _unlock(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None


def refuse_other_folders(store: Store) -> None:
    """Raise `HistoryError` if the folder holds files that do not belong to a history, or is inside another history."""
    if store.is_local and (around := layout.find_history_around(Path(store.root).parent)) is not None:
        raise HistoryError(f"{store} is inside the history {around}: name a folder outside of it")
    names = {name for name in store.names("") if not name.startswith(".")}
    runs = store.names(layout.RUNS)
    # Other programs write a manifest.json, too. One that cannot be read is ours only if runs of ours are beside it.
    if layout.LOCK in names or any(map(RUN_NAME.fullmatch, runs)) or _has_manifest(store):
        return
    strange = sorted(names - {layout.RUNS, *layout.BESIDE}) + [f"{layout.RUNS}/{name}" for name in runs]
    if strange:
        raise HistoryError(
            f"{store} is not empty and no history (it has {strange[0]}): name a new folder, or one with a history"
        )


def _has_manifest(store: Store) -> bool:
    """Tell whether the folder has the manifest of a history, of any format."""
    try:
        read_manifest(store)
    except UnsupportedFormat:
        return True
    except HistoryError:
        return False
    return True
