"""The one writer of a live history: takes reports as they come, and commits after every micro-batch.

A commit replaces the manifest, which names all that counts: segments that are closed, the segments of the tail, the
deliveries, and from where the stream goes on. Whoever is killed before it leaves the history as it was, and takes the same
reports again; reports up to the positions of the last commit are passed over. So every report counts once, whatever
happens in between.
"""

from __future__ import annotations

import pickle
import secrets
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import count
from time import time_ns
from typing import Any, Self
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from whence.history import layout
from whence.history.aside import DUPLICATE, QUARANTINED, count_codes
from whence.history.deliveries import deliver_on, write_deliveries
from whence.history.delivering import DELIVERIES
from whence.history.draft import refuse_other_folders
from whence.history.errors import HistoryError, NoHistory
from whence.history.live.chain import Chain, Part
from whence.history.live.describing import described, summed
from whence.history.live.emitting import Piece, emit
from whence.history.live.files import Files, named_by
from whence.history.live.intake import Closing, reported, take
from whence.history.live.log import Log
from whence.history.live.records import Record, Totals, crossings_table, processes_table, segments_table
from whence.history.live.senders import Found, Segment, Senders
from whence.history.live.state import Closed, Ledger, Tail
from whence.history.live.stored import StoredTail
from whence.history.live.terms import LiveTerms, OtherTerms
from whence.history.live.traces import solve_traces
from whence.history.locking import Lock
from whence.history.manifest import read_manifest, write_manifest
from whence.history.reading import Run
from whence.history.segmenting import attribute_names
from whence.history.spans import Blocks, survey_segment
from whence.history.storage import Store
from whence.history.tables import processes_from, segments_from
from whence.history.writing import SegmentFiles, write_aside, write_boundary, write_segment, write_whole

Longs = NDArray[np.int64]

WRITERS = 4
"""Segments that are written and delivered at once: most of that is done outside Python."""
FILED_ROWS = 10_000
"""Reports set aside after which they get a file of their own."""
COMMIT_ANYWAY = 30_000_000_000
"""Stream time after which positions are committed although nothing else has changed."""


@dataclass(slots=True, eq=False)
class _Written:
    """A tail's segment as it was last written."""

    piece: Piece
    rows: pa.Table
    """The tail it was made of."""


@dataclass(slots=True)
class _Aside:
    """Reports that were set aside: files, and rows that are still to be filed."""

    files: list[str] = field(default_factory=list)
    rows: pa.Table = field(default_factory=layout.ASIDE.empty_table)


def _piece(part: Part, record: Record, said: pa.Table, *, final: bool) -> Piece:
    """A segment that is to be delivered; `said` as `reported` gives it."""
    emitted = said["emitted"].to_numpy().copy()
    return Piece(part, record, said, DELIVERIES.empty_table(), emitted, final)


class LiveWriter:
    """Writes the live history at a path: the only one who does, until `close`.

    Raises `HistoryInUse` where another is at work, `OtherTerms` for terms other than those the stream began with, and
    `HistoryError` where the folder holds something else.
    """

    def __init__(self, history: str | Store, terms: LiveTerms | None = None) -> None:
        self.store = history if isinstance(history, Store) else Store(history)
        refuse_other_folders(self.store)
        self._lock = Lock(self.store, "live")
        try:
            self._open(terms)
        except BaseException:
            self._lock.release()
            raise
        self._pool = ThreadPoolExecutor(WRITERS, "live-history")
        self._writing: list[Future[Record]] = []
        self._senders = Senders()
        self._tails: dict[str | None, _Written] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let others write."""
        self._pool.shutdown()
        self._lock.release()

    def _open(self, terms: LiveTerms | None) -> None:
        self.closed, self.tail, self.ledger, self._aside, self.log = Closed(), Tail(), Ledger(), _Aside(), Log()
        self.positions: dict[str, int] = {}
        self.now = self.version = self._committed_at = 0
        self._serial = count(1)
        self._run: Run | None = None
        self.state: dict[str, Any] | None = None
        try:
            manifest = read_manifest(self.store)
        except NoHistory:
            self.terms = terms or LiveTerms()
            self.run = f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(4)}"
            self.store.make_folder(layout.run_folder(self.run))
            self._stored, self._files = StoredTail(self.store, self.run), Files(self.store, self.run)
            return
        stream = manifest.get("stream")
        if stream is None:
            raise HistoryError(f"{self.store} has a history that was made at once: name another folder for a live one")
        self.run = str(manifest["run"])
        self._stored = StoredTail(self.store, self.run)
        kept = pickle.loads(self.store.read(self._path(stream["files"]["closed"])))
        self.terms, self.closed = kept
        if terms is not None and terms != self.terms:
            raise OtherTerms(
                f"the stream at {self.store} began with {self.terms}: go on with these, or name another folder"
            )
        carried, self.ledger, self._aside, self._serial = pickle.loads(
            self.store.read(self._path(stream["files"]["carry"]))
        )
        self.tail = self._stored.read(carried)
        self.log = Log.from_json(stream["log"])
        self.positions, self.now, self.version = dict(stream["positions"]), stream["now"], stream["version"]
        self._committed_at = self.now
        self._closed_file = stream["files"]["closed"]
        self._files = Files(self.store, self.run)
        self._files.go_on(manifest)

    def _path(self, name: str) -> str:
        return f"{layout.run_folder(self.run)}/{name}"

    def step(self, rows: pa.Table, *, now: int, positions: Mapping[str, int] | None = None) -> bool:
        """Take reports in the order in which they came, and commit; gives whether anything was committed.

        `rows` have the columns of `whence.events.schema.REPORTS`, all with an arrival, which does not fall, and are those
        after the `positions` of the last commit. `now` is the stream's time: it goes on without reports, too.
        """
        self.now = max(self.now, now)
        self.positions |= positions or {}
        self.ledger.reports += len(rows)
        rows = rows.append_column("uid", pa.array(np.full(len(rows), -1, np.int64)))
        rows = rows.append_column("emitted", pa.array(np.zeros(len(rows), np.bool_)))
        taken = take(rows, self.closed, self.tail, self.now, self.terms, self._find_sends, self._on_closed)
        self.ledger.late += taken.late
        self.ledger.ahead += taken.ahead
        self._set_aside(taken.aside)
        changed = self._write_tails()
        pieces = self._written(taken.closings)
        tails = list(self._tails.values())
        pieces += [each.piece for each in tails]
        idle = not (len(rows) or taken.closings or changed or self._due(pieces))
        if idle and (not self.version or self.now - self._committed_at < COMMIT_ANYWAY):
            return False
        run, records = self._assembled()
        self._deliver(run, records, pieces)
        emitted = emit(pieces, self._until, self.log.last, tick=self.terms.tick_ns)
        log = self._pool.submit(self.log.append, self.store, self.run, emitted)
        self._mark_emitted()
        self._commit(run, records, log, closing=bool(taken.closings))
        return True

    @property
    def _until(self) -> int:
        """Deliveries up to this time are settled: their tick is over."""
        return self.now - self.terms.settling - self.terms.tick_ns

    def _due(self, pieces: list[Piece]) -> bool:
        return any(
            len(each.deliveries)
            and bool(
                (~each.emitted & (each.deliveries["at"].fill_null(self._until + 1).to_numpy() <= self._until)).any()
            )
            for each in pieces
        )

    def _find_sends(self, chain: Chain, keys: set[str]) -> list[Found]:
        return list(self._senders.find(chain, keys, self._committed_segments(chain)))

    def _committed_segments(self, chain: Chain) -> Iterator[Segment]:
        """Closed segments of a chain that are in the history, the newest first."""
        records = [each for each in self.closed.chain(chain.computation).records if each.outcome is not None]
        if not records or self._run is None:
            return
        first = next(
            number for number, name in enumerate(self._run.segments.events_file) if name == records[0].files.events_file
        )
        starts = np.cumsum([0, *(each.rows for each in records)])
        for place in reversed(range(len(records))):
            number, rows = first + place, records[place].rows
            sends = self._run.events(number, ["sends"], 0, rows)["sends"]
            yield int(starts[place]), sends, self._run.skeleton(number, 0, rows), self._run.boundary(number)

    def _set_aside(self, tables: list[pa.Table]) -> None:
        for table in tables:
            self._aside.rows = pa.concat_tables([self._aside.rows, table])
            self.ledger.duplicate += int(pc.sum(pc.equal(table["outcome"], DUPLICATE)).as_py() or 0)
            self.ledger.quarantined += int(pc.sum(pc.equal(table["outcome"], QUARANTINED)).as_py() or 0)
            self.ledger.reasons += count_codes(table)

    def _on_closed(self, computation: str | None, first_position: int, part: Part) -> None:
        """Begin to write a segment while the next one is solved."""
        before = np.zeros(len(part.counts.names), np.int64)
        if computation is not None:
            self._senders.closed(computation, first_position, part)
            mine = self.closed.chain(computation)
            before[: len(mine.totals.events)] = mine.totals.events
            mine.totals = mine.totals.plus(part.counts)
        self._writing.append(self._pool.submit(self._write_part, part, before))

    def _written(self, closings: list[Closing]) -> list[Piece]:
        """The segments that were closed, which are written by now."""
        records = [each.result() for each in self._writing]
        self._writing.clear()
        pieces = []
        for closing, record in zip(closings, records, strict=True):
            self._set_aside([closing.part.aside])
            if record.rows and closing.computation is None:
                self.closed.wholes.append(record)
            elif record.rows and closing.computation is not None:
                self.closed.chain(closing.computation).records.append(record)
            self.closed.attributes.update(record.attributes)
            pieces.append(_piece(closing.part, record, closing.reported, final=True))
        return pieces

    def _write_tails(self) -> bool:
        """Solve and write the tails that have changed; gives whether any has."""
        wanted: dict[str | None, pa.Table] = dict(self.tail.plain.items())
        if len(self.tail.traces):
            wanted[None] = self.tail.traces
        gone = [where for where in self._tails if where not in wanted]
        for where in gone:
            del self._tails[where]
        changed = bool(gone)
        for where, rows in wanted.items():
            old = self._tails.get(where)
            if old is not None and old.rows is rows:
                continue
            changed = True
            if where is None:
                part = solve_traces(rows)
                before = np.zeros(len(part.counts.names), np.int64)
            else:
                mine = self.closed.chain(where)
                part = mine.chain.peek(rows, self._find_sends)
                before = np.pad(mine.totals.events, (0, len(part.counts.names) - len(mine.totals.events)))
            record = self._write_part(part, before)
            self._tails[where] = _Written(_piece(part, record, reported(rows, part), final=False), rows)
        return changed

    def _write_part(self, part: Part, before: Longs) -> Record:
        number, attempt = next(self._serial), uuid4().hex[:12]
        files, boundary_file = SegmentFiles("", "", None), None
        if len(part.events):
            files = write_segment(self.store, self.run, number, part.events, part.skeleton, attempt=attempt)
            if part.boundary is not None and before.any():
                boundary_file = write_boundary(self.store, self.run, number, part.boundary, attempt=attempt)
        return Record.of(part, before, files, boundary_file, attribute_names(part.events))

    def _assembled(self) -> tuple[Run, list[Record]]:
        """The tables of all segments, and these by number."""
        chains: list[tuple[str, list[str], Totals, list[Record]]] = []
        for computation, mine in sorted(self.closed.chains.items()):
            tail = self._tails.get(computation)
            records, totals = mine.records, mine.totals
            if tail is not None and tail.piece.record.rows:
                records, totals = [*records, tail.piece.record], totals.plus(tail.piece.record.counts)
            names = mine.chain.names[: len(totals.events)]
            if records:
                chains.append((computation, names, totals, records))
        wholes = [*self.closed.wholes]
        if None in self._tails and self._tails[None].piece.record.rows:
            wholes.append(self._tails[None].piece.record)
        records = [each for chain in chains for each in chain[3]] + wholes
        self._tables = {
            "segments": segments_table([(len(chain[1]), chain[3]) for chain in chains], wholes),
            "processes": processes_table([chain[:3] for chain in chains], wholes),
            "crossings": crossings_table([chain[3] for chain in chains]),
        }
        run = Run(
            self.store,
            {"run": self.run, "given_seq": False},
            segments_from(self._tables["segments"]),
            processes_from(self._tables["processes"]),
            cache_bytes=64 << 20,
        )
        return run, records

    def _deliver(self, run: Run, records: list[Record], pieces: list[Piece]) -> None:
        """Deliver the segments that were written just now."""
        numbers = {id(record): number for number, record in enumerate(records)}
        new = [piece for piece in pieces if piece.record.outcome is None and piece.record.rows]
        if not records:
            return
        for piece in new:
            piece.record.blocks = survey_segment(run, numbers[id(piece.record)])
        blocks = Blocks.joined(
            [
                replace(
                    record.blocks,
                    segment=np.full(len(record.blocks), number),
                    first_position=int(run.segments.first_position[number])
                    + np.arange(len(record.blocks)) * layout.EVENT_ROWS,
                )
                for number, record in enumerate(records)
                if record.blocks is not None
            ]
        )
        terms = self.terms.delivering

        def deliver(piece: Piece) -> None:
            number = numbers[id(piece.record)]
            found = deliver_on(terms, run, number, blocks)
            piece.deliveries = found.policies[self.terms.order_policy].table
            piece.record.outcome = write_deliveries(run, number, found, attempt=uuid4().hex[:12])

        list(self._pool.map(deliver, new))
        final = [piece.record.outcome for piece in new if piece.final and piece.record.outcome is not None]
        if final:
            done = [] if self.closed.delivered is None else [self.closed.delivered]
            self.closed.delivered = summed([*done, *final])

    def _mark_emitted(self) -> None:
        for where, written in self._tails.items():
            emitted = written.rows["emitted"].to_numpy().copy()
            emitted[written.piece.part.rows] = written.piece.emitted
            at = written.rows.column_names.index("emitted")
            written.rows = written.rows.set_column(at, "emitted", pa.array(emitted))
            if where is None:
                self.tail.traces = written.rows
            else:
                self.tail.plain[where] = written.rows

    def _commit(self, run: Run, records: list[Record], log: Future[Log], *, closing: bool) -> None:
        self.version += 1
        tag = f"{self.version:09d}-{uuid4().hex[:8]}"
        self._stored.write(self.tail, f"tail-{tag}.arrow")
        # The tables of the tail may have been given other uids: what was written of them stays as it is.
        for where, written in self._tails.items():
            written.rows = self.tail.traces if where is None else self.tail.plain[where]
        self._file_aside(tag, everything=closing)
        tail_aside = self._tail_aside(tag)
        if closing or self.version == 1:
            self._closed_file = f"closed-{tag}.pickle"
            self._write(self._closed_file, pickle.dumps((self.terms, self.closed), protocol=5))
        carry_file = f"carry-{tag}.pickle"
        carried = (self._stored.carry(self.tail), self.ledger, self._aside, self._serial)
        self._write(carry_file, pickle.dumps(carried, protocol=5))
        tables = {name: f"{name}-{tag}.parquet" for name in self._tables}
        for name, table in self._tables.items():
            write_whole(self.store, self.run, tables[name], table)
        self.log = log.result()
        manifest = self._manifest(records)
        manifest["tables"] = tables
        manifest["aside_files"] = [*self._aside.files, *tail_aside]
        manifest["stream"]["files"] = {
            "closed": self._closed_file,
            "carry": carry_file,
            "tail": list(self._stored.files.values()),
        }
        self.store.sync(layout.run_folder(self.run))
        write_manifest(self.store, manifest)
        self.store.sync("")
        run.manifest = manifest
        self._run, self._committed_at, self.state = run, self.now, manifest["stream"]
        self._senders.committed()
        self._files.committed(named_by(manifest, records))

    def _write(self, name: str, data: bytes) -> None:
        self.store.write(self._path(name), data)

    def _file_aside(self, tag: str, *, everything: bool) -> None:
        if len(self._aside.rows) >= FILED_ROWS or (everything and len(self._aside.rows)):
            self._aside.files.append(write_aside(self.store, self.run, self._aside.rows, attempt=f"filed-{tag}"))
            self._aside.rows = layout.ASIDE.empty_table()

    def _tail_aside(self, tag: str) -> list[str]:
        """The file of what is set aside for now: not filed yet, or in a tail, which may still change."""
        tables = [self._aside.rows, *(each.piece.part.aside for each in self._tails.values())]
        rows = pa.concat_tables(tables)
        return [write_aside(self.store, self.run, rows, attempt=f"tail-{tag}")] if len(rows) else []

    def _manifest(self, records: list[Record]) -> dict[str, Any]:
        """All but the names of files."""
        told = described(
            records,
            [each.piece for each in self._tails.values()],
            self.closed,
            self.ledger,
            self.terms,
            logged=self.log.last,
        )
        told |= {
            "run": self.run,
            "created": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
            "segments": len(records),
            "processes": len(self._tables["processes"]),
            "computations": len(pc.unique(self._tables["processes"]["computation"])),
        }
        told["stream"] |= {
            "version": self.version,
            "now": self.now,
            "positions": self.positions,
            "updated": time_ns(),
            "log": self.log.to_json(),
        }
        return told
