"""Segments made one by one become one history: open ends are settled, numbers run on, and every assumption is checked.

Runs on the driver. Its memory grows with the messages that cross from one segment to another and with those whose send
nobody reported, not with the events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ledto.errors import LedtoError
from ledto.events.schema import ANSWER, UNKNOWN_ANSWER, UNKNOWN_CALL
from ledto.history import layout
from ledto.history.open_ends import TIED, called_at_unknown_time, causes_of, doubt_of, events_for, is_assumed, lacks
from ledto.history.window.plan import Epochs, WindowPlan
from ledto.history.window.segment import SegmentResult, SegmentTarget

Longs = NDArray[np.int64]

Place: TypeAlias = tuple[int, int]
"""A window and a place in its segment; ``-1 - process`` for the first place of a process there, if it is that of an effect,
or its last, if it is that of a cause."""

ENDS = pa.schema(
    [
        ("receives", pa.bool_()),
        ("key", pa.string()),
        ("place", pa.int64()),
        ("process", pa.int32()),
        ("cause", pa.int64()),
        ("named", pa.bool_()),
        ("alias", pa.string()),
        ("home", pa.int32()),
        ("within", pa.int32()),
        ("twice", pa.bool_()),
        ("window", pa.int64()),
    ]
)
"""Open ends of segments: those that receive a key, and those that send one."""


FindSenders = Callable[[Sequence[int], pa.Array], pa.Table]
"""Looks for message keys among the events of windows that were written; gives a table of ``key``, ``window``, ``place``
and ``within``, as open ends have it."""


class EpsTooSmall(LedtoError):
    """Clocks differ by more than the bound that the windows were cut with; nothing was committed."""

    def __init__(self, eps: int, least: int | None, where: str) -> None:
        self.eps, self.least, self.where = eps, least, where
        advice = "" if least is None else f". An eps of {least} would do"
        super().__init__(f"eps = {eps} is too small for these clocks: {where}{advice}")


class Unbalanced(LedtoError):
    """Reports in are not delivered + duplicate + quarantined. A defect of ledto: nothing was committed."""


@dataclass(slots=True)
class JoinedCrossings:
    """Causes that lie in another segment than their effect, by window and place."""

    effect_window: list[int] = field(default_factory=list)
    effect_place: list[int] = field(default_factory=list)
    cause_window: list[int] = field(default_factory=list)
    cause_place: list[int] = field(default_factory=list)
    doubt: list[int] = field(default_factory=list)
    """How sure the cause is, as `doubt_of` tells it."""

    def add(self, effect: Place, cause: Place, *, doubt: int) -> None:
        self.effect_window.append(effect[0])
        self.effect_place.append(effect[1])
        self.cause_window.append(cause[0])
        self.cause_place.append(cause[1])
        self.doubt.append(doubt)


@dataclass(frozen=True, slots=True)
class Joined:
    """What the open ends of the segments of one plan came to."""

    crossings: JoinedCrossings
    missing: dict[int, list[tuple[int, str]]]
    """By window: places of events that name a cause which nobody reported, with its key."""


def check_lags(made: Iterable[SegmentResult], eps: int) -> None:
    """Raise `EpsTooSmall` if an event of a window is behind its causal past by more than eps."""
    worst = max(made, key=lambda each: each.lag, default=None)
    if worst is not None and worst.lag > eps:
        raise EpsTooSmall(eps, worst.lag, f"{worst.lag_event} is {worst.lag} behind what it had heard of")


def check_sequences(made: Sequence[SegmentResult], plan: WindowPlan) -> None:
    """Raise `EpsTooSmall` if a process's own numbers run backwards from one segment to a later one."""
    for epochs in plan.large:
        last = np.zeros(len(epochs.names), np.int64)
        for each in _segments_of(made, plan, epochs):
            counts = each.counts
            here = (counts.events > 0) & (counts.first_seq > 0)
            if (backwards := np.flatnonzero(here & (counts.first_seq <= last))).size:
                name = counts.names[backwards[0]]
                raise EpsTooSmall(
                    plan.eps,
                    None,
                    f"by its times, process {name!r} has event {counts.first_seq[backwards[0]]} after {last[backwards[0]]}",
                )
            last[here] = counts.last_seq[here]


def check_ledger(made: Iterable[SegmentResult], reports: int) -> None:
    """Raise `Unbalanced` unless every report is accounted for once."""
    made = list(made)
    total = sum(each.rows + each.duplicates + each.quarantined for each in made)
    if total != reports:
        raise Unbalanced(f"{reports} reports came in and {total} are accounted for")


def join(made: Sequence[SegmentResult], plan: WindowPlan, target: SegmentTarget, find_senders: FindSenders) -> Joined:
    """Settle the causes that segments name and do not hold.

    `find_senders` looks for keys among the events of windows that were written. It is asked only for what the open ends do
    not settle: sends received more than once, far apart.
    """
    joined = Joined(JoinedCrossings(), {})
    for epochs in plan.large:
        segments = _segments_of(made, plan, epochs)
        _join_computation(segments, plan, target, find_senders, joined)
    return joined


def _segments_of(made: Sequence[SegmentResult], plan: WindowPlan, epochs: Epochs) -> list[SegmentResult]:
    first = plan.first_window(epochs)
    mine = [each for each in made if first <= each.window < first + len(epochs.first_bins)]
    return sorted(mine, key=lambda each: each.window)


def _join_computation(
    segments: Sequence[SegmentResult],
    plan: WindowPlan,
    target: SegmentTarget,
    find_senders: FindSenders,
    joined: Joined,
) -> None:
    ends = {each.window: _read_ends(target, each) for each in segments if each.open_file is not None}
    receives = _stacked(ends, receives=True)
    neighbours = Neighbours(segments)
    senders = _SendersByKey(_needed_sends(receives, _stacked(ends, receives=False), segments, find_senders), neighbours)
    for row in receives.to_pylist():
        window, place, key = row["window"], row["place"], row["key"]
        effect = (window, place) if place >= 0 else neighbours.next_after(-1 - place, window)
        if effect is None:
            continue
        causes = causes_of(row, senders.around(window))
        if causes is None and is_assumed(row):
            # An answer that ends in a later epoch than the wait for it is not the one that was waited for.
            if row["named"] and senders.know_elsewhere(key, row["home"]):
                joined.missing.setdefault(window, []).append((place, UNKNOWN_ANSWER))
            continue
        if causes is None and senders.knows(key):
            raise EpsTooSmall(
                plan.eps, None, f"message {key!r:.80} was received in an earlier epoch than the one it was sent in"
            )
        doubtful = senders.is_doubtful(key, window)
        if (causes is None or doubtful) and lacks(row):
            joined.missing.setdefault(window, []).append((place, key))
        if causes and called_at_unknown_time(row, row["home"], senders.within(key, window)):
            joined.missing.setdefault(window, []).append((place, UNKNOWN_CALL))
        for cause in causes or ():
            joined.crossings.add(effect, cause, doubt=TIED if doubtful else doubt_of(row))


def _needed_sends(
    receives: pa.Table,
    sends: pa.Table,
    segments: Sequence[SegmentResult],
    find_senders: FindSenders,
) -> pa.Table:
    """The sends of keys that are received elsewhere, those that only a look at the events themselves shows included."""
    wanted = pc.unique(pa.chunked_array([*receives["key"].chunks, *sends["alias"].chunks], pa.string()).drop_null())
    if not len(wanted):
        return ENDS.empty_table()
    sends = sends.filter(pc.is_in(sends["key"], value_set=_one(wanted)))
    missing = wanted.filter(pc.invert(pc.is_in(wanted, value_set=_one(pc.unique(sends["key"])))))
    # An answer is received once, where it is waited for: it would be among the open ends.
    missing = missing.filter(pc.invert(pc.starts_with(missing, ANSWER)))
    if not len(missing):
        return sends
    found = find_senders([each.window for each in segments if each.rows], _one(missing))
    return pa.concat_tables([sends, found], promote_options="default")


class _SendersByKey:
    """Who sends a key, by key."""

    def __init__(self, sends: pa.Table, neighbours: Neighbours) -> None:
        self._neighbours = neighbours
        self._entries: dict[str, list[dict[str, Any]]] = {}
        for row in sends.to_pylist():
            self._entries.setdefault(row["key"], []).append(row)

    def knows(self, key: str) -> bool:
        return key in self._entries

    def know_elsewhere(self, key: str, home: int | None) -> bool:
        """Tell whether something sends the key that is not known to be of this process."""
        return any(each["within"] is None or each["within"] != home for each in self._entries.get(key, ()))

    def within(self, key: str | None, window: int) -> int | None:
        """The process of the nearest start of a span before this window that sent the key and is no call by itself."""
        entries = [each for each in self._entries.get(key or "", ()) if each["window"] < window]
        return max(entries, key=lambda each: int(each["window"]))["within"] if entries else None

    def before(self, key: str, window: int) -> list[Place] | None:
        """What sent the key in the nearest window before this one, or all that answered before; None if nothing did."""
        entries = [each for each in self._entries.get(key, ()) if each["window"] < window]
        if not entries:
            return None
        if not key.startswith(ANSWER):
            nearest = max(each["window"] for each in entries)
            entries = [each for each in entries if each["window"] == nearest]
        return [place for each in entries for place in events_for(each, self.around(each["window"]))]

    def is_doubtful(self, key: str, window: int) -> bool:
        """Tell whether two events sent the key in one window before this one: nobody knows which of them was received."""
        return any(each["twice"] and each["window"] < window for each in self._entries.get(key, ()))

    def around(self, window: int) -> _WindowSurroundings:
        """What a window's open ends may lead to."""
        return _WindowSurroundings(window, self._neighbours, self)


@dataclass(frozen=True, slots=True)
class _WindowSurroundings:
    """The surroundings of a window (`ledto.history.open_ends`)."""

    window: int
    neighbours: Neighbours
    known: _SendersByKey

    def here(self, place: int) -> Place:
        return self.window, place

    def last_before(self, process: int) -> list[Place]:
        return _some(self.neighbours.last_before(process, self.window))

    def senders(self, key: str) -> list[Place] | None:
        return self.known.before(key, self.window)


class Neighbours:
    """Where a process's events nearest to a window are, for windows of large computations."""

    def __init__(self, segments: Iterable[SegmentResult]) -> None:
        ordered = sorted(segments, key=lambda each: each.window)
        self._windows = [(each.window, each.counts.computations[:1], each.counts.events) for each in ordered]
        self._computations = {window: computation for window, computation, _ in self._windows}

    def last_before(self, process: int, window: int) -> Place | None:
        """The nearest earlier window with events of the process, and ``-1 - process``, which codes its last place there."""
        return self._nearest(process, window, reversed(self._windows), earlier=True)

    def next_after(self, process: int, window: int) -> Place | None:
        """The nearest later window with events of the process, and ``-1 - process``, which codes its first place there."""
        return self._nearest(process, window, self._windows, earlier=False)

    def _nearest(
        self, process: int, window: int, windows: Iterable[tuple[int, tuple[str, ...], Longs]], *, earlier: bool
    ) -> Place | None:
        own = self._computations[window]
        for number, computation, events in windows:
            if number != window and (number < window) == earlier and computation == own and events[process]:
                return number, -1 - process
        return None


def _some(place: Place | None) -> list[Place]:
    return [] if place is None else [place]


def _read_ends(target: SegmentTarget, made: SegmentResult) -> pa.Table:
    with target.store.open(f"{layout.run_folder(target.run)}/{made.open_file}") as file:
        return pq.ParquetFile(file).read(use_threads=False)


def _stacked(ends: dict[int, pa.Table], *, receives: bool) -> pa.Table:
    parts = [
        table.filter(pc.equal(table["receives"], receives)).append_column(
            "window", pa.repeat(window, pc.sum(pc.equal(table["receives"], receives)).as_py() or 0)
        )
        for window, table in ends.items()
    ]
    return pa.concat_tables([part.select(ENDS.names).cast(ENDS) for part in parts]) if parts else ENDS.empty_table()


def _one(values: pa.ChunkedArray | pa.Array) -> pa.Array:
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
