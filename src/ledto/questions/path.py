"""Find the steps from one event to another, and those between the events of a list.

A step is recorded, assumed or possible (`PathStep.known`). Steps that are not recorded are *guesses*; a path has as few
of them as possible.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ledto.causality.paths import FewestGuesses
from ledto.causality.sweeps import FutureSweep
from ledto.events.keys import ANSWER
from ledto.history import layout
from ledto.history.recorded import edges_into, recorded_causes, recorded_past, recorded_steps
from ledto.history.run import Run
from ledto.history.tables import Ints, Longs
from ledto.questions.event import Event, events_at
from ledto.questions.locate import code_at, codes_at, row_of
from ledto.questions.parts import part_of, parts_from
from ledto.questions.why import direct_causes, direct_steps

LINE, START, JOIN, MESSAGE = "line", "start", "join", "message"
"""Kinds of steps that are recorded."""
PROCESS, TIE, ANSWERED = "process", "tie", "answer"
"""Kinds of steps that are not recorded: the first two are possible, the last is assumed."""
LOOKED_BACK = 1_000
"""How many earlier events of a process are searched for the start of a line."""
Edge = tuple[int, int, str]
"""The positions of cause and effect, and the kind of the step."""
NO_EDGES = (np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.bool_))


@dataclass(frozen=True, slots=True)
class PathStep:
    """One step of a path, from a cause to an effect."""

    kind: str
    """``line``: both events are on one line; other events of the line may be between them.
    ``start``: the line of the cause started that of the effect.
    ``join``: the line of the effect waited for that of the cause.
    ``message``: the cause sent a message that the effect received.
    ``process``: the events only share a process; the cause may have changed its state.
    ``tie``: a message went between two events that have the same times as these by the clocks of their processes.
    ``answer``: the effect is assumed to have waited for the answer that the cause sent."""
    cause: Event
    effect: Event
    message: str | None
    """The key of the message, or of the assumed answer; None for other kinds."""

    @property
    def recorded(self) -> bool:
        """Whether a report says that the cause led to the effect."""
        return self.kind in (LINE, START, JOIN, MESSAGE)

    @property
    def known(self) -> str:
        """How sure the step is: ``recorded``, ``assumed`` or ``possible``."""
        return "recorded" if self.recorded else "assumed" if self.kind == ANSWERED else "possible"

    @property
    def apart(self) -> int | None:
        """The time between the two: by the clock of their process, or else by corrected times. None if a time is missing."""
        times = (
            (self.cause.time, self.effect.time)
            if self.cause.process == self.effect.process
            else (self.cause.corrected_time, self.effect.corrected_time)
        )
        return None if times[0] is None or times[1] is None else times[1] - times[0]

    def to_json(self) -> dict[str, Any]:
        """Make the JSON object that `--json` prints."""
        document: dict[str, Any] = {
            "kind": self.kind,
            "known": self.known,
            "cause": self.cause.to_json(),
            "effect": self.effect.to_json(),
        }
        if self.message is not None:
            document["message"] = self.message
        if not self.recorded and self.apart is not None:
            document["apart"] = self.apart
        return document


def path(run: Run, earlier: int, later: int, *, answered: bool = False) -> tuple[PathStep, ...] | None:
    """Find the steps from an event to a later one in history order; None if no path leads there.

    As few steps as possible are not recorded. Steps along one line become one step. `answered`: count assumed answers as
    recorded; their steps still have the kind ``answer``.
    """
    if earlier == later:
        return ()
    edges = (
        _edges_with_lines(run, earlier, later, answered) if run.has_lines else _edges_of_processes(run, earlier, later)
    )
    if edges is None:
        return None
    edges = list(_joined(_tell_starts_and_joins(run, edges) if run.has_lines else edges))
    places = sorted({place for cause, effect, _ in edges for place in (cause, effect)})
    events = dict(zip(places, events_at(run, places), strict=True))
    return tuple(_step(run, events[cause], events[effect], kind, answered) for cause, effect, kind in edges)


def _step(run: Run, cause: Event, effect: Event, kind: str, answered: bool) -> PathStep:
    """Make a step of an edge; find out whether a tie is an answer."""
    counted = answered and kind == MESSAGE and (cause.sends or "").startswith(ANSWER)
    if counted or (kind == TIE and is_answer(run, cause.position, effect.position)):
        kind = ANSWERED
    return PathStep(kind, cause, effect, (cause.sends or "") if kind in (MESSAGE, ANSWERED) else None)


def is_answer(run: Run, cause: int, effect: int) -> bool:
    """Tell whether an edge that is not recorded is an assumed answer, and not a tie."""
    return bool((recorded_steps(run, np.array([effect], np.int64), answered=True)[1] == cause).any())


def _tell_starts_and_joins(run: Run, edges: list[Edge]) -> list[Edge]:
    """Change the kind of edges between two lines from line to start or join."""
    places = np.array(sorted({place for *pair, kind in edges if kind == LINE for place in pair}), np.int64)
    lines = dict(zip(places.tolist(), run.rows(places, ["line"])["line"].to_pylist(), strict=True))
    return [
        (cause, effect, START if begins_line(run, effect, lines[effect]) else JOIN)
        if kind == LINE and lines[cause] != lines[effect]
        else (cause, effect, kind)
        for cause, effect, kind in edges
    ]


def begins_line(run: Run, position: int, line: str | None) -> bool:
    """Tell whether an event is the first of its line.

    Searches the last `LOOKED_BACK` events of its process that led to it, within its row group.
    """
    if line is None:
        return False
    process = code_at(run, position)
    same_process = [
        piece[codes_at(run, piece) == process]
        for piece in (recorded_causes(run, position), _nearest_past(run, position))
    ]
    past = np.unique(np.concatenate(same_process))
    past = past[past < position][-LOOKED_BACK:]
    return not pc.any(pc.equal(run.rows(past, ["line"])["line"].cast(pa.string()), line)).as_py()


def _nearest_past(run: Run, position: int) -> Longs:
    """Find the recorded past of an event within its row group of the skeleton."""
    _, row = row_of(run, position)
    group_start = position - row % layout.SKELETON_ROWS
    return np.concatenate([*recorded_past(run, np.array([position], np.int64), group_start)])


def _joined(edges: Iterable[Edge]) -> Iterator[Edge]:
    """Join successive edges along a line into one."""
    waiting: Edge | None = None
    for cause, effect, kind in edges:
        if kind == LINE:
            waiting = (waiting[0] if waiting else cause, effect, kind)
            continue
        if waiting:
            yield waiting
            waiting = None
        yield cause, effect, kind
    if waiting:
        yield waiting


def _edges_of_processes(run: Run, earlier: int, later: int) -> list[Edge] | None:
    """Find a path in a history without lines, where each process does one thing at a time; None if there is none."""
    number, _ = row_of(run, earlier)
    codes = run.segments.codes_of(number)
    local = np.flatnonzero(codes == code_at(run, later))
    if not len(local):
        return None

    def local_at(position: int) -> int:
        return int(np.flatnonzero(codes == code_at(run, position))[0])

    sweep = FutureSweep(len(codes), earlier)
    for part in parts_from(run, earlier):
        sweep.step(part.skeleton, part.first_position, edges_across=part.edges_across)
        if part.first_position + len(part.skeleton) > later:
            break
        if sweep.complete:
            # All events from here on are effects, so those in between need not be read.
            last, row = row_of(run, later)
            end = part_of(run, last, row // layout.SKELETON_ROWS * layout.SKELETON_ROWS, row + 1)
            sweep.step(end.skeleton, end.first_position, edges_across=end.edges_across)
            break
    edges = sweep.path(later, int(local[0]), process_of=local_at)
    return None if edges is None else [(edge.cause, edge.effect, MESSAGE if edge.message else LINE) for edge in edges]


def _edges_with_lines(run: Run, earlier: int, later: int, answered: bool) -> list[Edge] | None:
    """Find a path with the fewest guesses in a history with lines; None if there is none."""
    edges = _search(run, earlier, later, answered).path()
    if edges is None:
        return None
    steps = direct_steps(run, np.array([effect for _, effect, _ in edges], np.int64))
    by_message = set(zip(*(column.tolist() for column in steps), strict=True))
    return [
        (cause, effect, _kind((effect, cause) in by_message, is_recorded=is_recorded))
        for cause, effect, is_recorded in edges
    ]


def guesses_between(run: Run, earlier: int, later: int) -> Ints:
    """Count the guesses on the best path from an event to each event up to a later one, by position.

    0: recorded steps lead there. More: only the wide order does. `UNREACHED`: no path does.
    """
    return _search(run, earlier, later).guesses


def _search(run: Run, earlier: int, later: int, answered: bool = False) -> FewestGuesses:
    """Search the rows from one position to another for paths with the fewest guesses."""
    search = FewestGuesses(len(run.processes), earlier, later)
    last, last_row = row_of(run, later)
    number, row = row_of(run, earlier)
    for segment in range(number, last + 1):
        stop = last_row + 1 if segment == last else int(run.segments.rows[segment])
        _search_segment(run, search, segment, row if segment == number else 0, stop, answered)
    return search


def _kind(by_message: bool, *, is_recorded: bool) -> str:
    """Name the kind of an edge: `LINE` also for starts and joins, `TIE` also for assumed answers."""
    if is_recorded:
        return MESSAGE if by_message else LINE
    return TIE if by_message else PROCESS


def unrecorded_step(run: Run, cause: Event, effect: Event) -> PathStep:
    """Make the step between two events that only the wide order connects."""
    by_message = bool((direct_causes(run, effect.position) == cause.position).any())
    return _step(run, cause, effect, _kind(by_message, is_recorded=False), answered=False)


def _search_segment(run: Run, search: FewestGuesses, number: int, start: int, stop: int, answered: bool) -> None:
    """Search rows ``start <= row < stop`` of a segment."""
    first, names = int(run.segments.first_position[number]), run.segments.codes_of(number)
    while start < stop:
        group, begin = divmod(start, layout.SKELETON_ROWS)
        end = min(stop - group * layout.SKELETON_ROWS, layout.SKELETON_ROWS)
        skeleton = run.skeleton(number, start, start + end - begin)
        edges: tuple[Longs, Longs, NDArray[np.bool_]] = NO_EDGES
        if search.first_position < first:
            into = edges_into(run, number).between(start, start + len(skeleton))
            edges = (into.row - start, into.reference, into.are_recorded(answered=answered))
        recorded = run.recorded_group(number, group, answered=answered).part(begin, end)
        search.step(skeleton, recorded, first + start, names[skeleton.process].astype(np.int64), edges)
        start += len(skeleton)


@dataclass(frozen=True, slots=True)
class ListedEdge:
    """One step from a cause to an effect."""

    cause: int
    """The position of the cause."""
    effect: int
    """The position of the effect."""
    kind: str
    """As `PathStep.kind`."""

    def to_json(self) -> dict[str, Any]:
        """Make the JSON object that `--json` prints."""
        return asdict(self)


def edges_among(run: Run, events: Sequence[Event], *, whole: bool, answered: bool) -> tuple[ListedEdge, ...]:
    """Find the steps between listed events, which must be in history order.

    In a history without lines, the list must have no gaps within a process. `whole`: the list has all recorded causes of
    its events. `answered`: list steps of assumed answers, too.
    """
    by_position = {event.position: event for event in events}
    places = np.array(list(by_position), np.int64)
    by_message = _by_effect(direct_steps(run, places))
    along_lines = _by_effect(recorded_steps(run, places)) if run.has_lines else {}
    with_answers = _by_effect(recorded_steps(run, places, answered=True)) if run.has_lines and answered else {}
    last: dict[tuple[str, str], int] = {}
    begun: set[tuple[str, str, str | None]] = set()
    edges: list[ListedEdge] = []
    for effect in events:
        direct = by_message.get(effect.position, [])
        key = (effect.computation, effect.process)
        if run.has_lines:
            recorded = along_lines.get(effect.position, [])
        else:
            recorded = sorted({*direct, *([last[key]] if key in last else [])})
        last[key] = effect.position
        line = (*key, effect.line)
        for cause in (by_position[position] for position in recorded if position in by_position):
            if cause.position in direct:
                kind = MESSAGE
            elif cause.line == effect.line:
                kind = LINE
            else:
                starts = line not in begun and (
                    effect.line is not None if whole else begins_line(run, effect.position, effect.line)
                )
                kind = START if starts else JOIN
            edges.append(ListedEdge(cause.position, effect.position, kind))
        begun.add(line)
        answers = [position for position in with_answers.get(effect.position, []) if position in by_position]
        edges += [ListedEdge(position, effect.position, ANSWERED) for position in answers if position not in recorded]
    return tuple(edges)


def _by_effect(steps: tuple[Longs, Longs]) -> dict[int, list[int]]:
    """Group the causes by effect."""
    causes: dict[int, list[int]] = {}
    for effect, cause in zip(*(column.tolist() for column in steps), strict=True):
        causes.setdefault(effect, []).append(cause)
    return causes
