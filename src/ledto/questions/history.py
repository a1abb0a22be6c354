"""`History`: the questions that a committed history answers."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike, NDArray

from ledto.history.errors import EventNotFound
from ledto.history.manifest import to_json
from ledto.history.run import Run, open_run
from ledto.history.store import Store
from ledto.questions.event import Event, events_at
from ledto.questions.locate import Asked, locate, unknown_name
from ledto.questions.standing import Standing
from ledto.questions.why import Filter, Why, why

# The rest is imported by the method that needs it: one question must not wait for the modules of all.
if TYPE_CHECKING:
    from ledto.questions.clocks import Clocks
    from ledto.questions.concurrent import Concurrent
    from ledto.questions.cut import Cut
    from ledto.questions.explain import Explanation, Related
    from ledto.questions.impact import Impact
    from ledto.questions.provable import Provable
    from ledto.questions.relation import Numbered

DEFAULT_K = 25
DEFAULT_POSSIBLE = 10


@dataclass(frozen=True, slots=True)
class Process:
    """A process of the history."""

    code: int
    """Its number, which `History.relations` takes."""
    computation: str
    process: str
    clock_name: str | None
    """Whose clock its times are from, if not its own."""
    events: int
    first_time: int | None
    last_time: int | None
    dense_seq: bool
    """Whether no number is missing between its first event and its last."""
    messages: int = 0
    """Events that send or receive something."""
    first_hole: int | None = None
    """The number of its first event before which a report is missing."""
    first_tainted: int | None = None
    """The number of its first event that has such an event in its past: from there on nothing is provably concurrent."""
    first_gone: int | None = None
    """The number of its first event that may come after a report which was set aside or came late."""
    gone_why: str | None = None
    """Why that report was set aside, or that it came late."""

    def to_json(self) -> dict[str, Any]:
        """For `json.dumps`."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class QuarantinedReport:
    """A report that was set aside when the history was made."""

    outcome: str
    """``quarantined`` or ``duplicate``."""
    reason: str | None
    """A code and a detail: ``not-json: ...``."""
    computation: str | None
    process: str | None
    file: str | None
    place: int | None
    text: str | None

    def to_json(self) -> dict[str, Any]:
        """For `json.dumps`."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Check:
    """What was found when the history was made."""

    events: int
    ledger: dict[str, Any]
    """Reports, and what became of them."""
    wall_clock: dict[str, Any]
    """How the order by wall time contradicts causal order."""
    policies: dict[str, Any]
    """The same, and the delays, for each policy of delivery."""
    channels: dict[str, int]
    """How sends and receives were matched that only share a channel."""
    provable: Provable
    """For how many events it is known what cannot have led to them."""

    def to_json(self) -> dict[str, Any]:
        """For `json.dumps`."""
        every = {name: getattr(self, name) for name in Check.__slots__}
        return {**every, "provable": self.provable.to_json()}


class History:
    """A committed history. Threads may share it.

    Events are named by their source's id, as ``process:seq``, or as ``@position``, or they are events of other answers.
    A name that several computations have needs ``computation=``. Raises subclasses of `HistoryError`: `EventNotFound`,
    `AmbiguousEvent`, `BadCondition`, and `HistoryReplaced` once a newer run has taken the place of this one.
    """

    def __init__(self, path: str | os.PathLike[str], *, cache_bytes: int | None = None) -> None:
        store = Store(path)
        self.run: Run = open_run(store) if cache_bytes is None else open_run(store, cache_bytes=cache_bytes)

    @property
    def unit(self) -> str:
        """The unit of times: ns, or whatever the run said."""
        return self.run.manifest.unit

    def __len__(self) -> int:
        return self.run.events_total

    def __repr__(self) -> str:
        return f"History({self.run.store.root!r}): {len(self)} events of {len(self.run.processes)} processes"

    def event(self, event: Asked, *, computation: str | None = None) -> Event:
        """The event of this name."""
        (found,) = events_at(self.run, [locate(self.run, event, computation=computation)])
        return found

    def why(
        self,
        event: Asked,
        *,
        k: int = DEFAULT_K,
        possible: int = DEFAULT_POSSIBLE,
        where: str | None = None,
        processes: Iterable[str] | None = None,
        names: Iterable[str] | None = None,
        answered: bool = False,
        computation: str | None = None,
        on_progress: Callable[[int], None] | None = None,
    ) -> Why:
        """What led to an event: the last `k` events that are recorded to have led to it, oldest first.

        Apart from those, up to `possible` events that may have led to it through the shared state of a process, or by an
        answer that is assumed: the most telling first. `answered`: answers that are only assumed count as recorded.

        `where` is a condition in SQL over columns and attributes (`ledto.questions.where`); `processes` and
        `names` are the processes and names to look for. With any of them the sweep goes on until `k` events meet all, or
        to the start; `on_progress` then gets the position reached, now and then.
        """
        _check_k(k)
        _check_k(possible)
        position = locate(self.run, event, computation=computation)
        wanted = self._filter(where, processes, names)
        return why(self.run, position, k, possible, wanted, on_progress, answered=answered)

    def impact(
        self,
        event: Asked,
        *,
        k: int = DEFAULT_K,
        possible: int = DEFAULT_POSSIBLE,
        computation: str | None = None,
    ) -> Impact:
        """What came of an event: the next `k` effects, and up to `possible` events that it may have led to besides.

        How many there are, by process, counts both.
        """
        from ledto.questions.impact import impact

        _check_k(k)
        _check_k(possible)
        return impact(self.run, locate(self.run, event, computation=computation), k, possible)

    def relation(
        self, first: Asked, second: Asked, *, answered: bool = False, computation: str | None = None
    ) -> Standing:
        """How the first event stands to the second. Events of different computations are concurrent.

        `answered`: answers that are only assumed count as recorded; so in `related` and `explain`.
        """
        from ledto.questions.relation import relation

        places = [locate(self.run, each, computation=computation) for each in (first, second)]
        return relation(self.run, *places, answered=answered)

    def related(
        self, first: Asked, second: Asked, *, answered: bool = False, computation: str | None = None
    ) -> Related:
        """The same, with the two events: through what a possible cause would act, or what is missing."""
        from ledto.questions.explain import related

        places = [locate(self.run, each, computation=computation) for each in (first, second)]
        return related(self.run, *places, answered=answered)

    def relations(self, first: ArrayLike | Numbered, second: ArrayLike | Numbered) -> NDArray[np.int8]:
        """How each of many events stands to another, as indices into `ledto.questions.RELATIONS`.

        Each argument is a column of positions, or `Numbered`: a column of process codes and one of numbers within them.
        """
        from ledto.questions.relation import relations

        return relations(self.run, first, second)

    def explain(
        self, first: Asked, second: Asked, *, answered: bool = False, computation: str | None = None
    ) -> Explanation:
        """How one event led, or may have led, to another, step by step; no steps where nothing leads there."""
        from ledto.questions.explain import explain

        places = [locate(self.run, each, computation=computation) for each in (first, second)]
        return explain(self.run, *places, answered=answered)

    def concurrent(self, event: Asked, *, k: int = DEFAULT_K, computation: str | None = None) -> Concurrent:
        """What is provably concurrent with an event: the `k` nearest in history order, how many there are, and how many
        of which that cannot be known, because reports are missing."""
        from ledto.questions.concurrent import concurrent

        _check_k(k)
        return concurrent(self.run, locate(self.run, event, computation=computation), k)

    def cut(
        self,
        event: Asked | None = None,
        *,
        time: int | None = None,
        k: int = DEFAULT_K,
        computation: str | None = None,
    ) -> Cut:
        """A consistent state: everything up to an event, or up to a time; and the first `k` messages under way.

        A cut by time holds the events whose causal time is not after it, of all computations unless one is named.
        """
        from ledto.questions.cut import cut_at_event, cut_at_time

        _check_k(k)
        if (event is None) == (time is None):
            raise ValueError("a cut is at an event or at a time: give one of them")
        if event is not None:
            return cut_at_event(self.run, locate(self.run, event, computation=computation), k)
        codes = np.arange(len(self.run.processes))
        if computation is not None:
            codes = np.flatnonzero(pc.equal(self.run.processes.computation, computation).to_numpy(zero_copy_only=False))
            if not len(codes):
                raise EventNotFound(unknown_name(self.run, "computation", computation))
        return cut_at_time(self.run, int(time or 0), k, codes)

    def order(self, *, policy: str | None = None) -> Iterator[Event]:
        """All events in history order, or in the order in which a policy delivers them."""
        from ledto.questions.order import order_events

        return order_events(self.run, policy=policy)

    def order_tables(self, *, policy: str | None = None) -> Iterator[pa.Table]:
        """The same as Arrow tables of some thousand rows, with the stored columns and ``position``."""
        from ledto.questions.order import order_tables

        return order_tables(self.run, policy=policy, columns=self.run.event_schema().names)

    def processes(self) -> tuple[Process, ...]:
        """All processes, by code."""
        return tuple(Process(**row) for row in self.run.processes.table.to_pylist())

    def check(self) -> Check:
        """What the run found: reports accounted for, and what wall-clock order and each policy get wrong."""
        manifest = self.run.manifest
        policies = {name: to_json(policy) for name, policy in manifest.policies.items()}
        for policy in policies.values():
            del policy["files"]
        ledger, wall_clock = to_json(manifest.ledger), to_json(manifest.wall_clock)
        return Check(len(self), ledger, wall_clock, policies, manifest.channels, self.provable())

    def provable(self) -> Provable:
        """For how many events it is known what cannot have led to them."""
        from ledto.questions.provable import provable

        return provable(self.run)

    def clocks(self) -> Clocks:
        """How wrong each clock is, what that rests on, and which are broken."""
        from ledto.questions.clocks import clocks_of

        return clocks_of(self.run)

    def quarantine(self, *, outcome: str | None = "quarantined") -> Iterator[QuarantinedReport]:
        """Reports that were set aside, with the reasons; `outcome` None gives duplicates, too."""
        for name in self.run.manifest.aside_files:
            for batch in self.run.file_batches(name):
                for row in batch.to_pylist():
                    if outcome is None or row["outcome"] == outcome:
                        yield QuarantinedReport(**row)

    def _filter(self, where: str | None, processes: Iterable[str] | None, names: Iterable[str] | None) -> Filter:
        codes = None
        if processes is not None:
            asked = [(name, self.run.processes.called(name)) for name in processes]
            if unknown := [name for name, found in asked if not len(found)]:
                raise EventNotFound(unknown_name(self.run, "process", unknown[0]))
            codes = np.unique(np.concatenate([np.empty(0, np.int64), *(found for _, found in asked)]))
        condition = None
        if where is not None:
            from ledto.questions.where import Condition  # DuckDB takes a while to load.

            condition = Condition(where, self.run.event_schema(), self.run.manifest.attributes)
        wanted = None if names is None else pa.array(list(names), pa.string())
        if condition is None and wanted is None:
            return Filter(codes)
        columns = {*(condition.columns if condition else ()), *(("name",) if wanted is not None else ())}

        def test(rows: pa.Table) -> NDArray[np.bool_]:
            met = np.ones(len(rows), np.bool_)
            if wanted is not None:
                met &= pc.is_in(rows["name"].cast(pa.string()), wanted).to_numpy()
            if condition is not None:
                met &= condition.test(rows.select(condition.columns))
            return met

        return Filter(codes, tuple(sorted(columns)), test)


def open_history(path: str | os.PathLike[str], *, cache_bytes: int | None = None) -> History:
    """The history at a path or URI; `NoHistory` where there is none."""
    return History(path, cache_bytes=cache_bytes)


def _check_k(k: int) -> None:
    if k < 0:
        raise ValueError(f"k says how many events to list, 0 or more, not {k}")
