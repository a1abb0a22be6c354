"""Find the recorded causes of exported events, in histories with lines.

If events are left out, the paths over them must stay. The causes of an event are then the *nearest* exported events: those
from which a recorded path over events that are left out leads to it.
"""

from __future__ import annotations

import numpy as np

from ledto.causality.recorded_past import members
from ledto.causality.skeleton import Longs
from ledto.export.selection import Selection
from ledto.history.recorded import recorded_crossings, recorded_within
from ledto.history.run import Run

Carried = dict[tuple[int, str | None], int]
"""By process and line: the last exported event that leads to an event. Earlier ones of its line are implied."""


def find_causes_in_process(run: Run, number: int) -> dict[int, list[int]]:
    """Return, by row of a segment, the positions of its recorded causes in its own process."""
    first = int(run.segments.first_position[number])
    process = run.process_column(number)
    effect, cause = recorded_within(run, number)
    is_own = process[effect] == process[cause]
    positions = _group_by_row(effect[is_own], cause[is_own] + first)
    for row, crossing in _group_by_row(*recorded_crossings(run, number)).items():
        positions.setdefault(row, []).extend(crossing)
    return positions


class Nearest:
    """A pass over all segments, in order.

    HAZARD: for each event that is left out, there is an entry for each exported line that leads to it. A process that is
    left out, has no lines and hears of very many of them takes time and memory as their number times its events.
    """

    def __init__(self, run: Run, selection: Selection) -> None:
        self._run = run
        self._selection = selection
        self._carried: dict[int, Carried] = {}
        """By position of an event of an earlier segment that later ones may follow: the exported events behind it."""

    def step(self, number: int) -> dict[int, list[int]]:
        """Return, by position, the nearest causes of the exported events of the next segment."""
        run = self._run
        first = int(run.segments.first_position[number])
        codes = run.segments.codes_of(number)[run.process_column(number)]
        chosen = self._selection.rows(first, codes)
        if not self._carried and not chosen.any():
            return {}
        lines = _read_lines(run, number)
        causes = self._find_causes(number, first)
        carried_here: dict[int, Carried] = {}
        nearest: dict[int, list[int]] = {}
        for row, (code, is_chosen) in enumerate(zip(codes.tolist(), chosen.tolist(), strict=True)):
            carried: Carried = {}
            for cause in causes.get(row, ()):
                of_cause = carried_here.get(cause) or self._carried.get(cause)
                if of_cause is None:
                    continue
                if not carried:
                    carried = of_cause
                    continue
                carried = dict(carried)
                for line, position in of_cause.items():
                    carried[line] = max(position, carried.get(line, -1))
            if is_chosen:
                nearest[first + row] = sorted(carried.values())
                carried = {(code, lines[row]): first + row}
            if carried:
                carried_here[first + row] = carried
        self._keep(number, first, carried_here)
        return nearest

    def _find_causes(self, number: int, first: int) -> dict[int, list[int]]:
        """Return, by row of a segment, the positions of all its recorded causes."""
        effect, cause = recorded_within(self._run, number)
        into = self._run.messages_into(number).without_assumed()
        rows, positions = recorded_crossings(self._run, number)
        return _group_by_row(
            np.concatenate((effect, into.row, rows)), np.concatenate((cause + first, into.position, positions))
        )

    def _keep(self, number: int, first: int, carried_here: dict[int, Carried]) -> None:
        """Keep what later segments may follow: sends of crossings, and ends of lines."""
        crossings = self._run.table(self._run.table_file("crossings")).read(columns=["cause"], use_threads=False)
        wanted = set(crossings["cause"].to_pylist())
        ends = self._run.line_ends(number)
        if ends is not None:
            fronts, _ = members(ends.open_front, *self._run.line_lists(number))
            wanted.update((fronts + first).tolist())
        else:
            process = self._run.process_column(number)
            wanted.update(first + len(process) - 1 - np.unique(process[::-1], return_index=True)[1])
        self._carried |= {position: carried for position, carried in carried_here.items() if position in wanted}


def _group_by_row(rows: Longs, positions: Longs) -> dict[int, list[int]]:
    """Group positions by row."""
    by_row: dict[int, list[int]] = {}
    for row, position in zip(rows.tolist(), positions.tolist(), strict=True):
        by_row.setdefault(row, []).append(position)
    return by_row


def _read_lines(run: Run, number: int) -> list[str | None]:
    lines: list[str | None] = run.events(number, ["line"], 0, int(run.segments.rows[number]))["line"].to_pylist()
    return lines
