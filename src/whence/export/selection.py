"""Which events of a history are exported."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from whence.history.errors import EventNotFound
from whence.history.questions.history import DEFAULT_K, History
from whence.history.questions.locating import indices_at, unknown_name
from whence.history.reading import Run
from whence.history.tables import Longs

Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Selection:
    """All events of some processes, or the events at some positions.

    HAZARD: where events are left out, so are the messages they passed on. What is exported is then linked by its vector
    clocks and not by its messages (`whence.export.linking`), so that all its relations stay as they are.
    """

    codes: Flags
    """By process, as a global code: whether any of its events are exported."""
    positions: Longs | None
    """The events themselves, all of one computation, ascending; None for all events of the processes."""
    whole: bool
    """Whether of each computation all events are exported, or none."""
    indices: dict[int, tuple[Longs, Longs]]
    """With positions: by process, the numbers within it and the positions of its exported events, ascending."""

    def events(self, run: Run) -> int:
        """How many events are exported."""
        return len(self.positions) if self.positions is not None else int(run.processes.events[self.codes].sum())

    def rows(self, first_position: int, codes: NDArray[np.int32]) -> Flags:
        """Which rows of a segment are exported, by the processes of its rows."""
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
    """The events of a computation, of processes, or an event with the last `k` events that happened before it.

    With `around`, `processes` says of which processes those `k` are, and `computation` which event of that name is meant.
    Raises `EventNotFound` for names that the history does not have, and `AmbiguousEvent`.
    """
    run = history.run
    if around is not None:
        answer = history.why(around, k=k, processes=processes or None, computation=computation)
        positions = np.array([each.position for each in (*answer.events, answer.event)], np.int64)
        return _at(run, np.unique(positions))
    codes = np.ones(len(run.processes), np.bool_)
    if computation is not None:
        codes &= pc.equal(run.processes.computation, computation).to_numpy(zero_copy_only=False)
        if not codes.any():
            raise EventNotFound(unknown_name(run, "computation", computation))
    whole = codes
    if processes:
        named = np.zeros(len(run.processes), np.bool_)
        for name in processes:
            mine = run.processes.called(name)
            if not codes[mine].any():
                raise EventNotFound(unknown_name(run, "process", name))
            named[mine] = True
        codes = codes & named
    return Selection(codes, None, _is_whole(run, codes) if codes is not whole else True, {})


def _at(run: Run, positions: Longs) -> Selection:
    numbers = np.searchsorted(run.segments.first_position, positions, side="right") - 1
    code = np.empty(len(positions), np.int64)
    for number in np.unique(numbers).tolist():
        mine = numbers == number
        rows = positions[mine] - run.segments.first_position[number]
        code[mine] = run.segments.codes_of(number)[run.process_column(number)[rows]]
    index = indices_at(run, positions)
    codes = np.zeros(len(run.processes), np.bool_)
    codes[code] = True
    indices = {int(each): (index[code == each], positions[code == each]) for each in np.unique(code)}
    return Selection(codes, positions, len(positions) == run.events_total, indices)


def _is_whole(run: Run, codes: Flags) -> bool:
    computations = run.processes.computation_number
    busy = run.processes.events > 0
    return not np.isin(computations[codes], computations[~codes & busy]).any()
