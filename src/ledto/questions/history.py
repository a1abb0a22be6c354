"""Open a committed history and ask it questions: the class `History`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike, NDArray

from ledto.extras import name_missing_extra
from ledto.history.errors import EventNotFound
from ledto.history.manifest import to_json
from ledto.history.run import Run, open_run
from ledto.history.store import Store
from ledto.history.times import PER_SECOND, parse_time
from ledto.questions.event import Event, events_at
from ledto.questions.locate import Asked, locate, unknown_name
from ledto.questions.standing import Standing
from ledto.questions.why import Filter, Why, why

# Methods import the other questions themselves: one question need not wait for the modules of all.
if TYPE_CHECKING:
    from ledto.questions.check import Check, ProcessList, QuarantinedReports
    from ledto.questions.clocks import Clocks
    from ledto.questions.concurrent import Concurrent
    from ledto.questions.cut import Cut
    from ledto.questions.explain import Explanation, Related
    from ledto.questions.find import Found, OnProgress
    from ledto.questions.impact import Impact
    from ledto.questions.order import Order
    from ledto.questions.provable import Provable
    from ledto.questions.query import QueryResult, SqlDatabase
    from ledto.questions.relation import Numbered

DEFAULT_K = 25
"""How many events an answer lists."""
DEFAULT_FOUND = 20
"""How many events `History.find` lists."""
DEFAULT_POSSIBLE = 10
"""How many possible events an answer lists besides."""


class History:
    """A committed history. Threads may share it.

    An event is named by the id that its source gave, as ``process:seq`` or as ``@position``, by a text that no other event
    has, or given as an `Event` of another answer. If several computations have events of that name, choose one with
    ``computation=``. Methods raise subclasses of `HistoryError`: `EventNotFound`, `AmbiguousEvent`, `BadCondition`, and
    `HistoryReplaced` once a newer run has replaced this one.
    """

    def __init__(self, path: str | os.PathLike[str], *, cache_bytes: int | None = None) -> None:
        store = Store(path)
        self.run: Run = open_run(store) if cache_bytes is None else open_run(store, cache_bytes=cache_bytes)

    @property
    def unit(self) -> str:
        """The unit of times: ns, unless the run was told another."""
        return self.run.manifest.unit

    def __len__(self) -> int:
        return self.run.events_total

    def __repr__(self) -> str:
        return f"History({self.run.store.root!r}): {len(self)} events of {len(self.run.processes)} processes"

    def _repr_html_(self) -> str:
        """Summarize the history for a notebook."""
        from ledto.web.notebook import draw_history

        return draw_history(self)

    def event(self, event: Asked, *, computation: str | None = None, newest: bool = False) -> Event:
        """Read the event of this name, or with this text; `newest` takes the newest of several with the text."""
        (one,) = events_at(self.run, [locate(self.run, event, computation=computation, newest=newest)])
        return one

    def find(
        self,
        text: str | Iterable[str] | None = None,
        *,
        where: str | None = None,
        last: int = DEFAULT_FOUND,
        first: int | None = None,
        errors: bool = False,
        processes: Iterable[str] | None = None,
        since: int | str | None = None,
        until: int | str | None = None,
        computation: str | None = None,
        on_progress: OnProgress = lambda _: None,
    ) -> Found:
        """Find the newest `last` events, or the `first` ones, that meet all that is given; the newest comes last.

        `text`: words that follow each other in the name of the event or in the value of one attribute, whatever their case;
        of several texts, the event has all. `errors`: only events that report a failure. `since` and `until` are wall times
        as in `cut`, both included. `where` and `processes` are as in `why`. A condition alone may have to read everything:
        `on_progress` gets the number of events passed, now and then, and ends the search by returning False.
        """
        from ledto.questions.find import Search, find, phrases_of

        count = last if first is None else first
        _check_k(count)
        wanted = self._filter(where, processes, None)
        if computation is not None:
            codes = self._codes_of(computation)
            wanted = replace(wanted, codes=codes if wanted.codes is None else np.intersect1d(codes, wanted.codes))
        moments = [None if time is None else self._moment(time) for time in (since, until)]
        search = Search(phrases_of(text), errors, moments[0], moments[1], wanted)
        return find(self.run, search, count, oldest=first is not None, on_progress=on_progress)

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
        """Find what led to an event: the last `k` events that are recorded to have led to it, oldest first.

        Also find up to `possible` other events that may have led to it, the most useful first. `answered`: count assumed
        answers as recorded.

        `where` is a condition in SQL over columns and attributes (`ledto.questions.where`); `processes` and `names` select
        events by process and by name. With any of these, the search goes back until `k` events meet all of them, or to the
        start; `on_progress` gets the position reached, now and then.
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
        """Find what came of an event: the first `k` recorded effects, and up to `possible` possible ones; count all."""
        from ledto.questions.impact import impact

        _check_k(k)
        _check_k(possible)
        return impact(self.run, locate(self.run, event, computation=computation), k, possible)

    def relation(
        self, first: Asked, second: Asked, *, answered: bool = False, computation: str | None = None
    ) -> Standing:
        """Find the relation of the first event to the second. Events of different computations are concurrent.

        `answered`: count assumed answers as recorded.
        """
        from ledto.questions.relation import relation

        places = [locate(self.run, event, computation=computation) for event in (first, second)]
        return relation(self.run, *places, answered=answered)

    def related(
        self, first: Asked, second: Asked, *, answered: bool = False, computation: str | None = None
    ) -> Related:
        """Do as `relation`; return also the two events, the step that is not recorded, or what is missing."""
        from ledto.questions.explain import related

        places = [locate(self.run, event, computation=computation) for event in (first, second)]
        return related(self.run, *places, answered=answered)

    def relations(self, first: ArrayLike | Numbered, second: ArrayLike | Numbered) -> NDArray[np.int8]:
        """Find the relations of many pairs of events, as indices into `ledto.questions.RELATIONS`.

        Each argument is an array of positions, or `Numbered`. Both have the same length.
        """
        from ledto.questions.relation import relations

        return relations(self.run, first, second)

    def explain(
        self, first: Asked, second: Asked, *, answered: bool = False, computation: str | None = None
    ) -> Explanation:
        """Find the steps by which one event led to another, or may have; no steps if no path leads there."""
        from ledto.questions.explain import explain

        places = [locate(self.run, event, computation=computation) for event in (first, second)]
        return explain(self.run, *places, answered=answered)

    def concurrent(self, event: Asked, *, k: int = DEFAULT_K, computation: str | None = None) -> Concurrent:
        """Find the `k` nearest events that are provably concurrent with an event; count all.

        Count apart those that may be concurrent or not, because reports are missing.
        """
        from ledto.questions.concurrent import concurrent

        _check_k(k)
        return concurrent(self.run, locate(self.run, event, computation=computation), k)

    def cut(
        self,
        event: Asked | None = None,
        *,
        time: int | str | None = None,
        k: int = DEFAULT_K,
        computation: str | None = None,
    ) -> Cut:
        """Find a consistent state: everything up to an event or a time, and the first `k` messages under way.

        A time is a number in the history's unit, or a text in ISO 8601. A cut by time has the events with causal times up to
        it, of all computations unless one is named.
        """
        from ledto.questions.cut import cut_at_event, cut_at_time

        _check_k(k)
        if (event is None) == (time is None):
            raise ValueError("a cut is at an event or at a time: give one of them")
        if event is not None:
            try:
                position = locate(self.run, event, computation=computation)
            except EventNotFound as unknown:
                if isinstance(event, str) and parse_time(event, self.unit) is not None:
                    raise EventNotFound(f"{unknown}; for a cut at a time, give time={event!r:.60}") from None
                raise
            return cut_at_event(self.run, position, k)
        codes = np.arange(len(self.run.processes)) if computation is None else self._codes_of(computation)
        return cut_at_time(self.run, self._moment(time), k, codes)

    def _moment(self, time: int | str | None) -> int:
        """Read a time that a caller gives."""
        moment = parse_time(time, self.unit) if isinstance(time, str) else time
        if moment is None:
            or_text = ", or a text such as 2026-01-31T12:00:00.5Z" if self.unit in PER_SECOND else ""
            raise ValueError(f"a time is a number of {self.unit}{or_text}, not {time!r:.60}")
        return int(moment)

    def _codes_of(self, computation: str) -> NDArray[np.int64]:
        """Find the codes of a computation's processes. Raises `EventNotFound` if there is no such computation."""
        codes = self.run.processes.of_computation(computation)
        if not len(codes):
            raise EventNotFound(unknown_name(self.run, "computation", computation))
        return codes

    def order(self, *, policy: str | None = None) -> Order:
        """List all events in history order, or in the order in which a policy delivers them."""
        from ledto.questions.order import Order

        return Order(self.run, policy=policy)

    def order_tables(self, *, policy: str | None = None) -> Iterator[pa.Table]:
        """Do as `order`; yield Arrow tables of some thousand rows, with the stored columns and ``position``."""
        from ledto.questions.order import order_tables

        return order_tables(self.run, policy=policy, columns=self.run.event_schema().names)

    def sql(self, query: str) -> QueryResult:
        """Ask in SQL, on DuckDB: the views are those of `ledto.questions.sql`. Needs ``ledto[sql]``.

        The files behind the views that a query names are verified once. Tables that a query makes are kept in memory, for
        later queries of this `History`. Raises `BadQuery` for what DuckDB refuses. HAZARD: like any SQL of DuckDB, a query
        may read and write files of this machine.
        """
        return self._database.ask(query)

    @cached_property
    def _database(self) -> SqlDatabase:
        with name_missing_extra():
            from ledto.questions.query import SqlDatabase
        return SqlDatabase(self.run)

    def processes(self) -> ProcessList:
        """List all processes, by code."""
        from ledto.questions.check import Process, ProcessList

        return ProcessList(Process(**row) for row in self.run.processes.table.to_pylist())

    def check(self) -> Check:
        """Account for all reports, and say what wall-clock order and each policy get wrong."""
        from ledto.questions.check import Check

        manifest = self.run.manifest
        policies = {name: to_json(policy) for name, policy in manifest.policies.items()}
        for policy in policies.values():
            del policy["files"]
        ledger, wall_clock = to_json(manifest.ledger), to_json(manifest.wall_clock)
        return Check(len(self), ledger, wall_clock, policies, manifest.channels, self.provable())

    def provable(self) -> Provable:
        """Count the events for which it can be proved what cannot have led to them."""
        from ledto.questions.provable import provable

        return provable(self.run)

    def clocks(self) -> Clocks:
        """Estimate how wrong each clock is, and which are broken."""
        from ledto.questions.clocks import clocks_of

        return clocks_of(self.run)

    def quarantine(self, *, outcome: str | None = "quarantined") -> QuarantinedReports:
        """List quarantined reports with the reasons; with `outcome` None, duplicates as well."""
        from ledto.questions.check import QuarantinedReports

        return QuarantinedReports(self.run, outcome)

    def _filter(self, where: str | None, processes: Iterable[str] | None, names: Iterable[str] | None) -> Filter:
        codes = None
        if processes is not None:
            asked = [(name, self.run.processes.called(name)) for name in processes]
            if unknown := [name for name, of_name in asked if not len(of_name)]:
                raise EventNotFound(unknown_name(self.run, "process", unknown[0]))
            codes = np.unique(np.concatenate([np.empty(0, np.int64), *(of_name for _, of_name in asked)]))
        condition = None
        if where is not None:
            with name_missing_extra():
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
    """Open the history at a path or URI; raise `NoHistory` if there is none.

    `cache_bytes` bounds the memory for what was read; 256 MB by default.
    """
    return History(path, cache_bytes=cache_bytes)


def _check_k(k: int) -> None:
    if k < 0:
        raise ValueError(f"k says how many events to list, 0 or more, not {k}")
