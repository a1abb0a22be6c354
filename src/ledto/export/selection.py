"""Choose the events of a history to export."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from ledto.history.errors import EventNotFound
from ledto.history.run import Run
from ledto.history.tables import Longs
from ledto.questions.history import DEFAULT_K, History
from ledto.questions.locate import indices_at, unknown_name

Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Selection:
    """The events to export: all of some processes, or those at some positions.

    HAZARD: if events are left out, their messages are, too. Exported events are then related by their vector clocks, not
    by messages (`ledto.export.causes`), so that all relations stay the same.
    """

    codes: Flags
    """By code of a process: whether any of its events are exported."""
    positions: Longs | None
    """The events, all of one computation, ascending; None for all events of the processes."""
    whole: bool
    """Whether each computation is exported completely or not at all."""
    indices: dict[int, tuple[Longs, Longs]]
    """By process, if there are positions: the numbers and the positions of its exported events, ascending."""

    def events(self, run: Run) -> int:
        """Count the exported events."""
        return len(self.positions) if self.positions is not None else int(run.processes.events[self.codes].sum())

    def rows(self, first_position: int, codes: NDArray[np.int32]) -> Flags:
        """Return which rows of a segment are exported. `codes` are the processes of its rows."""
        if self.positions is None:
            return self.codes[codes]
        chosen = np.zeros(len(codes), np.bool_)
        low, high = np.searchsorted(self.positions, [first_position, first_position + len(codes)])
        chosen[self.positions[low:high] - first_position] = True
        return chosen


def choose(
    history: History,
    *,
    computation: str | None = None,
    processes: Sequence[str] | None = None,
    around: str | None = None,
    k: int = DEFAULT_K,
) -> Selection:
    """Select the events of a computation or of processes, or an event with the last `k` events that happened before it.

    With `around`, those `k` are of `processes`, and the event is of `computation`. Raises `EventNotFound` for an unknown
    name, and `AmbiguousEvent` if several computations have an event of that name.
    """
    run = history.run
    if around is not None:
        answer = history.why(around, k=k, processes=processes or None, computation=computation)
        positions = np.array([event.position for event in (*answer.causes, answer.event)], np.int64)
        return _select_at(run, np.unique(positions))
    codes = np.ones(len(run.processes), np.bool_)
    if computation is not None:
        codes &= pc.equal(run.processes.computation, computation).to_numpy(zero_copy_only=False)
        if not codes.any():
            raise EventNotFound(unknown_name(run, "computation", computation))
    if not processes:
        return Selection(codes, None, True, {})
    is_named = np.zeros(len(run.processes), np.bool_)
    for name in processes:
        codes_of_name = run.processes.called(name)
        if not codes[codes_of_name].any():
            raise EventNotFound(unknown_name(run, "process", name))
        is_named[codes_of_name] = True
    codes &= is_named
    return Selection(codes, None, _is_whole(run, codes), {})


def find_codes(run: Run, positions: Longs) -> Longs:
    """Return the codes of the processes of events."""
    codes = np.empty(len(positions), np.int64)
    numbers = np.searchsorted(run.segments.first_position, positions, side="right") - 1
    for number in np.unique(numbers).tolist():
        is_inside = numbers == number
        rows = positions[is_inside] - run.segments.first_position[number]
        codes[is_inside] = run.segments.codes_of(number)[run.process_column(number)[rows]]
    return codes


def _select_at(run: Run, positions: Longs) -> Selection:
    """Select the events at positions, which ascend and are of one computation."""
    code = find_codes(run, positions)
    index = indices_at(run, positions)
    has_events = np.zeros(len(run.processes), np.bool_)
    has_events[code] = True
    indices = {int(process): (index[code == process], positions[code == process]) for process in np.unique(code)}
    return Selection(has_events, positions, len(positions) == run.events_total, indices)


def _is_whole(run: Run, codes: Flags) -> bool:
    """Return whether no computation has both exported events and others."""
    computations = run.processes.computation_number
    has_events = run.processes.events > 0
    return not np.isin(computations[codes], computations[~codes & has_events]).any()
