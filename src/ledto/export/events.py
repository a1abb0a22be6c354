"""Read the events to export, some thousand at a time, with their causes and, if wanted, their vector clocks.

Memory holds the skeleton of one segment, one stretch of events with their clocks, and a vector for each message in flight.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ledto.causality.skeleton import Ints, Longs, Skeleton
from ledto.export.causes import Linking
from ledto.export.lines import ExportedLine, ExportedLines
from ledto.export.recorded import Nearest, find_causes_in_process
from ledto.export.selection import Flags, Selection, find_codes
from ledto.export.stamps import VectorPass
from ledto.history import layout
from ledto.history.run import Run
from ledto.questions.event import Event, event_columns, events_from

STRETCH_NUMBERS = 1_000_000
"""About how many numbers of vector clocks are in memory at once."""
NO_PROCESS = -1
"""The process of an entry of vectors that no process of the computation has."""


@dataclass(frozen=True, slots=True, eq=False)
class Stretch:
    """Some of the exported events, causes before effects."""

    positions: Longs
    code: Longs
    """The code of each event's process."""
    starts: Longs
    """int64[n + 1]: where the causes of each event start in `causes`."""
    causes: Longs
    """Positions of direct causes, without the event before in the same process. All are exported."""
    assumed: Flags
    """For each cause: whether it is not recorded, and only possible."""
    follows: list[list[int]] | None
    """By row: positions of recorded causes within its process; None if each event follows the one before in its process."""
    lines: list[ExportedLine] | None
    """By row: the same, expressed by lines; None if `follows` is."""
    uses: Longs
    """How many later events have each event as a cause. If only some processes are exported: 0 if none can have it."""
    vectors: Ints | None
    """int32[n, W]: how many exported events of a process are in the past of each event, itself included."""
    entries: Longs
    """int64[n, W]: the process of each entry of the vectors, or `NO_PROCESS`."""

    def __len__(self) -> int:
        return len(self.positions)

    def causes_with_assumed(self, row: int) -> list[tuple[int, bool]]:
        """Return the positions of the causes of one event, each with whether it is assumed."""
        causes = slice(self.starts[row], self.starts[row + 1])
        return list(zip(self.causes[causes].tolist(), self.assumed[causes].tolist(), strict=True))


class Stretches:
    """The events of a run to export."""

    def __init__(self, run: Run, selection: Selection) -> None:
        self.run = run
        self.selection = selection

    @property
    def total(self) -> int:
        """Count the events."""
        return self.selection.events(self.run)

    @cached_property
    def names(self) -> list[str]:
        """Return the names of processes, by code."""
        names: list[str] = self.run.processes.process.to_pylist()
        return names

    @cached_property
    def computations(self) -> list[str]:
        """Return the computations of processes, by code."""
        computations: list[str] = self.run.processes.computation.to_pylist()
        return computations

    @cached_property
    def exported_computations(self) -> int:
        """Count the computations that have exported events."""
        chosen = self.selection.codes & (self.run.processes.events > 0)
        return len(np.unique(self.run.processes.computation_number[chosen]))

    def iterate(self, *, vectors: bool = False, grouped: bool = False) -> Iterator[Stretch]:
        """Yield all stretches, in history order, or one computation after the other if `grouped`."""
        stretches = self._iterate(vectors=vectors or not self.selection.whole, grouped=grouped)
        if self.selection.positions is None or self.selection.whole:
            yield from stretches
            return
        # These are few enough to be in memory at once, which tells which of them are causes.
        all_stretches = list(stretches)
        causes = np.concatenate([np.empty(0, np.int64), *(stretch.causes for stretch in all_stretches)])
        used, counts = np.unique(causes, return_counts=True)
        for stretch in all_stretches:
            stretch.uses[:] = _count_at(stretch.positions, used, counts)
            yield stretch

    def table(self, stretch: Stretch, columns: Sequence[str]) -> pa.Table:
        """Read columns of the events, without dictionaries."""
        positions, run = stretch.positions, self.run
        number = run.segments.segment_of(int(positions[0]))
        first = int(run.segments.first_position[number])
        if len(positions) and positions[-1] - positions[0] + 1 == len(positions) and (np.diff(positions) == 1).all():
            rows = run.events(number, columns, int(positions[0]) - first, int(positions[-1]) + 1 - first)
        else:
            rows = run.rows(positions, columns)
        plain = [
            column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
            for column in rows.columns
        ]
        return pa.table(plain, names=rows.column_names)

    def events(self, stretch: Stretch) -> tuple[Event, ...]:
        """Read the events of a stretch."""
        columns = event_columns(self.run)
        table = self.table(stretch, columns)
        return events_from(self.run, {name: table[name].to_pylist() for name in columns}, stretch.positions)

    def _add_lines(self, stretch: Stretch, lines: ExportedLines) -> Stretch:
        """Add the lines of the events. In a part of a history, add what lines cannot express to the causes.

        A whole history has no keys for that, since an event sends at most one: only the order of the process remains.
        """
        assert stretch.follows is not None
        names: list[str | None] = self.table(stretch, ["line"])["line"].to_pylist()
        rows = zip(stretch.positions.tolist(), stretch.code.tolist(), names, stretch.follows, strict=True)
        expressed = list(lines.express(rows))
        if self.selection.whole or not any(event.unexpressed for event in expressed):
            return replace(stretch, lines=expressed)
        causes = [
            {**dict(stretch.causes_with_assumed(row)), **dict.fromkeys(event.unexpressed, False)}
            for row, event in enumerate(expressed)
        ]
        starts = np.cumsum([0, *map(len, causes)])
        positions = np.array([position for of_row in causes for position in of_row], np.int64)
        assumed = np.array([is_assumed for of_row in causes for is_assumed in of_row.values()], np.bool_)
        return replace(stretch, starts=starts, causes=positions, assumed=assumed, lines=expressed)

    def _iterate(self, *, vectors: bool, grouped: bool) -> Iterator[Stretch]:
        lines = ExportedLines()
        linking = None if self.selection.whole else Linking(self.run, self.selection)
        has_lines = self.run.has_lines and not grouped
        nearest = Nearest(self.run, self.selection) if has_lines and not self.selection.whole else None
        for number in range(len(self.run.segments)):
            recorded = nearest.step(number) if nearest is not None else None
            if self.selection.codes[self.run.segments.codes_of(number)].any():
                segment = _Segment(self, number, recorded, grouped=grouped)
                for stretch in segment.stretches(linking, vectors=vectors):
                    yield self._add_lines(stretch, lines) if has_lines else stretch

    @cached_property
    def causes_in_later_segments(self) -> tuple[Longs, Longs]:
        """Return the positions of events that are causes in later segments, ascending, and of how many events each is."""
        crossings = self.run.table(self.run.table_file("crossings")).read(columns=["cause"], use_threads=False)
        positions, counts = np.unique(crossings["cause"].to_numpy(), return_counts=True)
        return positions, counts


class _Segment:
    """A segment, with its rows in the order of the export."""

    def __init__(
        self, exported: Stretches, number: int, nearest: dict[int, list[int]] | None, *, grouped: bool
    ) -> None:
        run = exported.run
        self._nearest = nearest
        self._has_lines = run.has_lines and not grouped
        self._exported = exported
        self._number = number
        self._codes = run.segments.codes_of(number).astype(np.int64)
        self._computation = run.processes.computation_number[self._codes]
        rows = int(run.segments.rows[number])
        self._skeleton = run.skeleton(number, 0, rows)
        first = int(run.segments.first_position[number])
        self._positions = np.arange(first, first + rows, dtype=np.int64)
        crossings = run.messages_into(number)
        self._edges = (crossings.row.astype(np.int64), crossings.position.astype(np.int64))
        self._edges_assumed = crossings.assumed
        self._chosen = exported.selection.rows(first, self._codes[self._skeleton.process].astype(np.int32))
        if grouped and len(np.unique(self._computation)) > 1:
            self._group()

    def _group(self) -> None:
        """Sort the rows by computation. No row has a cause in another computation."""
        order = np.argsort(self._computation[self._skeleton.process], kind="stable")
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        effect = place[np.repeat(np.arange(len(order)), np.diff(self._skeleton.offsets))]
        cause = place[self._skeleton.cause_rows()]
        by_effect = np.argsort(effect, kind="stable")
        counts = np.bincount(effect, minlength=len(order))
        self._skeleton = Skeleton(
            self._skeleton.process[order],
            np.concatenate(([0], np.cumsum(counts))),
            (effect - cause)[by_effect],
        )
        self._positions, self._chosen = self._positions[order], self._chosen[order]
        by_row = np.argsort(place[self._edges[0]], kind="stable")
        self._edges = (place[self._edges[0]][by_row], self._edges[1][by_row])

    @cached_property
    def _column(self) -> Ints:
        """Return, by process, its column in vectors. Processes of different computations share columns."""
        if not self._exported.run.segments.starts_computation[self._number]:
            return np.arange(len(self._codes), dtype=np.int32)
        order = np.argsort(self._computation, kind="stable")
        firsts = np.flatnonzero(np.diff(self._computation[order], prepend=-1))
        column = np.empty(len(self._codes), np.int32)
        column[order] = np.arange(len(order)) - np.repeat(firsts, np.diff(np.append(firsts, len(order))))
        return column

    @cached_property
    def _entries(self) -> Longs:
        """Return, by process, the process of each column in its vectors, or `NO_PROCESS`; one row if all are the same."""
        computations, number = np.unique(self._computation, return_inverse=True)
        entries = np.full((len(computations), self._width), NO_PROCESS, np.int64)
        entries[number, self._column] = self._codes
        return entries[number] if len(computations) > 1 else entries

    def _entries_of(self, local: Ints) -> Longs:
        entries = self._entries
        return entries[local] if len(entries) > 1 else np.broadcast_to(entries, (len(local), self._width))

    @property
    def _width(self) -> int:
        return int(self._column.max(initial=-1)) + 1

    def stretches(self, linking: Linking | None, *, vectors: bool) -> Iterator[Stretch]:
        """Yield the chosen rows, stretch by stretch."""
        wanted = np.flatnonzero(self._chosen)
        if not len(wanted):
            return
        step = max(1, min(layout.EVENT_ROWS, STRETCH_NUMBERS // self._width)) if vectors else layout.EVENT_ROWS
        vector_pass = self._start_vector_pass() if vectors else None
        for start in range(0, int(wanted[-1]) + 1, step):
            stop = min(start + step, len(self._skeleton))
            rows = wanted[slice(*np.searchsorted(wanted, [start, stop]))]
            stamps = vector_pass.vectors(start, stop, rows) if vector_pass is not None else None
            if len(rows):
                yield self._make_stretch(start, stop, rows, stamps, linking)

    def _start_vector_pass(self) -> VectorPass:
        boundary = self._exported.run.boundary(self._number)
        sends = np.searchsorted(boundary.send_position, self._edges[1])
        return VectorPass(self._skeleton, boundary, (self._edges[0], sends), self._column)

    def _make_stretch(
        self, start: int, stop: int, rows: Longs, vectors: Ints | None, linking: Linking | None
    ) -> Stretch:
        local = self._skeleton.process[rows]
        code = self._codes[local]
        positions = self._positions[rows]
        entries = self._entries_of(local) if vectors is not None else np.empty((len(rows), 0), np.int64)
        follows: list[list[int]] | None = None
        if linking is None:
            starts, causes, assumed = self._find_messages(start, stop)
            if self._has_lines:
                follows = [self._recorded_in_process.get(row, []) for row in rows.tolist()]
        else:
            assert vectors is not None
            vectors = self._renumber(vectors, entries)
            starts, causes = linking.find_causes(code, self._column[local], vectors, entries)
            assumed = np.zeros(len(causes), np.bool_)
            if self._nearest is not None:
                starts, causes, assumed, follows = self._add_recorded(positions, code, starts, causes)
        return Stretch(positions, code, starts, causes, assumed, follows, None, self._uses[rows], vectors, entries)

    def _add_recorded(
        self, positions: Longs, code: Longs, starts: Longs, causes: Longs
    ) -> tuple[Longs, Longs, Flags, list[list[int]]]:
        """Add the recorded causes to those that clocks name, which are then assumed unless they are recorded.

        Return where the causes of each event start, their positions, which are assumed, and the recorded causes within
        the event's process.
        """
        assert self._nearest is not None
        follows: list[list[int]] = []
        rows: list[int] = []
        cause_positions: list[int] = []
        assumed: list[bool] = []
        for row, position in enumerate(positions.tolist()):
            recorded = self._nearest[position]
            processes = find_codes(self._exported.run, np.array(recorded, np.int64)).tolist()
            own_process = int(code[row])
            follows.append([cause for cause, its in zip(recorded, processes, strict=True) if its == own_process])
            others = {cause for cause, its in zip(recorded, processes, strict=True) if its != own_process}
            wide = set(causes[starts[row] : starts[row + 1]].tolist())
            for cause in sorted(others | wide):
                rows.append(row)
                cause_positions.append(cause)
                assumed.append(cause not in others)
        new_starts = np.searchsorted(np.array(rows, np.int64), np.arange(len(positions) + 1))
        return new_starts, np.array(cause_positions, np.int64), np.array(assumed, np.bool_), follows

    @cached_property
    def _recorded_in_process(self) -> dict[int, list[int]]:
        """Return, by row, the positions of its recorded causes in its process."""
        return find_causes_in_process(self._exported.run, self._number)

    @cached_property
    def _reported_pairs(self) -> Longs:
        """Return the pairs of effect and cause that are not assumed, each as one number (`_pair_number`)."""
        skeleton = self._exported.run.known_skeleton(self._number, 0, len(self._skeleton))
        effect = np.repeat(np.arange(len(skeleton)), np.diff(skeleton.offsets))
        return self._pair_number(effect, skeleton.cause_rows())

    def _pair_number(self, effect: Longs, cause: Longs) -> Longs:
        """Return one number for each pair of rows of the segment; different pairs have different numbers."""
        return effect * len(self._skeleton) + cause

    def _find_messages(self, start: int, stop: int) -> tuple[Longs, Longs, Flags]:
        """Return where the causes of each chosen row start, their positions without repeats, and which are assumed."""
        part = self._skeleton.part(start, stop)
        first, last = np.searchsorted(self._edges[0], [start, stop])
        within = np.repeat(np.arange(stop - start), np.diff(part.offsets))
        effect = np.concatenate((within, self._edges[0][first:last] - start))
        causes = np.concatenate((self._positions[start + part.cause_rows()], self._edges[1][first:last]))
        assumed = np.zeros(len(causes), np.bool_)
        if self._has_lines:
            pairs = self._pair_number(start + within, start + part.cause_rows())
            assumed = np.concatenate((~np.isin(pairs, self._reported_pairs), self._edges_assumed[first:last]))
        order = np.lexsort((assumed, causes, effect))
        effect, causes, assumed = effect[order], causes[order], assumed[order]
        chosen = self._chosen[start:stop]
        is_kept = chosen[effect]
        is_kept[1:] &= (np.diff(effect) != 0) | (np.diff(causes) != 0)
        starts = np.searchsorted(effect[is_kept], np.append(np.flatnonzero(chosen), stop - start))
        return starts.astype(np.int64), causes[is_kept], assumed[is_kept]

    @cached_property
    def _uses(self) -> NDArray[np.int64]:
        """Count, by row, the events that have it as a cause, in this segment and in later ones."""
        effect = np.repeat(np.arange(len(self._skeleton)), np.diff(self._skeleton.offsets))
        pairs = np.unique(self._pair_number(effect, self._skeleton.cause_rows()))
        uses = np.bincount(pairs % len(self._skeleton), minlength=len(self._skeleton)).astype(np.int64)
        return uses + _count_at(self._positions, *self._exported.causes_in_later_segments)

    def _renumber(self, vectors: Ints, entries: Longs) -> Ints:
        """Count only exported events in vectors, so that each process counts its own without gaps."""
        selection = self._exported.selection
        renumbered = np.where((entries != NO_PROCESS) & selection.codes[entries], vectors, 0)
        if selection.positions is not None:
            # The events are of one computation, so all rows have the same processes in the same columns.
            for column, code in enumerate(entries[0].tolist()):
                if code in selection.indices:
                    renumbered[:, column] = np.searchsorted(
                        selection.indices[code][0], vectors[:, column], side="right"
                    )
        return renumbered


def _count_at(positions: Longs, counted: Longs, counts: Longs) -> Longs:
    """Return the count of each position; 0 for those not in `counted`, which ascends."""
    if not len(counted):
        return np.zeros(len(positions), np.int64)
    place = np.minimum(np.searchsorted(counted, positions), len(counted) - 1)
    return np.where(counted[place] == positions, counts[place], 0)
