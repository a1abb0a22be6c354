"""Store the rows of the tail, and delete files of a live history that no version names any more."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple, dataclass, field
from time import monotonic

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ledto.history import layout
from ledto.history.draft import KINDS
from ledto.history.manifest import Manifest
from ledto.history.sealed import read_sealed, read_sealed_table, write_sealed
from ledto.history.store import Store
from ledto.live.quarantine import LiveQuarantine
from ledto.live.state import NOT_STORED, TAIL, Tail
from ledto.live.written_segments import WrittenSegment

MOST_CHUNKS = 64
"""Once the tail's rows are in this many files, all are written anew into one."""
GRACE_SECONDS = 15.0
"""How long files of an older version stay, for readers that still use them."""
LIVE_KINDS = (*KINDS, "segments-", "processes-", "crossings-", "log-", "tail-", "closed-", "carry-")
"""How the names of a live history's files begin."""
_STORED = pa.schema([column for column in TAIL if column.name not in ("uid", "emitted")])
_PLACE_BITS = 32

Longs = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class TailRows:
    """Which rows the tail has. Stored with every commit."""

    files: dict[int, str]
    """By file number: the file's name."""
    uid: Longs
    """By row: the number of its file and its place in it, as `_uid` makes it."""
    emitted: NDArray[np.uint8]
    """A bit for each row: whether it is in the log."""


@dataclass(frozen=True, slots=True, eq=False)
class CommitState:
    """What is stored with every commit, besides the rows themselves."""

    tail: TailRows
    reports: int
    """How many reports came so far."""
    ahead: int
    """How many of them came from clocks that were ahead."""
    quarantine: LiveQuarantine
    serial: int
    """How many segments were written so far; the number of the last."""


@dataclass(slots=True)
class StoredTail:
    """The files that hold rows of the tail."""

    store: Store
    run: str
    files: dict[int, str] = field(default_factory=dict)
    """By file number: the file's name."""

    def write(self, tail: Tail, stem: str) -> None:
        """Write rows that are in no file yet to a new file, whose name begins with `stem`.

        Forgets files that hold no row of the tail any more.
        """
        anew = len(self.files) >= MOST_CHUNKS
        number = max(self.files, default=0) + 1
        count = 0
        new: list[pa.Table] = []

        def with_uids(rows: pa.Table) -> pa.Table:
            nonlocal count
            uid = rows["uid"].to_numpy()
            is_new = np.ones(len(uid), np.bool_) if anew else uid == NOT_STORED
            if not is_new.any():
                return rows
            new.append(rows.filter(pa.array(is_new)).select(_STORED.names))
            uids = np.where(is_new, _uid(number, count + np.cumsum(is_new) - 1), uid)
            count += int(is_new.sum())
            return rows.set_column(rows.column_names.index("uid"), "uid", pa.array(uids))

        tail.by_computation = {computation: with_uids(rows) for computation, rows in tail.by_computation.items()}
        if new:
            whole = pa.BufferOutputStream()
            with pa.ipc.new_file(whole, _STORED, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
                writer.write_table(pa.concat_tables(new))
            self.files[number] = write_sealed(self.store, self.run, stem, "arrow", memoryview(whole.getvalue()))
        alive = {int(file) for rows in tail.rows() for file in np.unique(_file_numbers(rows["uid"].to_numpy()))}
        self.files = {number: name for number, name in self.files.items() if number in alive}

    def list_rows(self, tail: Tail) -> TailRows:
        """List the rows that the tail has, in order, and which of them are in the log."""
        uid, emitted = ([rows[name].to_numpy() for rows in tail.rows()] for name in ("uid", "emitted"))
        uids = np.concatenate([np.empty(0, np.int64), *uid])
        return TailRows(
            self.files, uids, np.packbits(np.concatenate([np.empty(0, np.bool_), *emitted]).astype(np.bool_))
        )

    def read(self, carried: TailRows) -> Tail:
        """Read the tail that `list_rows` listed."""
        self.files, uid = carried.files, carried.uid
        emitted = np.unpackbits(carried.emitted, count=len(uid)).astype(np.bool_)
        parts, start = [], {}
        total = 0
        for number, name in self.files.items():
            content = read_sealed(self.store, f"{layout.run_folder(self.run)}/{name}")
            with pa.ipc.open_file(pa.py_buffer(content)) as reader:
                parts.append(reader.read_all())
            start[number] = total
            total += len(parts[-1])
        if not len(uid):
            return Tail()
        places = np.array([start[number] for number in _file_numbers(uid).tolist()], np.int64) + _places(uid)
        rows = pa.concat_tables(parts).take(pa.array(places))
        rows = rows.append_column("uid", pa.array(uid)).append_column("emitted", pa.array(emitted)).select(TAIL.names)
        names = pc.unique(rows["computation"]).to_pylist()
        return Tail({name: rows.filter(pc.equal(rows["computation"], name)) for name in names})


def _uid(file_number: int, place: Longs) -> Longs:
    """Make uids of rows from the number of their file and their places in it."""
    return (file_number << _PLACE_BITS) + place


def _file_numbers(uid: Longs) -> Longs:
    return uid >> _PLACE_BITS


def _places(uid: Longs) -> Longs:
    return uid & ((1 << _PLACE_BITS) - 1)


def files_of(manifest: Manifest, records: Iterable[WrittenSegment]) -> set[str]:
    """List the files of a version, from its manifest and its segments."""
    named = manifest.files()
    for record in records:
        named.update(name for name in (*astuple(record.files), record.boundary_file) if name)
    return named


class LiveFiles:
    """The files of one run that count, and those to be deleted."""

    def __init__(self, store: Store, run: str) -> None:
        self._store, self._run = store, run
        self._named: set[str] = set()
        self._old: list[tuple[float, set[str]]] = []

    def resume(self, manifest: Manifest) -> None:
        """Go on from a version that an earlier writer committed; delete what it wrote without committing."""
        segments = read_sealed_table(self._store, self._path(manifest.tables.segments), layout.SEGMENT_FILES)
        self._named = manifest.files() | {name for column in segments.columns for name in column.to_pylist() if name}
        for name in self._store.names(layout.run_folder(self._run)):
            if name not in self._named and name.startswith(LIVE_KINDS):
                self._store.delete(self._path(name))

    def replace(self, named: set[str]) -> None:
        """Let a newly committed version with these files count; delete files that older ones named, after a while."""
        at = monotonic()
        self._old.append((at, self._named - named))
        self._named = named
        while self._old and self._old[0][0] < at - GRACE_SECONDS:
            for name in self._old.pop(0)[1]:
                self._store.delete(self._path(name))

    def _path(self, name: str) -> str:
        return f"{layout.run_folder(self._run)}/{name}"
