"""Which files of a live history count, and the removal of those that no longer do."""

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
from ledto.live.quarantine import SetAside
from ledto.live.records import Record
from ledto.live.state import TAIL, Tail

MOST_CHUNKS = 64
"""Files of rows after which all are written anew as one."""
_STORED = pa.schema([each for each in TAIL if each.name not in ("uid", "emitted")])


@dataclass(frozen=True, slots=True, eq=False)
class TailRows:
    """Which rows the tail has, as it is stored with every commit."""

    files: dict[int, str]
    """By number: the files that hold rows of the tail."""
    uid: NDArray[np.int64]
    """By row."""
    emitted: NDArray[np.uint8]
    """By row, a bit each: whether it is in the log."""


@dataclass(frozen=True, slots=True, eq=False)
class Carried:
    """What is stored with every commit, besides the rows themselves."""

    tail: TailRows
    reports: int
    ahead: int
    aside: SetAside
    serial: int
    """Segments written so far; the number of the last."""


@dataclass(slots=True)
class StoredTail:
    """Files that hold rows of the tail, by number; a row's uid is that number and its place in the file."""

    store: Store
    run: str
    files: dict[int, str] = field(default_factory=dict)

    def write(self, tail: Tail, stem: str) -> None:
        """Make sure that all rows are in files; `stem` begins the name of a file, if one is needed."""
        anew = len(self.files) >= MOST_CHUNKS
        number = max(self.files, default=0) + 1
        count = 0
        new: list[pa.Table] = []

        def stored(rows: pa.Table) -> pa.Table:
            nonlocal count
            uid = rows["uid"].to_numpy()
            here = np.ones(len(uid), np.bool_) if anew else uid < 0
            if not here.any():
                return rows
            new.append(rows.filter(pa.array(here)).select(_STORED.names))
            places = (number << 32) + count + np.cumsum(here) - 1
            count += int(here.sum())
            at = rows.column_names.index("uid")
            return rows.set_column(at, "uid", pa.array(np.where(here, places, uid)))

        tail.plain = {computation: stored(rows) for computation, rows in tail.plain.items()}
        if new:
            whole = pa.BufferOutputStream()
            with pa.ipc.new_file(whole, _STORED, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
                writer.write_table(pa.concat_tables(new))
            self.files[number] = write_sealed(self.store, self.run, stem, "arrow", memoryview(whole.getvalue()))
        alive = {int(each) for rows in tail.rows() for each in np.unique(rows["uid"].to_numpy() >> 32)}
        self.files = {number: name for number, name in self.files.items() if number in alive}

    def carry(self, tail: Tail) -> TailRows:
        """Which rows the tail has, in order, and which of them are in the log."""
        uid, emitted = ([rows[name].to_numpy() for rows in tail.rows()] for name in ("uid", "emitted"))
        uids = np.concatenate([np.empty(0, np.int64), *uid])
        return TailRows(
            self.files, uids, np.packbits(np.concatenate([np.empty(0, np.bool_), *emitted]).astype(np.bool_))
        )

    def read(self, carried: TailRows) -> Tail:
        """The tail that `carry` told of."""
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
        places = np.array([start[number] for number in (uid >> 32).tolist()], np.int64) + (uid & 0xFFFFFFFF)
        rows = pa.concat_tables(parts).take(pa.array(places))
        rows = rows.append_column("uid", pa.array(uid)).append_column("emitted", pa.array(emitted)).select(TAIL.names)
        names = pc.unique(rows["computation"]).to_pylist()
        return Tail({name: rows.filter(pc.equal(rows["computation"], name)) for name in names})


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
