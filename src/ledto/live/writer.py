"""The one writer of a live history: takes reports as they come, and commits after every micro-batch.

A commit replaces the manifest, which names all that counts: segments that are closed, the segments of the tail, the
deliveries, and from where the stream goes on. Whoever is killed before it leaves the history as it was, and takes the same
reports again; reports up to the positions of the last commit are passed over. So every report counts once, whatever
happens in between.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from time import time_ns
from typing import Self
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ledto.history import layout
from ledto.history.deliver.segment import DELIVERIES
from ledto.history.draft import refuse_other_folders
from ledto.history.errors import HistoryError, NoHistory
from ledto.history.gone import Gone, gone_from
from ledto.history.lock import Lock
from ledto.history.manifest import Manifest, StateFiles, Stream, TableFiles, read_manifest, write_manifest
from ledto.history.run import Run, open_run
from ledto.history.sealed import missing, write_sealed_table
from ledto.history.store import Store
from ledto.history.window.segment import attribute_names, refused_rows
from ledto.history.write import SegmentFiles, write_boundary, write_segment
from ledto.live.chain import Chain, PendingSegment
from ledto.live.channels import counted_channels, name_messages
from ledto.live.closed_processes import own_name
from ledto.live.commit import Assembled, assemble, check_accounts, counted, delays, deliver_new, described, summed
from ledto.live.delivery_log import DeliveryLog
from ledto.live.emit import UnloggedEvents, emit
from ledto.live.files import Carried, Files, StoredTail, named_by
from ledto.live.gone import place_among_closed
from ledto.live.ingest import Closing, reported, take
from ledto.live.limits import LiveLimits
from ledto.live.quarantine import SetAside
from ledto.live.records import Record
from ledto.live.senders import Found, Senders, committed_segments, first_arrivals
from ledto.live.state import Begun, ClosedPart, Tail, read_state, write_state
from ledto.live.terms import LiveTerms, OtherTerms

Longs = NDArray[np.int64]

log = logging.getLogger("ledto.history")

WRITERS = 4
"""Segments that are written and delivered at once: most of that is done outside Python."""
COMMIT_ANYWAY = 30_000_000_000
"""Stream time after which positions are committed although nothing else has changed."""


@dataclass(slots=True, eq=False)
class _Written:
    """A tail's segment as it was last written."""

    piece: UnloggedEvents
    rows: pa.Table
    """The tail it was made of."""
    again_at: int | None
    """The date up to which everything must have come for more to be known of its channels; None if that is all."""
    channels: dict[str, int]
    """What came of sends and receives in channels, those that are closed included."""


def _piece(part: PendingSegment, record: Record, said: pa.Table, *, final: bool) -> UnloggedEvents:
    """A segment that is to be delivered; `said` as `reported` gives it."""
    emitted = said["emitted"].to_numpy().copy()
    return UnloggedEvents(part, record, said, DELIVERIES.empty_table(), emitted, final)


class LiveWriter:
    """Writes the live history at a path: the only one who does, until `close`.

    Raises `HistoryInUse` where another is at work, `OtherTerms` for terms other than those the stream began with, and
    `HistoryError` where the folder holds something else.
    """

    def __init__(self, history: str | Store, terms: LiveTerms | None = None, limits: LiveLimits | None = None) -> None:
        self.limits = limits or LiveLimits()
        self.store = history if isinstance(history, Store) else Store(history)
        refuse_other_folders(self.store)
        self._lock = Lock(self.store, "live")
        try:
            self._open(terms)
        except FileNotFoundError as gone:
            self._lock.release()
            raise missing(str(gone.filename or self.store)) from None
        except BaseException:
            self._lock.release()
            raise
        self._pool = ThreadPoolExecutor(WRITERS, "live-history")
        self._writing: list[Future[Record]] = []
        self._senders = Senders()
        self._tails: dict[str, _Written] = {}
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let others write; a second time does nothing. One that has committed nothing leaves no files."""
        self._pool.shutdown()
        if self._run is None and not self._closed:
            self.store.delete_folder(layout.run_folder(self.run))
        self._closed = True
        self._lock.release()

    def _open(self, terms: LiveTerms | None) -> None:
        self.closed, self.tail, self._aside, self.log = ClosedPart(), Tail(), SetAside(), DeliveryLog()
        self.positions: dict[str, int] = {}
        self.now = self.version = self.reports = self.ahead = self._serial = self._committed_at = 0
        self._run: Run | None = None
        self._given_up: list[Gone] = []
        self.state: Stream | None = None
        try:
            manifest = read_manifest(self.store)
        except NoHistory:
            self.terms = terms or LiveTerms()
            self.run = f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(4)}"
            self.store.make_folder(layout.run_folder(self.run))
            self._stored, self._files = StoredTail(self.store, self.run), Files(self.store, self.run)
            return
        stream = manifest.stream
        if stream is None:
            raise HistoryError(f"{self.store} has a history that was made at once: name another folder for a live one")
        self.run = manifest.run
        self._stored = StoredTail(self.store, self.run)
        begun = read_state(self.store, self.run, stream.files.closed, Begun)
        self.terms, self.closed = begun.terms, begun.closed
        if terms is not None and terms != self.terms:
            raise OtherTerms(
                f"the stream at {self.store} began with {self.terms}: go on with these, or name another folder"
            )
        carried = read_state(self.store, self.run, stream.files.carry, Carried)
        self.reports, self.ahead = carried.reports, carried.ahead
        self._aside, self._serial = carried.aside, carried.serial
        self.tail = self._stored.read(carried.tail)
        self.log = DeliveryLog.of(manifest)
        self.positions, self.now, self.version = dict(stream.positions), stream.now, stream.version
        self._committed_at = self.now
        self._closed_file = stream.files.closed
        self._files = Files(self.store, self.run)
        self._files.go_on(manifest)
        self._run = open_run(self.store)

    @property
    def tail_rows(self) -> int:
        """Reports that are not closed."""
        return sum(len(rows) for rows in self.tail.rows())

    def give_up(self, chosen: NDArray[np.bool_], reason: str) -> None:
        """Set reports of the tail aside, which the next step commits; `chosen` as the tail has them."""
        if not chosen.any():
            return
        kept, start = [], 0
        for rows in self.tail.rows():
            mine = chosen[start : start + len(rows)]
            start += len(rows)
            gone = rows.filter(pa.array(mine))
            at = gone.column_names.index("reason")
            refused = refused_rows(gone.set_column(at, "reason", pa.array([reason] * len(gone), pa.string())))
            self._aside.add(refused)
            self._given_up += [replace(each, process=own_name(each.process)) for each in gone_from(refused)]
            kept.append(rows.filter(pa.array(~mine)))
        self.tail.plain = {name: rows for name, rows in zip(self.tail.plain, kept, strict=True) if len(rows)}

    def step(
        self, rows: pa.Table, *, now: int, positions: Mapping[str, int] | None = None, commit: bool = True
    ) -> bool:
        """Take reports in the order in which they came, and commit; gives whether anything was committed.

        `rows` have the columns of `ledto.events.schema.REPORTS`, all with an arrival, which does not fall, and are those
        after the `positions` of the last commit. `now` is the stream's time: it goes on without reports, too. Without
        `commit` everything is done but that: a trial, after which the writer is of no use.

        HAZARD: a step that raises leaves the history as it was, and the writer in between. Make another.
        """
        self.now = max(self.now, now)
        self.positions |= positions or {}
        self.reports += len(rows)
        rows = rows.append_column("uid", pa.array(np.full(len(rows), -1, np.int64)))
        rows = rows.append_column("emitted", pa.array(np.zeros(len(rows), np.bool_)))
        taken = take(rows, self.closed, self.tail, self.now, self.terms, self.limits, self._find_sends, self._on_closed)
        self.ahead += taken.ahead
        for each in taken.aside:
            self._aside.add(each)
        self._tell_of_limits(taken.aside)
        pieces = self._written(taken.closings)
        lowered = self._place_gone([*self._given_up, *taken.gone])
        changed = self._write_tails()
        tails = list(self._tails.values())
        pieces += [each.piece for each in tails]
        idle = not (len(rows) or taken.closings or changed or self._due(pieces))
        if idle and (not self.version or self.now - self._committed_at < COMMIT_ANYWAY):
            return False
        assembled = assemble(
            self.store,
            self.run,
            self.closed,
            {where: each.piece.record for where, each in self._tails.items()},
            {where: each.piece.part.holes for where, each in self._tails.items()},
        )
        self._sum_up(deliver_new(assembled, pieces, self.terms, self._pool))
        emitted = emit(
            pieces, self._until, self.log.last, partial(self._first_sent, assembled.run), tick=self.terms.tick_ns
        )
        log = self._pool.submit(self.log.append, self.store, self.run, emitted)
        self._mark_emitted()
        self._commit(assembled, log, closing=bool(taken.closings), lowered=lowered, trial=not commit)
        return commit

    def _tell_of_limits(self, aside: list[pa.Table]) -> None:
        """Log what was refused because there is too much, which somebody has to do something about."""
        for each in aside:
            beyond = each.filter(pc.starts_with(each["reason"], "too-many-"))
            if len(beyond):
                log.warning("%d reports were set aside: %s", len(beyond), beyond["reason"][0])

    def _sum_up(self, delivered: list[UnloggedEvents]) -> None:
        final = [piece.record.outcome for piece in delivered if piece.final and piece.record.outcome is not None]
        if final:
            done = [] if self.closed.delivered is None else [self.closed.delivered]
            self.closed.delivered = summed([*done, *final])

    @property
    def _until(self) -> int:
        """Deliveries up to this time are settled: their tick is over."""
        return self.now - self.terms.settling - self.terms.tick_ns

    def _due(self, pieces: list[UnloggedEvents]) -> bool:
        return any(
            len(each.deliveries)
            and bool(
                (~each.emitted & (each.deliveries["at"].fill_null(self._until + 1).to_numpy() <= self._until)).any()
            )
            for each in pieces
        )

    def _find_sends(self, chain: Chain, keys: set[str]) -> list[Found]:
        records = [each for each in self.closed.chain(chain.computation).records if each.outcome is not None]
        committed = committed_segments(self._run, records) if self._run is not None else ()
        return list(self._senders.find(chain, keys, committed))

    def _first_sent(self, run: Run, piece: UnloggedEvents, keys: set[str]) -> dict[str, int]:
        """By key that is sent in closed segments before this one, in its computation: when a report of that first came."""
        records = self.closed.chain(piece.part.events["computation"][0].as_py()).records
        before = next((place for place, each in enumerate(records) if each is piece.record), len(records))
        return first_arrivals(run, records[:before], keys)

    def _on_closed(self, computation: str, first_position: int, part: PendingSegment) -> None:
        """Begin to write a segment while the next one is solved."""
        self._senders.closed(computation, first_position, part)
        self._serial += 1
        self._writing.append(self._pool.submit(self._write_part, part, self._serial))

    def _written(self, closings: list[Closing]) -> list[UnloggedEvents]:
        """The segments that were closed, which are written by now."""
        records = [each.result() for each in self._writing]
        self._writing.clear()
        pieces = []
        for closing, record in zip(closings, records, strict=True):
            self._aside.add(closing.part.aside)
            if record.rows:
                self.closed.chain(closing.computation).records.append(record)
            self.closed.attributes.update(record.attributes)
            pieces.append(_piece(closing.part, record, closing.reported, final=True))
        return pieces

    def _place_gone(self, gone: list[Gone]) -> bool:
        """Tell what is closed of reports that it lacks; gives whether anything has changed by that."""
        self._given_up = []
        before = {where: (mine.chain.gone, mine.chain.holes) for where, mine in self.closed.chains.items()}
        for each in gone:
            if each.computation in self.closed.chains or len(self.closed.chains) < self.limits.computations:
                self.closed.chain(each.computation).chain.miss([each])
        changed = False
        for where, mine in self.closed.chains.items():
            chain = mine.chain
            if chain.gone:
                place_among_closed(chain, mine.records, partial(assemble, self.store, self.run, self.closed, {}, {}))
            known, holes = before.get(where, ([], None))
            if chain.gone != known or (holes is not None and chain.holes is not holes):
                # What is open comes after what is closed.
                self._tails.pop(where, None)
                changed = True
        return changed

    def _write_tails(self) -> bool:
        """Solve and write the tails that have changed; gives whether any has."""
        wanted = dict(self.tail.plain.items())
        gone = [where for where in self._tails if where not in wanted]
        for where in gone:
            del self._tails[where]
        changed = bool(gone)
        for where, rows in wanted.items():
            old = self._tails.get(where)
            come = self.now - self.terms.delta
            if old is not None and old.rows is rows and (old.again_at is None or come < old.again_at):
                continue
            changed = True
            chain = self.closed.chain(where).chain
            named = name_messages(chain.channels, chain.lines, rows, come, self.terms, for_good=False)
            part = chain.peek(named.rows, self._find_sends)
            self._serial += 1
            record = self._write_part(part, self._serial)
            piece = _piece(part, record, reported(named.rows, part), final=False)
            self._tails[where] = _Written(piece, rows, named.again_at, named.counts)
        return changed

    def _write_part(self, part: PendingSegment, number: int) -> Record:
        attempt = uuid4().hex[:12]
        files, boundary_file = SegmentFiles("", "", None), None
        if len(part.events):
            files = write_segment(
                self.store,
                self.run,
                number,
                part.events,
                part.skeleton,
                attempt=attempt,
                assumed=part.assumed,
                tied=part.tied,
                lines=part.lines,
            )
            if part.boundary.before.any():
                boundary_file = write_boundary(
                    self.store, self.run, number, part.boundary, part.edge_doubt, attempt=attempt
                )
        return Record.of(part, files, boundary_file, attribute_names(part.events))

    def _mark_emitted(self) -> None:
        for where, written in self._tails.items():
            emitted = written.rows["emitted"].to_numpy().copy()
            emitted[written.piece.part.rows] = written.piece.emitted
            at = written.rows.column_names.index("emitted")
            written.rows = written.rows.set_column(at, "emitted", pa.array(emitted))
            self.tail.plain[where] = written.rows

    def _commit(
        self, assembled: Assembled, log: Future[DeliveryLog], *, closing: bool, lowered: bool, trial: bool
    ) -> None:
        version = self.version + 1
        tag = f"{version:09d}-{uuid4().hex[:8]}"
        self._stored.write(self.tail, f"tail-{tag}")
        # The tables of the tail may have been given other uids: what was written of them stays as it is.
        for where, written in self._tails.items():
            written.rows = self.tail.plain[where]
        for_now = [each.piece.part.aside for each in self._tails.values()]
        aside_files = self._aside.write(self.store, self.run, tag, for_now, file=closing)
        if closing or lowered or version == 1:
            self._closed_file = write_state(self.store, self.run, f"closed-{tag}", Begun(self.terms, self.closed))
        carried = Carried(self._stored.carry(self.tail), self.reports, self.ahead, self._aside, self._serial)
        carry_file = write_state(self.store, self.run, f"carry-{tag}", carried)
        tables = {
            name: write_sealed_table(self.store, self.run, f"{name}-{tag}", table)
            for name, table in assembled.tables.items()
        }
        self.log = log.result()
        state = StateFiles(self._closed_file, carry_file, tuple(self._stored.files.values()))
        manifest = self._manifest(assembled, version, TableFiles(**tables), tuple(aside_files), state)
        if trial:
            return
        self.store.sync(layout.run_folder(self.run))
        write_manifest(self.store, manifest)
        self.store.sync("")
        assembled.run.commit(manifest)
        self.version = version
        self._run, self._committed_at, self.state = assembled.run, self.now, manifest.stream
        self._senders.committed()
        self._files.committed(named_by(manifest, assembled.records))

    def _manifest(
        self, assembled: Assembled, version: int, tables: TableFiles, aside_files: tuple[str, ...], state: StateFiles
    ) -> Manifest:
        tails = [each.piece for each in self._tails.values()]
        chains = {where: each.chain.channels for where, each in self.closed.chains.items()}
        channels = counted_channels(chains, {where: each.channels for where, each in self._tails.items()})
        description = described(assembled.records, tails, self.closed, self._aside, self.terms, channels)
        check_accounts(description.ledger, self.reports)
        policy = description.policies[self.terms.order_policy]
        return Manifest.of(
            description,
            aside_files=aside_files,
            run=self.run,
            created=f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
            events=description.ledger.delivered,
            segments=len(assembled.records),
            processes=len(assembled.tables["processes"]),
            computations=len(pc.unique(assembled.tables["processes"]["computation"])),
            tables=tables,
            stream=Stream(
                policy=self.terms.order_policy,
                counts=counted(description, policy, logged=self.log.last, ahead=self.ahead),
                delay_ns=delays(policy),
                now=self.now,
                positions=self.positions,
                updated=time_ns(),
                log=self.log,
                version=version,
                files=state,
            ),
        )
