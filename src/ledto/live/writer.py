"""Write a live history: ingest reports as they come, and commit after every micro-batch.

A commit replaces the manifest, which names everything that counts: closed segments, the tail's segments, deliveries,
and the positions from which the stream goes on. A writer that is killed before a commit leaves the history as it was.
The next one gets the same reports again and skips those up to the committed positions. So every report counts once.
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
from ledto.history.attribute_types import merge_types
from ledto.history.deliver.segment import DELIVERIES
from ledto.history.draft import refuse_other_folders
from ledto.history.errors import HistoryError, NoHistory
from ledto.history.gone import Gone, gone_from
from ledto.history.lock import Lock
from ledto.history.manifest import Manifest, StateFiles, Stream, TableFiles, read_manifest, write_manifest
from ledto.history.run import Run, open_run
from ledto.history.sealed import missing, write_sealed_table
from ledto.history.store import Store
from ledto.history.window.segment import refused_rows
from ledto.live.chain import Chain, FoundSend, PendingSegment
from ledto.live.channels import count_channel_outcomes, name_messages
from ledto.live.closed_processes import history_name
from ledto.live.commit import (
    Assembled,
    assemble,
    check_accounts,
    count_reports,
    deliver_new,
    describe,
    sum_outcomes,
    summarise_delays,
)
from ledto.live.delivery_log import DeliveryLog
from ledto.live.emit import UnloggedEvents, emit
from ledto.live.files import CommitState, LiveFiles, StoredTail, files_of
from ledto.live.gone import mark_missing_in_closed
from ledto.live.ingest import Closing, ingest, select_reported
from ledto.live.limits import LiveLimits
from ledto.live.quarantine import LiveQuarantine
from ledto.live.senders import Senders, committed_segments, first_arrivals
from ledto.live.state import NOT_STORED, ClosedPart, ClosedState, Tail, read_state, write_state
from ledto.live.terms import LiveTerms, OtherTerms
from ledto.live.written_segments import WrittenSegment, write_pending

Longs = NDArray[np.int64]

log = logging.getLogger("ledto.history")

WRITERS = 4
"""How many segments are written and delivered at once. Most of that work is done outside Python."""
COMMIT_ANYWAY = 30_000_000_000
"""Commit positions after this much stream time, in ns, even if nothing else has changed."""


@dataclass(slots=True, eq=False)
class _SolvedTail:
    """A computation's tail, solved and written as a segment that the next change replaces."""

    piece: UnloggedEvents
    rows: pa.Table
    """The rows of the tail that it was made of."""
    again_at: int | None
    """Solve again once everything dated up to here has come, because more channels can be matched; None if all are."""
    channels: dict[str, int]
    """Counts of channel outcomes, those of closed segments included."""


def _piece(part: PendingSegment, record: WrittenSegment, reports: pa.Table, *, final: bool) -> UnloggedEvents:
    """Make a segment ready for delivery; `reports` as `select_reported` gives them."""
    emitted = reports["emitted"].to_numpy().copy()
    return UnloggedEvents(part, record, reports, DELIVERIES.empty_table(), emitted, final)


class LiveWriter:
    """The only writer of the live history at a path, until `close`. Not for several threads.

    Raises `HistoryInUse` if another writer has it, `OtherTerms` if the stream began with other terms, and
    `HistoryError` if the folder holds something else.
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
        self._writing: list[Future[WrittenSegment]] = []
        self._senders = Senders()
        self._tails: dict[str, _SolvedTail] = {}
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the history for other writers; a second call does nothing.

        Removes the run's folder if nothing was committed.
        """
        self._pool.shutdown()
        if self._run is None and not self._closed:
            self.store.delete_folder(layout.run_folder(self.run))
        self._closed = True
        self._lock.release()

    def _open(self, terms: LiveTerms | None) -> None:
        """Read the last commit and the state to go on from; without a commit, begin a new run."""
        self.closed, self.tail, self._quarantine, self.log = ClosedPart(), Tail(), LiveQuarantine(), DeliveryLog()
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
            self._stored, self._files = StoredTail(self.store, self.run), LiveFiles(self.store, self.run)
            return
        stream = manifest.stream
        if stream is None:
            raise HistoryError(f"{self.store} has a history that was made at once: name another folder for a live one")
        self.run = manifest.run
        self._stored = StoredTail(self.store, self.run)
        stored = read_state(self.store, self.run, stream.files.closed, ClosedState)
        self.terms, self.closed = stored.terms, stored.closed
        if terms is not None and terms != self.terms:
            raise OtherTerms(
                f"the stream at {self.store} began with {self.terms}: go on with these, or name another folder"
            )
        at_commit = read_state(self.store, self.run, stream.files.carry, CommitState)
        self.reports, self.ahead = at_commit.reports, at_commit.ahead
        self._quarantine, self._serial = at_commit.quarantine, at_commit.serial
        self.tail = self._stored.read(at_commit.tail)
        self.log = DeliveryLog.of(manifest)
        self.positions, self.now, self.version = dict(stream.positions), stream.now, stream.version
        self._committed_at = self.now
        self._closed_file = stream.files.closed
        self._files = LiveFiles(self.store, self.run)
        self._files.resume(manifest)
        self._run = open_run(self.store)

    @property
    def tail_rows(self) -> int:
        """How many reports are not closed."""
        return sum(len(rows) for rows in self.tail.rows())

    def quarantine_tail(self, chosen: NDArray[np.bool_], reason: str) -> None:
        """Quarantine rows of the tail; the next step commits that.

        `chosen` has a flag for each row, in the order of `Tail.rows`.
        """
        if not chosen.any():
            return
        kept, start = [], 0
        for rows in self.tail.rows():
            is_chosen = chosen[start : start + len(rows)]
            start += len(rows)
            given_up = rows.filter(pa.array(is_chosen))
            reasons = pa.array([reason] * len(given_up), pa.string())
            at = given_up.column_names.index("reason")
            refused = refused_rows(given_up.set_column(at, "reason", reasons))
            self._quarantine.add(refused)
            self._given_up += [replace(gone, process=history_name(gone.process)) for gone in gone_from(refused)]
            kept.append(rows.filter(pa.array(~is_chosen)))
        tables = zip(self.tail.by_computation, kept, strict=True)
        self.tail.by_computation = {computation: rows for computation, rows in tables if len(rows)}

    def step(
        self, rows: pa.Table, *, now: int, positions: Mapping[str, int] | None = None, commit: bool = True
    ) -> bool:
        """Ingest reports in the order in which they came, and commit; return whether anything was committed.

        `rows` have the columns of `ledto.events.schema.REPORTS`. All have an arrival, which never falls, and all come
        after the `positions` of the last commit. `now` is the stream's time, which also moves on without reports. With
        `commit=False` everything is done but the commit: a trial, after which the writer must not be used.

        HAZARD: if a step raises, the history is as it was, but the writer is not. Close it and open another.
        """
        self.now = max(self.now, now)
        self.positions |= positions or {}
        self.reports += len(rows)
        rows = rows.append_column("uid", pa.array(np.full(len(rows), NOT_STORED, np.int64)))
        rows = rows.append_column("emitted", pa.array(np.zeros(len(rows), np.bool_)))
        ingested = ingest(
            rows, self.closed, self.tail, self.now, self.terms, self.limits, self._find_sends, self._start_writing
        )
        self.ahead += ingested.ahead
        for quarantined in ingested.quarantined:
            self._quarantine.add(quarantined)
        self._warn_of_limits(ingested.quarantined)
        pieces = self._finish_writing(ingested.closings)
        more_holes = self._mark_gone([*self._given_up, *ingested.gone])
        changed = self._write_tails()
        pieces += [tail.piece for tail in self._tails.values()]
        idle = not (len(rows) or ingested.closings or changed or self._any_is_due(pieces))
        if idle and (not self.version or self.now - self._committed_at < COMMIT_ANYWAY):
            return False
        assembled = assemble(
            self.store,
            self.run,
            self.closed,
            {computation: tail.piece.record for computation, tail in self._tails.items()},
            {computation: tail.piece.part.holes for computation, tail in self._tails.items()},
        )
        self._add_outcomes(deliver_new(assembled, pieces, self.terms, self._pool))
        emitted = emit(
            pieces,
            self._settled_until,
            self.log.last,
            partial(self._first_arrivals, assembled.run),
            tick=self.terms.tick_ns,
        )
        log = self._pool.submit(self.log.append, self.store, self.run, emitted)
        self._mark_emitted()
        self._commit(assembled, log, closing=bool(ingested.closings), more_holes=more_holes, trial=not commit)
        return commit

    def _warn_of_limits(self, quarantined: list[pa.Table]) -> None:
        """Log reports that were refused because of a limit: an operator has to act."""
        for rows in quarantined:
            beyond = rows.filter(pc.starts_with(rows["reason"], "too-many-"))
            if len(beyond):
                log.warning("%d reports were quarantined: %s", len(beyond), beyond["reason"][0])

    def _add_outcomes(self, delivered: list[UnloggedEvents]) -> None:
        """Add the outcomes of closed segments to the sum over all closed segments."""
        final = [piece.record.outcome for piece in delivered if piece.final and piece.record.outcome is not None]
        if final:
            done = [] if self.closed.delivered is None else [self.closed.delivered]
            self.closed.delivered = sum_outcomes([*done, *final])

    @property
    def _settled_until(self) -> int:
        """Deliveries up to this time are final: their tick is over."""
        return self.now - self.terms.settling - self.terms.tick_ns

    def _any_is_due(self, pieces: list[UnloggedEvents]) -> bool:
        """Tell whether a delivery is final and not in the log."""
        until = self._settled_until

        def has_due(piece: UnloggedEvents) -> bool:
            at = piece.deliveries["at"].fill_null(until + 1).to_numpy()
            return bool((~piece.emitted & (at <= until)).any())

        return any(len(piece.deliveries) and has_due(piece) for piece in pieces)

    def _find_sends(self, chain: Chain, keys: set[str]) -> list[FoundSend]:
        """Find the events in closed segments that send these keys."""
        records = [record for record in self.closed.chain(chain.computation).records if record.outcome is not None]
        committed = committed_segments(self._run, records) if self._run is not None else ()
        return list(self._senders.find(chain, keys, committed))

    def _first_arrivals(self, run: Run, piece: UnloggedEvents, keys: set[str]) -> dict[str, int]:
        """Find when a report of a send first came, by key, in closed segments before this one."""
        records = self.closed.chain(piece.part.events["computation"][0].as_py()).records
        before = next((place for place, record in enumerate(records) if record is piece.record), len(records))
        return first_arrivals(run, records[:before], keys)

    def _start_writing(self, computation: str, first_position: int, part: PendingSegment) -> None:
        """Begin to write a closed segment in the background, while the next one is solved."""
        self._senders.add_closed(computation, first_position, part)
        self._serial += 1
        self._writing.append(self._pool.submit(write_pending, self.store, self.run, part, self._serial))

    def _finish_writing(self, closings: list[Closing]) -> list[UnloggedEvents]:
        """Wait for the closed segments to be written; keep their records, and return them for delivery."""
        records = [writing.result() for writing in self._writing]
        self._writing.clear()
        pieces = []
        for closing, record in zip(closings, records, strict=True):
            self._quarantine.add(closing.part.quarantined)
            if record.rows:
                self.closed.chain(closing.computation).records.append(record)
            self.closed.attributes = merge_types((self.closed.attributes, record.attributes))
            pieces.append(_piece(closing.part, record, closing.reported, final=True))
        return pieces

    def _mark_gone(self, gone: list[Gone]) -> bool:
        """Mark the closed part where reports are missing from it; return whether that changed anything."""
        self._given_up = []
        before = {name: (closed.chain.gone, closed.chain.holes) for name, closed in self.closed.chains.items()}
        for report in gone:
            if report.computation in self.closed.chains or len(self.closed.chains) < self.limits.computations:
                self.closed.chain(report.computation).chain.remember_gone([report])
        read = partial(assemble, self.store, self.run, self.closed, {}, {})
        changed = False
        for name, closed in self.closed.chains.items():
            chain = closed.chain
            if chain.gone:
                mark_missing_in_closed(chain, closed.records, read)
            gone_before, holes_before = before.get(name, ([], None))
            if chain.gone != gone_before or (holes_before is not None and chain.holes is not holes_before):
                # The tail comes after what is closed, so it lacks the reports as well: solve it anew.
                self._tails.pop(name, None)
                changed = True
        return changed

    def _write_tails(self) -> bool:
        """Solve and write the tails that have changed; return whether any has."""
        tails = dict(self.tail.by_computation)
        gone_names = [computation for computation in self._tails if computation not in tails]
        for computation in gone_names:
            del self._tails[computation]
        changed = bool(gone_names)
        for computation, rows in tails.items():
            solved = self._tails.get(computation)
            come_until = self.now - self.terms.delta
            if solved is not None and solved.rows is rows and (solved.again_at is None or come_until < solved.again_at):
                continue
            changed = True
            chain = self.closed.chain(computation).chain
            named = name_messages(chain.channels, chain.closed_processes, rows, come_until, self.terms, for_good=False)
            part = chain.peek(named.rows, self._find_sends)
            self._serial += 1
            record = write_pending(self.store, self.run, part, self._serial, closed=False)
            piece = _piece(part, record, select_reported(named.rows, part), final=False)
            self._tails[computation] = _SolvedTail(piece, rows, named.again_at, named.counts)
        return changed

    def _mark_emitted(self) -> None:
        """Note in the tail's rows which of them are in the log now."""
        for computation, solved in self._tails.items():
            emitted = solved.rows["emitted"].to_numpy().copy()
            emitted[solved.piece.part.rows] = solved.piece.emitted
            at = solved.rows.column_names.index("emitted")
            solved.rows = solved.rows.set_column(at, "emitted", pa.array(emitted))
            self.tail.by_computation[computation] = solved.rows

    def _commit(
        self, assembled: Assembled, log: Future[DeliveryLog], *, closing: bool, more_holes: bool, trial: bool
    ) -> None:
        """Write all that a manifest names, then replace the manifest. A `trial` stops before that."""
        version = self.version + 1
        tag = f"{version:09d}-{uuid4().hex[:8]}"
        self._stored.write(self.tail, f"tail-{tag}")
        # The tail's tables may have new uids. The rows are the same, so nothing has to be solved anew.
        for computation, solved in self._tails.items():
            solved.rows = self.tail.by_computation[computation]
        for_now = [tail.piece.part.quarantined for tail in self._tails.values()]
        quarantine_files = self._quarantine.write(self.store, self.run, tag, for_now, file=closing)
        if closing or more_holes or version == 1:
            self._closed_file = write_state(self.store, self.run, f"closed-{tag}", ClosedState(self.terms, self.closed))
        at_commit = CommitState(
            self._stored.list_rows(self.tail), self.reports, self.ahead, self._quarantine, self._serial
        )
        carry_file = write_state(self.store, self.run, f"carry-{tag}", at_commit)
        tables = {
            name: write_sealed_table(self.store, self.run, f"{name}-{tag}", table)
            for name, table in assembled.tables.items()
        }
        self.log = log.result()
        state = StateFiles(self._closed_file, carry_file, tuple(self._stored.files.values()))
        manifest = self._manifest(assembled, version, TableFiles(**tables), tuple(quarantine_files), state)
        if trial:
            return
        self.store.sync(layout.run_folder(self.run))
        write_manifest(self.store, manifest)
        self.store.sync("")
        assembled.run.commit(manifest)
        self.version = version
        self._run, self._committed_at, self.state = assembled.run, self.now, manifest.stream
        self._senders.forget_closed()
        self._files.replace(files_of(manifest, assembled.records))

    def _manifest(
        self,
        assembled: Assembled,
        version: int,
        tables: TableFiles,
        quarantine_files: tuple[str, ...],
        state: StateFiles,
    ) -> Manifest:
        tails = [tail.piece for tail in self._tails.values()]
        chains = {name: closed.chain.channels for name, closed in self.closed.chains.items()}
        channels = count_channel_outcomes(chains, {name: tail.channels for name, tail in self._tails.items()})
        description = describe(assembled.records, tails, self.closed, self._quarantine, self.terms, channels)
        check_accounts(description.ledger, self.reports)
        policy = description.policies[self.terms.order_policy]
        return Manifest.of(
            description,
            quarantine_files=quarantine_files,
            run=self.run,
            created=f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
            events=description.ledger.delivered,
            segments=len(assembled.records),
            processes=len(assembled.tables["processes"]),
            computations=len(pc.unique(assembled.tables["processes"]["computation"])),
            tables=tables,
            stream=Stream(
                policy=self.terms.order_policy,
                counts=count_reports(description, policy, logged=self.log.last, ahead=self.ahead),
                delay_ns=summarise_delays(policy),
                now=self.now,
                positions=self.positions,
                updated=time_ns(),
                log=self.log,
                version=version,
                files=state,
            ),
        )
