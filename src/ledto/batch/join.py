"""Join segments that were made one by one: resolve the causes that lie in other segments, and check all assumptions.

Runs on the driver. Its memory grows with the messages from one segment to another and with those whose send nobody
reported, not with the events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ledto.durations import round_up_duration, show_duration
from ledto.errors import LedtoError
from ledto.events.keys import ANSWER, UNKNOWN_ANSWER, UNKNOWN_CALL
from ledto.history import layout
from ledto.history.open_ends import (
    TIED,
    called_at_unknown_time,
    causes_of,
    doubt_of,
    events_for,
    is_assumed,
    lacks,
    process_of_next,
)
from ledto.history.window.plan import Epochs, WindowPlan
from ledto.history.window.segment import SegmentResult, SegmentTarget

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
"""The columns of `ledto.history.open_ends.RECEIVES` and of `SENDS`, which of the two a row is of, and its window."""

RECEIVES_AT_ONCE = 1_000_000
"""How many open receives are looked through together."""

FindSenders = Callable[[Sequence[int], pa.Array], pa.Table]
"""Finds who sends some keys among the events that windows have written; gives a table of ``key``, ``window``, ``place`` and
``within``, as in `ENDS`."""


@dataclass(frozen=True, slots=True)
class EventIn:
    """An event by its window and its row in the window's segment."""

    window: int
    row: int


@dataclass(frozen=True, slots=True)
class FirstOf:
    """The first event of a process in a window's segment."""

    window: int
    process: int


@dataclass(frozen=True, slots=True)
class LastOf:
    """The last event of a process in a window's segment."""

    window: int
    process: int


Effect: TypeAlias = EventIn | FirstOf
Cause: TypeAlias = EventIn | LastOf


class EpsTooSmall(LedtoError):
    """Clocks differ by more than the bound that the windows were cut with; nothing was committed."""

    def __init__(self, eps: int, least: int, event: str, unit: str) -> None:
        """Take the event, in words, whose time is `least` before that of one of its causes."""
        self.eps, self.least, self.event, self.unit = eps, least, event, unit
        super().__init__(
            f"an eps of {show_duration(eps, unit)} is too small for these clocks: {event} has a time "
            f"{show_duration(least, unit)} before one of its causes; use --eps {round_up_duration(least, unit)} or more"
        )

    def __reduce__(self) -> tuple[type[EpsTooSmall], tuple[int, int, str, str]]:
        # Tasks return it to the driver. By default, it would be made again from its message alone.
        return EpsTooSmall, (self.eps, self.least, self.event, self.unit)


class WindowsTooNarrow(LedtoError):
    """Clocks differ by more than the bound that the windows were cut with, by `least` if that is known. Cut wider ones."""

    def __init__(self, message: str, least: int = 0) -> None:
        super().__init__(message)
        self.least = least


class Unbalanced(LedtoError):
    """The reports that came in are not delivered + duplicate + quarantined. A defect of ledto; nothing was committed."""


@dataclass(frozen=True, slots=True)
class JoinedCrossing:
    """A cause in another segment than its effect."""

    effect: Effect
    cause: Cause
    doubt: int
    """How sure the cause is (`ledto.history.open_ends.doubt_of`)."""


@dataclass(frozen=True, slots=True)
class Joined:
    """The resolved open ends of the segments of one plan."""

    crossings: list[JoinedCrossing]
    missing: dict[int, list[tuple[int, str]]]
    """By window: places of events that name a cause which nobody reported, and the key of that cause."""


def check_lags(made: Iterable[SegmentResult], eps: int) -> None:
    """Raise `WindowsTooNarrow` if an event has a time more than eps before one of its causes."""
    worst = max(made, key=lambda segment: segment.lag, default=None)
    if worst is not None and worst.lag > eps:
        raise WindowsTooNarrow(f"an event has a time {worst.lag} before one of its causes", worst.lag)


def check_sequences(made: Sequence[SegmentResult], plan: WindowPlan) -> None:
    """Raise `WindowsTooNarrow` if the numbers of a process's events run backwards from one segment to a later one."""
    for epochs in plan.large:
        last = np.zeros(len(epochs.names), np.int64)
        for segment in _segments_of(made, plan, epochs):
            counts = segment.counts
            numbered = (counts.events > 0) & (counts.first_seq > 0)
            if (backwards := np.flatnonzero(numbered & (counts.first_seq <= last))).size:
                process = backwards[0]
                raise WindowsTooNarrow(
                    f"by its times, process {counts.names[process]!r} has event {counts.first_seq[process]} "
                    f"after event {last[process]}",
                )
            last[numbered] = counts.last_seq[numbered]


def check_ledger(made: Iterable[SegmentResult], reports: int) -> None:
    """Raise `Unbalanced` unless every report is accounted for once."""
    total = sum(segment.rows + segment.duplicates + segment.quarantined for segment in made)
    if total != reports:
        raise Unbalanced(f"{reports} reports came in and {total} are accounted for")


def join(made: Sequence[SegmentResult], plan: WindowPlan, target: SegmentTarget, find_senders: FindSenders) -> Joined:
    """Find the causes that segments name and do not hold. Raises `WindowsTooNarrow` if a receive is before its send.

    `find_senders` searches the events that windows have written. It is called only for keys that are not among the open
    ends: sends that were received more than once, far apart.
    """
    joined = Joined([], {})
    for epochs in plan.large:
        segments = _segments_of(made, plan, epochs)
        _join_computation(segments, plan, target, find_senders, joined)
    return joined


def _segments_of(made: Sequence[SegmentResult], plan: WindowPlan, epochs: Epochs) -> list[SegmentResult]:
    """Select the segments of one computation, in order."""
    first = plan.first_window(epochs)
    chosen = [segment for segment in made if first <= segment.window < first + len(epochs.first_bins)]
    return sorted(chosen, key=lambda segment: segment.window)


def _join_computation(
    segments: Sequence[SegmentResult],
    plan: WindowPlan,
    target: SegmentTarget,
    find_senders: FindSenders,
    joined: Joined,
) -> None:
    """Add the crossings and missing causes of one computation to `joined`."""
    with_ends = [segment for segment in segments if segment.open_file is not None]
    sends = _concatenate(_read_ends(target, segment, receives=False) for segment in with_ends)
    receives = _read_receives(target, with_ends, sends["key"])
    neighbours = Neighbours(segments)
    senders = _SendersByKey(_needed_sends(receives, sends, segments, find_senders), neighbours)
    for row in receives.to_pylist():
        window, place, key = row["window"], row["place"], row["key"]
        effect: Effect | None = EventIn(window, place)
        if place < 0:
            effect = neighbours.next_after(process_of_next(place), window)
        if effect is None:
            continue
        causes = causes_of(row, senders.around(window))
        if causes is None and is_assumed(row):
            # An answer in a later epoch than the end of the wait cannot be the one that was waited for.
            if row["named"] and senders.has_other_sender(key, row["home"]):
                joined.missing.setdefault(window, []).append((place, UNKNOWN_ANSWER))
            continue
        if causes is None and senders.has(key):
            raise WindowsTooNarrow(f"message {key!r:.80} was received in an earlier epoch than the one it was sent in")
        doubtful = senders.is_doubtful(key, window)
        if (causes is None or doubtful) and lacks(row):
            joined.missing.setdefault(window, []).append((place, key))
        if causes and called_at_unknown_time(row, row["home"], senders.within(key, window)):
            joined.missing.setdefault(window, []).append((place, UNKNOWN_CALL))
        for cause in causes or ():
            joined.crossings.append(JoinedCrossing(effect, cause, TIED if doubtful else doubt_of(row)))


def _needed_sends(
    receives: pa.Table,
    sends: pa.Table,
    segments: Sequence[SegmentResult],
    find_senders: FindSenders,
) -> pa.Table:
    """Select the sends of keys that other segments receive; search the events for keys without an open end."""
    wanted = pc.unique(pa.chunked_array([*receives["key"].chunks, *sends["alias"].chunks], pa.string()).drop_null())
    if not len(wanted):
        return ENDS.empty_table()
    sends = sends.filter(pc.is_in(sends["key"], value_set=_one_array(wanted)))
    missing = wanted.filter(pc.invert(pc.is_in(wanted, value_set=_one_array(pc.unique(sends["key"])))))
    # An answer is received once, where it is waited for: it would be among the open ends.
    missing = missing.filter(pc.invert(pc.starts_with(missing, ANSWER)))
    if not len(missing):
        return sends
    more = find_senders([segment.window for segment in segments if segment.rows], _one_array(missing))
    return pa.concat_tables([sends, more], promote_options="default")


class _SendersByKey:
    """The rows of `ENDS` that send a key, by key."""

    def __init__(self, sends: pa.Table, neighbours: Neighbours) -> None:
        self._neighbours = neighbours
        self._entries: dict[str, list[dict[str, Any]]] = {}
        for row in sends.to_pylist():
            self._entries.setdefault(row["key"], []).append(row)

    def has(self, key: str) -> bool:
        """Tell whether anything sends the key, in any window."""
        return key in self._entries

    def has_other_sender(self, key: str, home: int | None) -> bool:
        """Tell whether something sends the key that is not known to be of this process."""
        return any(send["within"] is None or send["within"] != home for send in self._entries.get(key, ()))

    def within(self, key: str | None, window: int) -> int | None:
        """Give the process of the nearest sender before this window, if it starts a span and is no call; else None."""
        sends = [send for send in self._entries.get(key or "", ()) if send["window"] < window]
        return max(sends, key=lambda send: int(send["window"]))["within"] if sends else None

    def before(self, key: str, window: int) -> list[Cause] | None:
        """Find the senders of a key in the nearest window before this one, of an answer in all before; None if none."""
        sends = [send for send in self._entries.get(key, ()) if send["window"] < window]
        if not sends:
            return None
        if not key.startswith(ANSWER):
            nearest = max(send["window"] for send in sends)
            sends = [send for send in sends if send["window"] == nearest]
        return [event for send in sends for event in events_for(send, self.around(send["window"]))]

    def is_doubtful(self, key: str, window: int) -> bool:
        """Tell whether two events of one earlier window sent the key: nobody knows which of them was received."""
        return any(send["twice"] and send["window"] < window for send in self._entries.get(key, ()))

    def around(self, window: int) -> _WindowSurroundings:
        """Give the surroundings of a window."""
        return _WindowSurroundings(window, self._neighbours, self)


@dataclass(frozen=True, slots=True)
class _WindowSurroundings:
    """The surroundings of a window (`ledto.history.open_ends`)."""

    window: int
    neighbours: Neighbours
    senders_by_key: _SendersByKey

    def here(self, place: int) -> Cause:
        return EventIn(self.window, place)

    def last_before(self, process: int) -> list[Cause]:
        last = self.neighbours.last_before(process, self.window)
        return [] if last is None else [last]

    def senders(self, key: str) -> list[Cause] | None:
        return self.senders_by_key.before(key, self.window)


class Neighbours:
    """Finds the event of a process that is nearest to a window, among the segments of one computation."""

    def __init__(self, segments: Sequence[SegmentResult]) -> None:
        """Take the segments in order."""
        self._segments = segments

    def last_before(self, process: int, window: int) -> LastOf | None:
        """Find the last event of a process before a window; None if it has none."""
        earlier = (segment for segment in reversed(self._segments) if segment.window < window)
        nearest = next((segment.window for segment in earlier if segment.counts.events[process]), None)
        return None if nearest is None else LastOf(nearest, process)

    def next_after(self, process: int, window: int) -> FirstOf | None:
        """Find the first event of a process after a window; None if it has none."""
        later = (segment for segment in self._segments if segment.window > window)
        nearest = next((segment.window for segment in later if segment.counts.events[process]), None)
        return None if nearest is None else FirstOf(nearest, process)


def _read_ends(target: SegmentTarget, made: SegmentResult, *, receives: bool) -> pa.Table:
    """Read the open ends of one segment: those that receive a key, or those that send one."""
    with target.store.open(f"{layout.run_folder(target.run)}/{made.open_file}") as file:
        ends = pq.ParquetFile(file).read(use_threads=False)
    ends = ends.filter(pc.equal(ends["receives"], receives))
    return ends.append_column("window", pa.repeat(made.window, len(ends))).select(ENDS.names).cast(ENDS)


def _read_receives(target: SegmentTarget, segments: Sequence[SegmentResult], sent: pa.ChunkedArray) -> pa.Table:
    """Read the open receives of segments, without waits for answers whose keys are not among the open sends.

    Such waits have no cause elsewhere, and lack none. Traces have millions of them, for answers that nobody reports, so
    they are dropped file by file, but many at a time: each look-up makes a hash table of all keys of answers.
    """
    answers = _one_array(pc.unique(sent.filter(pc.starts_with(sent, ANSWER))))
    kept, read = [ENDS.empty_table()], [ENDS.empty_table()]
    for segment in segments:
        read.append(_read_ends(target, segment, receives=True))
        if sum(map(len, read)) >= RECEIVES_AT_ONCE:
            kept.append(_drop_idle_waits(pa.concat_tables(read), answers))
            read = [ENDS.empty_table()]
    return pa.concat_tables([*kept, _drop_idle_waits(pa.concat_tables(read), answers)])


def _drop_idle_waits(receives: pa.Table, answers: pa.Array) -> pa.Table:
    is_wait = pc.fill_null(pc.starts_with(receives["key"], ANSWER), False)
    if not len(answers):
        return receives.filter(pc.invert(is_wait))
    return receives.filter(pc.or_(pc.invert(is_wait), pc.is_in(receives["key"], value_set=answers)))


def _concatenate(parts: Iterable[pa.Table]) -> pa.Table:
    return pa.concat_tables([ENDS.empty_table(), *parts])


def _one_array(values: pa.ChunkedArray | pa.Array) -> pa.Array:
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
