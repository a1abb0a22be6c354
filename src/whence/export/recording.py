"""What is recorded to lead to exported events, where processes do several things at once.

Where events are left out, what they passed on must not be: the causes of an event are then the *nearest* exported events
from which a recorded path leads to it over events that are left out.
"""

from __future__ import annotations

import numpy as np

from whence.causality.recorded import members
from whence.causality.skeleton import Longs
from whence.export.selection import Selection
from whence.history.reading import Run
from whence.history.recorded import recorded_crossings, recorded_within

Carried = dict[tuple[int, str | None], int]
"""By process and line: the last exported event that leads somewhere. Those before it on its line are implied."""


def followed_in_process(run: Run, number: int) -> dict[int, list[int]]:
    """By row of a segment: positions of what it follows within its own process by what is recorded."""
    first = int(run.segments.first_position[number])
    process = run.process_column(number)
    effect, cause = recorded_within(run, number)
    own = process[effect] == process[cause]
    found: dict[int, list[int]] = {}
    for row, before in zip(effect[own].tolist(), (cause[own] + first).tolist(), strict=True):
        found.setdefault(row, []).append(before)
    for row, position in zip(*(each.tolist() for each in recorded_crossings(run, number)), strict=True):
        found.setdefault(row, []).append(position)
    return found


def codes_at(run: Run, positions: Longs) -> Longs:
    """The processes of events."""
    found = np.empty(len(positions), np.int64)
    numbers = np.searchsorted(run.segments.first_position, positions, side="right") - 1
    for number in np.unique(numbers).tolist():
        mine = numbers == number
        rows = positions[mine] - run.segments.first_position[number]
        found[mine] = run.segments.codes_of(number)[run.process_column(number)[rows]]
    return found


class Nearest:
    """Goes over all segments in order.

    HAZARD: what an event that is left out carries has an entry for each exported line that leads to it. A process that is
    left out, has no lines and hears of very many of them takes time and memory as their number times its events.
    """

    def __init__(self, run: Run, selection: Selection) -> None:
        self._run = run
        self._selection = selection
        self._carried: dict[int, Carried] = {}
        """By position: what events of earlier segments carry that later ones may follow."""

    def step(self, number: int) -> dict[int, list[int]]:
        """The nearest causes of the exported events of the next segment, by position."""
        run = self._run
        first = int(run.segments.first_position[number])
        codes = run.segments.codes_of(number)[run.process_column(number)]
        chosen = self._selection.rows(first, codes)
        if not self._carried and not chosen.any():
            return {}
        lines = _lines(run, number)
        causes = self._causes(number, first)
        here: dict[int, Carried] = {}
        found: dict[int, list[int]] = {}
        for row, (code, is_chosen) in enumerate(zip(codes.tolist(), chosen.tolist(), strict=True)):
            carried: Carried = {}
            for cause in causes.get(row, ()):
                led = here.get(cause) or self._carried.get(cause)
                if led is None:
                    continue
                if not carried:
                    carried = led
                    continue
                carried = dict(carried)
                for line, position in led.items():
                    carried[line] = max(position, carried.get(line, -1))
            if is_chosen:
                found[first + row] = sorted(carried.values())
                carried = {(code, lines[row]): first + row}
            if carried:
                here[first + row] = carried
        self._keep(number, first, here)
        return found

    def _causes(self, number: int, first: int) -> dict[int, list[int]]:
        """By row of a segment: positions of all that it follows by what is recorded."""
        effect, cause = recorded_within(self._run, number)
        into = self._run.messages_into(number).without_assumed()
        rows, positions = recorded_crossings(self._run, number)
        found: dict[int, list[int]] = {}
        for row, position in zip(
            np.concatenate((effect, into.row, rows)).tolist(),
            np.concatenate((cause + first, into.position, positions)).tolist(),
            strict=True,
        ):
            found.setdefault(row, []).append(position)
        return found

    def _keep(self, number: int, first: int, here: dict[int, Carried]) -> None:
        """Keep what later segments may follow: sends that cross, and ends of lines."""
        crossings = self._run.table(self._run.table_file("crossings")).read(columns=["cause"], use_threads=False)
        wanted = set(crossings["cause"].to_pylist())
        ends = self._run.line_ends(number)
        if ends is not None:
            fronts, _ = members(ends.open_front, *self._run.line_lists(number))
            wanted.update((fronts + first).tolist())
        else:
            process = self._run.process_column(number)
            wanted.update(first + len(process) - 1 - np.unique(process[::-1], return_index=True)[1])
        self._carried |= {position: carried for position, carried in here.items() if position in wanted}


def _lines(run: Run, number: int) -> list[str | None]:
    found: list[str | None] = run.events(number, ["line"], 0, int(run.segments.rows[number]))["line"].to_pylist()
    return found
