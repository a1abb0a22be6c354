"""Answers against what is true: executions whose every edge is known, some of whose reports are lost."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from ledto.events.keys import ANSWER
from ledto.events.schema import END, FIRST, REPORTS, START
from ledto.questions import RELATIONS, History, PathStep, Standing
from ledto.questions.standing import POSSIBLY_BEFORE
from tests.examples import examples
from tests.history.computations import observe_cut

MAIN = None
"""The line of what a process does on no line."""


@dataclass(eq=False)
class Done:
    """Something that a process did, and what it followed."""

    process: str
    number: int
    time: int
    line: str | None
    parent: str | None = None
    phase: str | None = None
    joins: list[str] = field(default_factory=list)
    sends: str | None = None
    receives: list[str] = field(default_factory=list)
    recorded: list[Done] = field(default_factory=list)
    assumed: list[Done] = field(default_factory=list)
    previous: Done | None = None
    lost: bool = False
    place: int = 0

    @property
    def id(self) -> str:
        return f"{self.process}-{self.number}"

    def report(self, *, numbered: bool) -> dict[str, object]:
        return {
            "computation": "",
            "process": self.process,
            "seq": self.number if numbered else None,
            "time": self.time,
            "kind": "receive" if self.receives else "send" if self.sends else "local",
            "sends": self.sends,
            "receives": self.receives[0] if self.receives else None,
            "receives_more": self.receives[1:] or None,
            "id": self.id,
            "name": "done",
            "line": self.line,
            "line_parent": self.parent,
            "line_phase": self.phase,
            "line_joins": self.joins or None,
            "file": f"{self.process}.log",
            "place": self.place,
        }


class Execution:
    """Processes that do several things at once, in an order in which they may have happened."""

    def __init__(
        self, random: Random, *, processes: int, events: int, skew: int, ties: float = 0.0, named: float = 0.0
    ) -> None:
        """`named`: which share of the events between the first and the last of a line name a parent, which says nothing."""
        self.random, self.ties, self.named = random, ties, named
        self.names = [f"p{number}" for number in range(processes)]
        self.offset = {name: random.randint(0, skew) for name in self.names}
        self.silent = {name for name in self.names if random.random() < 0.1}
        self.front: dict[tuple[str, str | None], list[Done]] = {(name, MAIN): [] for name in self.names}
        self.ended: dict[tuple[str, str], list[Done]] = {}
        self.last: dict[str, Done] = {}
        self.sent: list[Done] = []
        self.answers: list[Done] = []
        self.done: list[Done] = []
        for step in range(events):
            self._act(step)

    def _act(self, step: int) -> None:
        """Let one process do one thing: go on with a line, start one, end one, wait for some."""
        random = self.random
        name = random.choice(self.names)
        previous = self.last.get(name)
        time = max(2 * step + self.offset[name], previous.time + 1 if previous else 0)
        if previous and random.random() < self.ties:
            time = previous.time
        mine = [line for process, line in self.front if process == name]
        own = random.choice(mine)
        event = Done(name, previous.number + 1 if previous else 1, time, own, previous=previous, place=step)
        event.recorded = list(self.front[name, own])
        choice = random.random()
        if choice < 0.25:
            # A line begins: told by its phase, or only by its first event.
            event.line, event.parent = f"line {step}", own
            event.phase = (
                random.choice((START, FIRST)) if own is MAIN else random.choice((START, START, FIRST, None, None))
            )
            if own is MAIN:
                event.recorded = []
        elif choice < 0.4 and own is not MAIN:
            event.phase = END
            event.parent = random.choice([line for line in mine if line != own])
            if random.random() < 0.3:
                event.parent = None
        elif choice < 0.55:
            over = [line for process, line in self.ended if process == name]
            waits = [line for line in (*mine, *over) if line not in (own, MAIN)]
            event.joins = sorted(random.sample(waits, min(len(waits), random.choice((1, 1, 2)))))
            for line in event.joins:
                event.recorded += self.front.get((name, line)) or self.ended[name, line]
        between = event.parent is None and event.phase is None and event.line is not MAIN
        if self.named and between and random.random() < self.named:
            event.parent = random.choice([line for line in mine if line != own])
        if name not in self.silent:
            self._talk(event, step)
        self._follow(event)

    def _talk(self, event: Done, step: int) -> None:
        random = self.random
        recent = self.sent[-6:] if random.random() < 0.8 else self.sent
        if event.phase == END and random.random() < 0.5:
            event.sends = f"{ANSWER}{step}"
            self.answers.append(event)
        elif event.phase == END and self.answers and random.random() < 0.7:
            answer = self.answers.pop(random.randrange(len(self.answers)))
            if answer.process != event.process:
                event.assumed, event.receives = [answer], [str(answer.sends)]
        elif random.random() < 0.4:
            # What a user calls an answer is a message like others.
            event.sends = f"answer to {step}" if step % 3 else f"m{step}"
        elif recent and random.random() < 0.7:
            causes = random.sample(recent, min(len(recent), random.choice((1, 1, 2))))
            event.receives = [str(cause.sends) for cause in causes]
            # A start that receives something was started by that.
            event.recorded = causes if event.phase == START else event.recorded + causes
        if event.sends and not event.sends.startswith(ANSWER):
            self.sent.append(event)

    def _follow(self, event: Done) -> None:
        key = (event.process, event.line)
        self.front[key] = [event]
        if event.phase == END:
            self.ended[event.process, str(event.line)] = self.front.pop(key)
            if event.parent is not None:
                self.front[event.process, event.parent].append(event)
        self.last[event.process] = event
        self.done.append(event)

    def paths(self) -> tuple[dict[Done, set[Done]], dict[Done, set[Done]]]:
        """By event: everything from which a recorded path leads to it, and everything from which any path does."""
        recorded: dict[Done, set[Done]] = {}
        wide: dict[Done, set[Done]] = {}
        for event in self.done:
            recorded[event] = {each for cause in event.recorded for each in (cause, *recorded[cause])}
            every = [*event.recorded, *event.assumed, *([event.previous] if event.previous else [])]
            wide[event] = {each for cause in every for each in (cause, *wide[cause])}
        return recorded, wide

    def reports(self, *, numbered: bool) -> pa.Table:
        rows = [event.report(numbered=numbered) for event in self.done if not event.lost]
        self.random.shuffle(rows)
        return pa.Table.from_pylist(rows, REPORTS)


def observed(folder: Path, execution: Execution, *, numbered: bool, cuts: list[int], eps: int) -> History:
    """The history of what was reported, cut at these times."""
    observe_cut(folder, execution.reports(numbered=numbered), cuts, eps)
    return History(folder)


def true_standing(first: Done, second: Done, recorded, wide, silent: set[str]) -> Standing:
    """How two events stand to each other where nothing is lost."""
    if first is second:
        return Standing.EQUAL
    if first in recorded[second] or second in recorded[first]:
        return Standing.BEFORE if first in recorded[second] else Standing.AFTER
    if first in wide[second] or second in wide[first]:
        return Standing.POSSIBLE
    return Standing.UNKNOWN if {first.process, second.process} & silent else Standing.CONCURRENT


@examples(100)
@given(
    seed=st.integers(0, 2**32),
    processes=st.integers(1, 4),
    events=st.integers(1, 45),
    skew=st.integers(0, 20),
    numbered=st.booleans(),
    named=st.sampled_from((0.0, 0.5, 1.0)),
    cuts=st.lists(st.integers(1, 110), max_size=4),
)
# The last segment has no event on a line, and one that waited for a line of an earlier one.
@example(seed=3597102555, processes=4, events=35, skew=10, numbered=False, named=0.0, cuts=[65])
def test_every_relation_is_the_true_one_where_nothing_is_lost(seed, processes, events, skew, numbered, named, cuts):
    """A user would take what only shared a process for a cause, or not see a cause, depending on how the work was cut."""
    execution = Execution(Random(seed), processes=processes, events=events, skew=skew, named=named)
    recorded, wide = execution.paths()
    talking = {event.process for event in execution.done if event.sends or event.receives}
    present = {event.process for event in execution.done}
    silent = present - talking if len(present) > 1 else set()
    with TemporaryDirectory() as folder:
        history = observed(Path(folder) / "history", execution, numbered=numbered, cuts=cuts, eps=skew + 1)
        place = {event: history.event(event.id).position for event in execution.done}
        pairs = [(one, other) for one in execution.done for other in execution.done]
        codes = history.relations([place[one] for one, _ in pairs], [place[other] for _, other in pairs])
        for (one, other), code in zip(pairs, codes.tolist(), strict=True):
            truth = true_standing(one, other, recorded, wide, silent)
            assert RELATIONS[code] is truth, (one.id, other.id)
        for one, other in execution.random.sample(pairs, min(len(pairs), 40)):
            truth = true_standing(one, other, recorded, wide, silent)
            assert history.relation(place[one], place[other]) is truth
            explained, related = (ask(place[one], place[other]) for ask in (history.explain, history.related))
            assert explained.relation is related.relation is truth
            by_id = {event.id: event for event in execution.done}
            for step in explained.steps:
                check_step(step, by_id, recorded)
            assert all(step.effect == following.cause for step, following in pairwise(explained.steps))
            assert bool(explained.steps) == (truth not in (Standing.EQUAL, Standing.CONCURRENT, Standing.UNKNOWN))
            if explained.steps:
                first, last = sorted((one, other), key=place.get)
                assert (explained.steps[0].cause.id, explained.steps[-1].effect.id) == (first.id, last.id)
            guessed = [step for step in explained.steps if not step.recorded]
            assert bool(guessed) == (truth is Standing.POSSIBLE)
            assert related.through == (guessed[0] if guessed else None)
            assert bool(related.missing) == (truth is Standing.UNKNOWN)
            assert {gap.process for gap in related.missing} <= silent


@examples(60)
@given(
    seed=st.integers(0, 2**32),
    processes=st.integers(1, 4),
    events=st.integers(1, 45),
    skew=st.integers(0, 20),
    cuts=st.lists(st.integers(1, 110), max_size=3),
)
@example(seed=394, processes=1, events=10, skew=0, cuts=[])
def test_causes_are_recorded_and_possible_ones_are_told_apart(seed, processes, events, skew, cuts):
    """A user would look for a fault among events that only ran in the same process, or never hear of these."""
    execution = Execution(Random(seed), processes=processes, events=events, skew=skew)
    recorded, wide = execution.paths()
    with TemporaryDirectory() as folder:
        history = observed(Path(folder) / "history", execution, numbered=True, cuts=cuts, eps=skew + 1)
        by_id = {event.id: event for event in execution.done}
        position = {event.position: event.id for event in history.order()}
        for event in execution.random.sample(execution.done, min(8, len(execution.done))):
            answer = history.why(event.id, k=1_000, possible=1_000)
            assert {by_id[each.id] for each in answer.causes} == recorded[event]
            assert [each.position for each in answer.causes] == sorted(each.position for each in answer.causes)
            steps = {(by_id[position[each.cause]], by_id[position[each.effect]]): each.kind for each in answer.edges}
            direct = {(cause, each) for each in (event, *recorded[event]) for cause in each.recorded}
            assert steps.keys() <= direct
            for cause, effect in direct - steps.keys():
                # Only a step that others lead around is left out: here, past a line that was waited for.
                assert any(cause in recorded[between] for between, to in steps if to is effect)
            for (cause, effect), kind in steps.items():
                check_step(
                    PathStep(kind, history.event(cause.id), history.event(effect.id), cause.sends), by_id, recorded
                )
            listed = [by_id[each.event.id] for each in answer.possible]
            rest = wide[event] - recorded[event]
            assert len(listed) == len(set(listed))
            assert set(listed) == rest
            assert not answer.more_possible
            for each in answer.possible:
                check_step(each.through, by_id, recorded)
                start, end = by_id[each.through.cause.id], by_id[each.through.effect.id]
                assert by_id[each.event.id] in {start, *recorded[start]}
                assert end in {event, *wide[event]}
            came = history.impact(event.id, k=1_000, possible=1_000)
            assert {by_id[each.id] for each in came.effects} == {
                each for each in execution.done if event in recorded[each]
            }
            assert {by_id[each.id] for each in came.possible} == {
                each for each in execution.done if event in wide[each] - recorded[each]
            }
            assert came.total == len(came.effects) + len(came.possible)
            assert not came.more
            assert not came.more_possible
            assert history.cut(event.id).total == len(wide[event]) + 1
            some = history.impact(event.id, k=1, possible=1)
            assert (some.effects, some.possible) == (came.effects[:1], came.possible[:1])
            assert (some.more, some.more_possible) == (len(came.effects) > 1, len(came.possible) > 1)
            few = history.why(event.id, k=2, possible=1)
            assert [each.id for each in few.causes] == [each.id for each in answer.causes[-2:]]
            assert few.more == (len(answer.causes) > 2)
            assert few.possible == answer.possible[:1]
            assert few.more_possible == (len(rest) > 1)


@examples(60)
@given(
    seed=st.integers(0, 2**32),
    processes=st.integers(2, 4),
    events=st.integers(1, 45),
    skew=st.integers(0, 20),
    cuts=st.lists(st.integers(1, 110), max_size=3),
)
def test_assumed_answers_count_as_recorded_where_one_asks_so(seed, processes, events, skew, cuts):
    """A user who trusts that answers were waited for would still be told that the server only could have led to it."""
    execution = Execution(Random(seed), processes=processes, events=events, skew=skew)
    recorded, wide = execution.paths()
    led: dict[Done, set[Done]] = {}
    for event in execution.done:
        led[event] = {each for cause in (*event.recorded, *event.assumed) for each in (cause, *led[cause])}
    with TemporaryDirectory() as folder:
        history = observed(Path(folder) / "history", execution, numbered=True, cuts=cuts, eps=skew + 1)
        by_id = {event.id: event for event in execution.done}
        for event in execution.random.sample(execution.done, min(6, len(execution.done))):
            answer = history.why(event.id, k=1_000, possible=1_000, answered=True)
            assert {by_id[each.id] for each in answer.causes} == led[event]
            listed = {by_id[each.event.id] for each in answer.possible}
            assert listed == wide[event] - led[event]
            for other in execution.random.sample(execution.done, min(12, len(execution.done))):
                found = history.relation(other.id, event.id, answered=True)
                explained, related = (
                    ask(other.id, event.id, answered=True) for ask in (history.explain, history.related)
                )
                assert found is explained.relation is related.relation
                assert (found is Standing.BEFORE) == (other in led[event])
                assert (found is Standing.AFTER) == (event in led[other])
                for step in explained.steps:
                    check_step(step, by_id, recorded)
                by_process = [step for step in explained.steps if step.kind == "process"]
                assert bool(by_process) == (found is Standing.POSSIBLE)
                assert related.through == (by_process[0] if by_process else None)


def check_step(step: PathStep, by_id: dict[str, Done], recorded: dict[Done, set[Done]]) -> None:
    """A step is what it says."""
    cause, effect = by_id[step.cause.id], by_id[step.effect.id]
    if step.kind in ("line", "start", "join"):
        assert cause in recorded[effect]
        assert cause.process == effect.process
        assert (step.kind == "line") == (cause.line == effect.line)
        if step.kind != "line":
            assert cause in effect.recorded
            assert (step.kind == "join") == (
                effect.line is MAIN
                or any(each.line == effect.line and each.process == effect.process for each in recorded[effect])
            )
    elif step.kind == "message":
        assert cause in effect.recorded
        assert step.message == cause.sends
        assert cause.sends in effect.receives
    elif step.kind == "process":
        assert cause.process == effect.process
        assert cause.number < effect.number
        assert cause not in recorded[effect]
        assert step.apart == effect.time - cause.time
    else:
        assert step.kind == "answer"
        assert cause in effect.assumed


@examples(100)
@given(
    seed=st.integers(0, 2**32),
    processes=st.integers(2, 4),
    events=st.integers(1, 45),
    skew=st.integers(0, 20),
    loss=st.sampled_from((0.05, 0.15, 0.4)),
    cuts=st.lists(st.integers(1, 110), max_size=4),
)
def test_nothing_is_claimed_that_a_lost_report_could_refute(seed, processes, events, skew, loss, cuts):
    """A user would clear the culprit, because the report that leads to it was lost, or blame an innocent."""
    execution = Execution(Random(seed), processes=processes, events=events, skew=skew)
    recorded, wide = execution.paths()
    for event in execution.done:
        # Nobody misses an answer that was not reported.
        event.lost = execution.random.random() < loss and not (event.sends or "").startswith(ANSWER)
    reported = [event for event in execution.done if not event.lost]
    if not reported:
        return
    with TemporaryDirectory() as folder:
        history = observed(Path(folder) / "history", execution, numbered=True, cuts=cuts, eps=skew + 1)
        place = {event: history.event(event.id).position for event in reported}
        pairs = [(one, other) for one in reported for other in reported if one is not other]
        codes = history.relations([place[one] for one, _ in pairs], [place[other] for _, other in pairs])
        for (one, other), code in zip(pairs, codes.tolist(), strict=True):
            if RELATIONS[code] is Standing.BEFORE:
                assert one in recorded[other], (one.id, other.id)
            if RELATIONS[code] is Standing.CONCURRENT:
                assert one not in wide[other], (one.id, other.id)
                assert other not in wide[one], (one.id, other.id)
        for event in execution.random.sample(reported, min(5, len(reported))):
            mine = dict(
                zip(
                    [other for one, other in pairs if one is event],
                    [RELATIONS[code] for (one, _), code in zip(pairs, codes.tolist(), strict=True) if one is event],
                    strict=True,
                )
            )
            answer = history.concurrent(place[event], k=1_000)
            beside = {other.id for other, standing in mine.items() if standing is Standing.CONCURRENT}
            assert {each.id for each in answer.events} == beside
            assert answer.total == len(beside)
            assert answer.unknown == sum(standing is Standing.UNKNOWN for standing in mine.values())
            told = history.why(place[event], k=1)
            assert told.complete == (not told.missing)
            if told.complete:
                assert {each for each in wide[event] if each.lost} == set()
                assert not any(
                    gap.no_messages for other in reported for gap in history.related(place[event], place[other]).missing
                )


@examples(100)
@given(
    seed=st.integers(0, 2**32),
    processes=st.integers(2, 4),
    events=st.integers(1, 45),
    skew=st.integers(0, 20),
    ties=st.sampled_from((0.1, 0.4)),
    cuts=st.lists(st.integers(1, 110), max_size=4),
)
def test_no_cause_is_claimed_from_the_order_of_events_at_one_time(seed, processes, events, skew, ties, cuts):
    """A user would blame an innocent because a coarse clock gave it the same time as what really led to the failure."""
    execution = Execution(Random(seed), processes=processes, events=events, skew=skew, ties=ties)
    recorded, _ = execution.paths()
    with TemporaryDirectory() as folder:
        history = observed(Path(folder) / "history", execution, numbered=False, cuts=cuts, eps=200)
        position = {event.id: event.position for event in history.order()}
        # What a message contradicts, in the order that events at one time were given, is quarantined.
        place = {event: position[event.id] for event in execution.done if event.id in position}
        assert len(place) + len(list(history.quarantine())) == len(execution.done)
        pairs = [(one, other) for one in place for other in place if one is not other]
        codes = history.relations([place[one] for one, _ in pairs], [place[other] for _, other in pairs])
        for (one, other), code in zip(pairs, codes.tolist(), strict=True):
            if RELATIONS[code] is Standing.BEFORE:
                assert one in recorded[other], (one.id, other.id)
        led: dict[Done, set[Done]] = {}
        for event in execution.done:
            led[event] = {each for cause in (*event.recorded, *event.assumed) for each in (cause, *led[cause])}
        for one, other in execution.random.sample(pairs, min(20, len(pairs))):
            if history.relation(place[one], place[other], answered=True) is Standing.BEFORE:
                assert one in led[other], ("who trusts answers trusts no order at one time", one.id, other.id)
        for event in execution.random.sample([*place], min(5, len(place))):
            answer = history.why(place[event], possible=1_000)
            mine = {
                one
                for (one, other), code in zip(pairs, codes.tolist(), strict=True)
                if other is event and code == POSSIBLY_BEFORE
            }
            assert {each.event.id for each in answer.possible} == {each.id for each in mine}
            assert not answer.more_possible


def spoil(execution: Execution, *, numbered: bool, spoilt: float) -> pa.Table:
    """The reports, of which this share is quarantined: events are lost to their processes although something came in."""
    random, rows = execution.random, []
    for event in execution.done:
        row = event.report(numbered=numbered)
        # Nobody misses an answer that was not reported.
        if random.random() >= spoilt or (event.sends or "").startswith(ANSWER):
            rows.append(row)
            continue
        event.lost = True
        how = random.choice(
            ("conflict", "unnumbered", "unreadable", "cut off") if numbered else ("unreadable", "cut off")
        )
        if how == "conflict":
            bare = {**row, "kind": "local", "sends": None, "receives": None, "receives_more": None, "line_joins": None}
            rows += [{**bare, "id": f"not {event.id}", "arrival": 0}, {**row, "arrival": 1}]
        elif how == "unnumbered":
            # The first of all is numbered, or nobody would miss its number.
            rows.append({**row, "seq": None if event.number > 1 else 1})
            event.lost = event.number > 1
        else:
            kept = ("computation", "process", "file", "place", *(("seq", "time") if how == "unreadable" else ()))
            rows.append({name: row[name] for name in kept} | {"reason": "bad-field: x", "text": "{"})
    random.shuffle(rows)
    return pa.Table.from_pylist(rows, REPORTS)


@examples(60)
@given(
    seed=st.integers(0, 2**32),
    processes=st.integers(2, 4),
    events=st.integers(1, 45),
    skew=st.integers(0, 20),
    numbered=st.booleans(),
    spoilt=st.sampled_from((0.05, 0.2)),
    cuts=st.lists(st.integers(1, 110), max_size=4),
)
def test_nothing_is_claimed_that_a_report_quarantined_could_refute(
    seed, processes, events, skew, numbered, spoilt, cuts
):
    """A user would clear the culprit, although a report that leads to it is there, and only could not be used."""
    execution = Execution(Random(seed), processes=processes, events=events, skew=skew)
    _, wide = execution.paths()
    table = spoil(execution, numbered=numbered, spoilt=spoilt)
    reported = [event for event in execution.done if not event.lost]
    if not reported:
        return
    with TemporaryDirectory() as folder:
        observe_cut(Path(folder) / "history", table, cuts, skew + 1)
        history = History(Path(folder) / "history")
        place = {event: history.event(event.id).position for event in reported}
        pairs = [(one, other) for one in reported for other in reported if one is not other]
        codes = history.relations([place[one] for one, _ in pairs], [place[other] for _, other in pairs])
        for (one, other), code in zip(pairs, codes.tolist(), strict=True):
            if RELATIONS[code] is Standing.CONCURRENT:
                assert one not in wide[other], (one.id, other.id)
                assert other not in wide[one], (one.id, other.id)
        for event in execution.random.sample(reported, min(5, len(reported))):
            told = history.why(place[event], k=1)
            assert told.complete == (not told.missing)
            assert not (told.complete and any(each.lost for each in wide[event]))
