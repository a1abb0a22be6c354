"""Answer what led to an event: list its nearest recorded causes, possible ones, and what is missing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ledto.causality.sweeps import PastSweep
from ledto.history import layout
from ledto.history.recorded import by_groups, distinct_pairs, recorded_past
from ledto.history.run import Run
from ledto.history.tables import Longs
from ledto.questions.answer import ASKED, CAUSE, POSSIBLE, EventAnswer, count, name_event
from ledto.questions.event import Event, events_at
from ledto.questions.locate import code_at, index_at, row_of
from ledto.questions.missing import Missing, is_tainted, missing_in_past, silent_beside
from ledto.questions.parts import parts_until

if TYPE_CHECKING:
    from ledto.questions.path import ListedEdge
    from ledto.questions.possible import Possible


@dataclass(frozen=True, slots=True, repr=False)
class Why(EventAnswer):
    """The answer of `History.why`."""

    event: Event
    causes: tuple[Event, ...]
    """The nearest events that are recorded to have led to it. Causes come before their effects."""
    more: bool
    """Whether there are more causes before those."""
    missing: tuple[Missing, ...]
    """Reports that are missing in what may have led to it: first between the causes, then further back."""
    complete: bool = False
    """Whether no report is known to be missing."""
    numbered: bool = True
    """Whether sources number all events. If not, a lost report may go unnoticed."""
    possible: tuple[Possible, ...] = ()
    """Other events that may have led to it; no report says that they did. The most useful come first."""
    more_possible: bool = False
    """Whether there may be more possible causes."""
    edges: tuple[ListedEdge, ...] = ()
    """The steps between the causes and the event. Empty with a filter. A step that others lead around may be left out."""

    def to_json(self) -> dict[str, Any]:
        """Make the JSON object that `--json` prints."""
        return {
            "event": self.event.to_json(),
            "causes": [event.to_json() for event in self.causes],
            "more": self.more,
            "missing": [gap.to_json() for gap in self.missing],
            "complete": self.complete,
            "numbered": self.numbered,
            "possible": [possible.to_json() for possible in self.possible],
            "more_possible": self.more_possible,
            "edges": [edge.to_json() for edge in self.edges],
        }

    def listed(self) -> Sequence[tuple[str, Event]]:
        """List the causes, the event itself, and the possible causes."""
        return (
            *((CAUSE, event) for event in self.causes),
            (ASKED, self.event),
            *((POSSIBLE, possible.event) for possible in self.possible),
        )

    def steps_between(self) -> Sequence[ListedEdge]:
        return self.edges

    def summary(self) -> str:
        causes = f"{'the last ' if self.more else ''}{count(len(self.causes), 'cause')}"
        possible = f", {len(self.possible):,} possible" if self.possible else ""
        whole = "complete" if self.numbered else "complete as far as is known"
        return f"{name_event(self.event)}: {causes}{possible}, {whole if self.complete else 'not complete'}"

    def notes(self) -> Sequence[str]:
        further = (
            *(["There are more causes before these."] if self.more else ()),
            *(["There may be more possible causes."] if self.possible and self.more_possible else ()),
        )
        return (*further, *(f"Missing: {gap.words}." for gap in self.missing))


@dataclass(frozen=True, slots=True)
class Filter:
    """Selects events by process and by a test."""

    codes: Longs | None = None
    """The global codes of the wanted processes; None for all."""
    columns: tuple[str, ...] = ()
    """The columns that the test reads."""
    test: Callable[[pa.Table], NDArray[np.bool_]] | None = None
    """Returns for each row whether it is wanted; None accepts all."""

    @property
    def takes_all(self) -> bool:
        """Whether every event is wanted."""
        return self.codes is None and self.test is None


def why(
    run: Run,
    position: int,
    k: int,
    most_possible: int,
    wanted: Filter,
    on_progress: Callable[[int], None] | None,
    *,
    answered: bool = False,
) -> Why:
    """Find the last `k` wanted events of the recorded past, and up to `most_possible` possible causes.

    `answered`: count assumed answers as recorded. `on_progress` gets the position reached, now and then.
    """
    if run.has_lines:
        parts = _past_along_lines(run, position, wanted, answered)
    else:
        parts = _past_unfiltered(run, position, k + 1) if wanted.takes_all else _past(run, position, wanted)
    positions = _last(parts, k + 1, on_progress)
    more = len(positions) > k
    positions = positions[len(positions) - k :] if more else positions
    event, *causes = events_at(run, np.concatenate(([position], positions)))
    listed = (*causes, event) if wanted.takes_all else tuple(causes)
    consecutive = wanted.takes_all and not run.has_lines
    between = (*_gaps(run, listed, consecutive=consecutive), *_unreported((*causes, event)))
    missing = tuple(dict.fromkeys((*between, *missing_in_past(run, position), *silent_beside(run, position))))
    complete = not missing and not is_tainted(run, position)
    from ledto.questions.path import edges_among

    edges = edges_among(run, (*causes, event), whole=not more, answered=answered) if wanted.takes_all else ()
    if not run.has_lines:
        return Why(event, tuple(causes), more, missing, complete, run.has_numbers, edges=edges)
    from ledto.questions.possible import possible_causes

    possible, more_possible = possible_causes(run, position, most_possible, wanted, answered=answered)
    return Why(event, tuple(causes), more, missing, complete, run.has_numbers, possible, more_possible, edges)


def _past_along_lines(run: Run, position: int, wanted: Filter, answered: bool) -> Iterator[tuple[int, Longs]]:
    """Yield the wanted events of the recorded past, newest piece first. Each piece comes with its first position."""
    for piece in recorded_past(run, np.array([position], np.int64), answered=answered):
        below = int(piece[0])
        piece = piece[piece != position]
        if wanted.takes_all:
            yield below, piece
        else:
            for group in by_event_groups(run, piece):
                yield below, keep_wanted(run, group, wanted)


def _last(parts: Iterator[tuple[int, Longs]], k: int, on_progress: Callable[[int], None] | None) -> Longs:
    """Return the last `k` positions of ascending pieces, which come newest first. Read no more pieces than needed."""
    pieces: list[Longs] = []
    count = 0
    for below, piece in parts:
        if on_progress is not None:
            on_progress(below)
        pieces.append(piece)
        count += len(piece)
        if count >= k:
            break
    positions = np.concatenate([np.empty(0, np.int64), *reversed(pieces)])
    return positions[max(0, len(positions) - k) :]


def _past_unfiltered(run: Run, position: int, limit: int) -> Iterator[tuple[int, Longs]]:
    """Yield the past in a history without lines, newest piece first. Stop after about `limit` events."""
    sweep = PastSweep(_count_processes(run, position), position, limit=limit)
    yield from _sweep_back(run, sweep, position)


def _sweep_back(run: Run, sweep: PastSweep, position: int) -> Iterator[tuple[int, Longs]]:
    for part in parts_until(run, position):
        rows = sweep.step(part.skeleton, part.first_position, edges_across=part.edges_across)
        yield part.first_position, rows + part.first_position
        if part.start == 0:
            sweep.forget_exhausted(run.segments.before_of(part.number))
        if sweep.done:
            return


def _past(run: Run, position: int, wanted: Filter) -> Iterator[tuple[int, Longs]]:
    """Yield the wanted events of the past in a history without lines, newest row group first."""
    sweep = PastSweep(_count_processes(run, position), position)
    for below, positions in _sweep_back(run, sweep, position):
        for group in by_event_groups(run, positions):
            yield below, keep_wanted(run, group, wanted)


def by_event_groups(run: Run, positions: Longs) -> Iterator[Longs]:
    """Split ascending positions of one segment by row groups of the events' file; yield the newest group first."""
    if not len(positions):
        return
    first = int(run.segments.first_position[run.segments.segment_of(int(positions[0]))])
    group = (positions - first) // layout.EVENT_ROWS
    yield from reversed(np.split(positions, np.flatnonzero(np.diff(group)) + 1))


def keep_wanted(run: Run, positions: Longs, wanted: Filter) -> Longs:
    """Keep the positions whose events are wanted. Positions must ascend and lie in one row group of the events' file."""
    number, first = row_of(run, int(positions[0]))
    rows = positions - positions[0] + first
    if wanted.codes is not None:
        group = first // layout.SKELETON_ROWS
        local = run.process_group(number, group)[rows - group * layout.SKELETON_ROWS]
        chosen = np.isin(run.segments.codes_of(number)[local], wanted.codes)
        positions, rows = positions[chosen], rows[chosen]
    if wanted.test is not None and len(rows):
        start = first // layout.EVENT_ROWS * layout.EVENT_ROWS
        stop = min(start + layout.EVENT_ROWS, int(run.segments.rows[number]))
        table = run.events(number, wanted.columns, start, stop)
        if 2 * len(rows) > len(table):
            # Taking most rows out of a table of strings costs more than testing all of its rows.
            positions = positions[wanted.test(table)[rows - start]]
        else:
            positions = positions[wanted.test(table.take(pa.array(rows - start)))]
    return positions


def _count_processes(run: Run, position: int) -> int:
    """Count the processes of the segment of a position."""
    return len(run.segments.codes_of(row_of(run, position)[0]))


def direct_causes(run: Run, position: int) -> Longs:
    """Find the direct causes of an event, without the previous event of its process."""
    return direct_steps(run, np.array([position], np.int64))[1]


def direct_steps(run: Run, positions: Longs) -> tuple[Longs, Longs]:
    """Do as `direct_causes` for many ascending positions; return effects and causes, in ascending pairs."""
    effects, causes = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for number, group, rows in by_groups(run, positions):
        first = int(run.segments.first_position[number])
        skeleton = run.skeleton_group(number, group)
        places = rows - group * layout.SKELETON_ROWS
        lengths = skeleton.offsets[places + 1] - skeleton.offsets[places]
        at = np.arange(int(lengths.sum())) + np.repeat(skeleton.offsets[places + 1] - np.cumsum(lengths), lengths)
        effect = np.repeat(first + rows, lengths)
        into = run.messages_into(number)
        low, high = np.searchsorted(into.row, [rows[0], rows[-1] + 1])
        chosen = np.isin(into.row[low:high], rows)
        effects += [effect, first + into.row[low:high][chosen]]
        causes += [effect - skeleton.back[at], into.position[low:high][chosen]]
    return distinct_pairs(np.concatenate(effects), np.concatenate(causes))


def _gaps(run: Run, events: tuple[Event, ...], *, consecutive: bool) -> Iterator[Missing]:
    """Find gaps in the numbers of listed events of one process.

    `consecutive`: the list has every event of each process from its first to its last.
    """
    last: dict[tuple[str, str], Event] = {}
    dense: dict[tuple[str, str], bool] = {}
    for event in events:
        key = (event.computation, event.process)
        before = last.get(key)
        last[key] = event
        if before is None or event.seq - before.seq <= 1:
            continue
        if key not in dense:
            dense[key] = bool(run.processes.dense_seq[code_at(run, event.position)])
        if dense[key]:
            continue
        steps = 1 if consecutive else index_at(run, event.position) - index_at(run, before.position)
        if event.seq - before.seq > steps:
            yield Missing(event.process, before.seq, event.seq, event.seq - before.seq - steps)


def _unreported(events: tuple[Event, ...]) -> Iterator[Missing]:
    """Find causes that events name and that nobody reported."""
    for event in events:
        for key in event.missing:
            yield Missing(None, None, None, 1, key, event.id)
