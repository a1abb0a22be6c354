"""How events of a list lead to each other, at one step."""

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
from ledto.events.schema import ANSWER
from ledto.history import layout
from ledto.history.recorded import edges_into, recorded_causes, recorded_past, recorded_steps
from ledto.history.run import Run
from ledto.history.tables import Ints, Longs
from ledto.questions.event import Event, events_at
from ledto.questions.locate import code_at, codes_at, row_of
from ledto.questions.parts import part_of, parts_from
from ledto.questions.why import direct_causes, direct_steps

LINE, START, JOIN, MESSAGE = "line", "start", "join", "message"
"""The kinds of steps that are recorded."""
PROCESS, TIE, ANSWERED = "process", "tie", "answer"
"""The kinds of steps that are only possible; the last one is assumed."""
LOOKED_BACK = 1_000
NO_EDGES = (np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.bool_))


@dataclass(frozen=True, slots=True)
class PathStep:
    """One step of a path, from a cause to an effect."""

    kind: str
    """``line``: both are of one thing that a process does; others of its events may lie between. ``start``: the effect's
    line was started from the cause's; ``join``: the effect's line waited for the cause's. ``message``. ``process``: only
    the process is the same, whose state the effect may have found changed. ``tie``: a message went between others that were
    at the same time as they by the clocks of their processes. ``answer``: the effect is taken to have waited for it."""
    cause: Event
    effect: Event
    message: str | None
    """The key of the message, or of the answer that is assumed; None within a process."""

    @property
    def recorded(self) -> bool:
        """Whether it is known that the one led to the other."""
        return self.kind in (LINE, START, JOIN, MESSAGE)

    @property
    def known(self) -> str:
        """How sure it is that the one led to the other: ``recorded``, ``assumed`` or ``possible``."""
        return "recorded" if self.recorded else "assumed" if self.kind == ANSWERED else "possible"

    @property
    def apart(self) -> int | None:
        """The time between the two: by the clock of their process, or else by corrected times; None where one has none."""
        times = (
            (self.cause.time, self.effect.time)
            if self.cause.process == self.effect.process
            else (self.cause.corrected_time, self.effect.corrected_time)
        )
        return None if times[0] is None or times[1] is None else times[1] - times[0]

    def to_json(self) -> dict[str, Any]:
        """For `json.dumps`."""
        found: dict[str, Any] = {
            "kind": self.kind,
            "known": self.known,
            "cause": self.cause.to_json(),
            "effect": self.effect.to_json(),
        }
        if self.message is not None:
            found["message"] = self.message
        if not self.recorded and self.apart is not None:
            found["apart"] = self.apart
        return found


def path(run: Run, earlier: int, later: int, *, answered: bool = False) -> tuple[PathStep, ...] | None:
    """How one event led, or may have led, to another that is not before it in history order; None where it did not.

    As few steps as can be are not recorded. Steps along a line are taken together. `answered`: answers that are only assumed
    count as recorded; their steps are of the kind ``answer`` all the same.
    """
    if earlier == later:
        return ()
    found = _guessing_least(run, earlier, later, answered) if run.has_lines else _recorded(run, earlier, later)
    if found is None:
        return None
    edges = list(_joined(_told_apart(run, found) if run.has_lines else found))
    places = sorted({place for cause, effect, _ in edges for place in (cause, effect)})
    events = dict(zip(places, events_at(run, places), strict=True))
    return tuple(_step(run, events[cause], events[effect], kind, answered) for cause, effect, kind in edges)


def _step(run: Run, cause: Event, effect: Event, kind: str, answered: bool) -> PathStep:
    counted = answered and kind == MESSAGE and (cause.sends or "").startswith(ANSWER)
    if counted or (kind == TIE and is_answer(run, cause.position, effect.position)):
        kind = ANSWERED
    return PathStep(kind, cause, effect, (cause.sends or "") if kind in (MESSAGE, ANSWERED) else None)


def is_answer(run: Run, cause: int, effect: int) -> bool:
    """Tell an answer that is assumed from a message between others at the same time."""
    return bool((recorded_steps(run, np.array([effect], np.int64), answered=True)[1] == cause).any())


def _told_apart(run: Run, edges: list[Edge]) -> list[Edge]:
    """Tell steps along a line from those between lines."""
    places = np.array(sorted({place for *pair, kind in edges if kind == LINE for place in pair}), np.int64)
    lines = dict(zip(places.tolist(), run.rows(places, ["line"])["line"].to_pylist(), strict=True))
    return [
        (cause, effect, START if begins_line(run, effect, lines[effect]) else JOIN)
        if kind == LINE and lines[cause] != lines[effect]
        else (cause, effect, kind)
        for cause, effect, kind in edges
    ]


def begins_line(run: Run, position: int, line: str | None) -> bool:
    """Tell whether an event is the first of its line, as far as the last `LOOKED_BACK` events of its process tell that led
    to it."""
    if line is None:
        return False
    own = code_at(run, position)
    mine = [
        piece[codes_at(run, piece) == own] for piece in (recorded_causes(run, position), _nearest_past(run, position))
    ]
    past = np.unique(np.concatenate(mine))
    past = past[past < position][-LOOKED_BACK:]
    return not pc.any(pc.equal(run.rows(past, ["line"])["line"].cast(pa.string()), line)).as_py()


def _nearest_past(run: Run, position: int) -> Longs:
    """Positions of what is recorded to have led to an event, as far back as its row group of the skeleton goes."""
    _, row = row_of(run, position)
    group_start = position - row % layout.SKELETON_ROWS
    return np.concatenate([*recorded_past(run, np.array([position], np.int64), group_start)])


Edge = tuple[int, int, str]
"""Cause and effect by position, and the kind of the step."""


def _joined(edges: Iterable[Edge]) -> Iterator[Edge]:
    """Take steps along lines together that follow each other."""
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


def _recorded(run: Run, earlier: int, later: int) -> list[Edge] | None:
    """Where processes have no lines."""
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
            # Everything from here on is an effect: what lies between need not be read.
            last, row = row_of(run, later)
            end = part_of(run, last, row // layout.SKELETON_ROWS * layout.SKELETON_ROWS, row + 1)
            sweep.step(end.skeleton, end.first_position, edges_across=end.edges_across)
            break
    edges = sweep.path(later, int(local[0]), process_of=local_at)
    return None if edges is None else [(each.cause, each.effect, MESSAGE if each.message else LINE) for each in edges]


def _guessing_least(run: Run, earlier: int, later: int, answered: bool) -> list[Edge] | None:
    """Where processes do several things at once."""
    found = _searched(run, earlier, later, answered).path()
    if found is None:
        return None
    steps = direct_steps(run, np.array([effect for _, effect, _ in found], np.int64))
    by_message = set(zip(*(each.tolist() for each in steps), strict=True))
    return [
        (cause, effect, _kind((effect, cause) in by_message, is_recorded=is_recorded))
        for cause, effect, is_recorded in found
    ]


def guesses_between(run: Run, earlier: int, later: int) -> Ints:
    """By event from one position to another: 0 where what is recorded leads to it from the first, more where only the wide
    order does, and `UNREACHED` where nothing does."""
    return _searched(run, earlier, later).guesses


def _searched(run: Run, earlier: int, later: int, answered: bool = False) -> FewestGuesses:
    search = FewestGuesses(len(run.processes), earlier, later)
    last, last_row = row_of(run, later)
    number, row = row_of(run, earlier)
    for each in range(number, last + 1):
        stop = last_row + 1 if each == last else int(run.segments.rows[each])
        _step_over(run, search, each, row if each == number else 0, stop, answered)
    return search


def _kind(by_message: bool, *, is_recorded: bool) -> str:
    """The kind of an edge: `LINE` for all that is recorded in a process, `TIE` for all that is assumed."""
    if is_recorded:
        return MESSAGE if by_message else LINE
    return TIE if by_message else PROCESS


def unrecorded_step(run: Run, cause: Event, effect: Event) -> PathStep:
    """The step from one event to another that only the wide order knows."""
    by_message = bool((direct_causes(run, effect.position) == cause.position).any())
    return _step(run, cause, effect, _kind(by_message, is_recorded=False), answered=False)


def _step_over(run: Run, search: FewestGuesses, number: int, start: int, stop: int, answered: bool) -> None:
    """Go over rows ``start <= row < stop`` of a segment."""
    first, names = int(run.segments.first_position[number]), run.segments.codes_of(number)
    while start < stop:
        group, begin = divmod(start, layout.SKELETON_ROWS)
        end = min(stop - group * layout.SKELETON_ROWS, layout.SKELETON_ROWS)
        skeleton = run.skeleton(number, start, start + end - begin)
        edges: tuple[Longs, Longs, NDArray[np.bool_]] = NO_EDGES
        if search.first_position < first:
            into = edges_into(run, number).between(start, start + len(skeleton))
            edges = (into.row - start, into.reference, into.counts(answered=answered))
        recorded = run.recorded_group(number, group, answered=answered).part(begin, end)
        search.step(skeleton, recorded, first + start, names[skeleton.process].astype(np.int64), edges)
        start += len(skeleton)


@dataclass(frozen=True, slots=True)
class ListedEdge:
    """One step from a cause to an effect."""

    cause: int
    effect: int
    """Positions of the two."""
    kind: str
    """As that of a `Step`."""

    def to_json(self) -> dict[str, Any]:
        """For `json.dumps`."""
        return asdict(self)


def edges_among(run: Run, events: Sequence[Event], *, whole: bool, answered: bool) -> tuple[ListedEdge, ...]:
    """The steps between events, which are in history order and, where processes have no lines, without gaps in a process.

    `whole`: all that is recorded to have led to them is among them. `answered`: with answers that are only assumed.
    """
    by_position = {event.position: event for event in events}
    places = np.array(list(by_position), np.int64)
    by_message = _by_effect(direct_steps(run, places))
    along_lines = _by_effect(recorded_steps(run, places)) if run.has_lines else {}
    with_answers = _by_effect(recorded_steps(run, places, answered=True)) if run.has_lines and answered else {}
    last: dict[tuple[str, str], int] = {}
    begun: set[tuple[str, str, str | None]] = set()
    found: list[ListedEdge] = []
    for effect in events:
        direct = by_message.get(effect.position, [])
        key = (effect.computation, effect.process)
        if run.has_lines:
            recorded = along_lines.get(effect.position, [])
        else:
            recorded = sorted({*direct, *([last[key]] if key in last else [])})
        last[key] = effect.position
        line = (*key, effect.line)
        for cause in (by_position[each] for each in recorded if each in by_position):
            if cause.position in direct:
                kind = MESSAGE
            elif cause.line == effect.line:
                kind = LINE
            else:
                starts = line not in begun and (
                    effect.line is not None if whole else begins_line(run, effect.position, effect.line)
                )
                kind = START if starts else JOIN
            found.append(ListedEdge(cause.position, effect.position, kind))
        begun.add(line)
        answers = [each for each in with_answers.get(effect.position, []) if each in by_position]
        found += [ListedEdge(each, effect.position, ANSWERED) for each in answers if each not in recorded]
    return tuple(found)


def _by_effect(steps: tuple[Longs, Longs]) -> dict[int, list[int]]:
    """Causes by effect, from pairs."""
    found: dict[int, list[int]] = {}
    for effect, cause in zip(*(each.tolist() for each in steps), strict=True):
        found.setdefault(effect, []).append(cause)
    return found
