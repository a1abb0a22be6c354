from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
from hypothesis import given, settings

from ledto.questions import RELATIONS, Event, Numbered, Standing
from ledto.questions.history import History
from tests.history.building import UNTIMED, Made
from tests.history.drawing import Drawn, drawn_histories, made

few = settings(max_examples=20)


def positions(events: tuple[Event, ...]) -> list[int]:
    return [event.position for event in events]


def relation_of(first: Made, second: Made) -> Standing:
    if first is second:
        return Standing.EQUAL
    if first.happened_before(second):
        return Standing.BEFORE
    return Standing.AFTER if second.happened_before(first) else Standing.CONCURRENT


@few
@given(drawn_histories)
def test_why_gives_the_last_causes(drawn: Drawn) -> None:
    """A cause left out, or an event that could not have caused the failure, sends its reader the wrong way."""
    with made(drawn) as (history, events):
        for event in events:
            past = [other.position for other in events if other.happened_before(event)]
            for k in (0, 3, len(events)):
                answer = history.why(event.position, k=k)
                assert positions(answer.causes) == past[max(0, len(past) - k) :]
                assert answer.more == (len(past) > k)
                assert answer.event.id == (event.id or event.key)


@few
@given(drawn_histories)
def test_why_with_conditions_gives_the_last_causes_that_meet_them(drawn: Drawn) -> None:
    """A search for the last failing call must not stop at, or step over, another one."""
    with made(drawn) as (history, events):
        process = events[0].process
        for event in events[-2:]:
            past = [other for other in events if other.happened_before(event)]
            wanted = [
                other.position
                for other in past
                if (other.attributes or {}).get("status", 0) >= 4 and other.process == process and other.name == "pay"
            ]
            answer = history.why(event.position, k=2, where="status >= 4", processes=[process], names=["pay"])
            assert positions(answer.causes) == wanted[-2:]
            assert answer.more == (len(wanted) > 2)
            sent = [other.position for other in past if other.kind == "send"]
            assert positions(history.why(event.position, k=3, where="kind = 'send'").causes) == sent[-3:]


@few
@given(drawn_histories)
def test_missing_numbers_are_told(drawn: Drawn) -> None:
    """An answer that hides lost reports would look complete."""
    with made(drawn) as (history, events):
        event = events[-1]
        shown = [other for other in events if other.happened_before(event) or other is event]
        lost: dict[str, int] = {}
        for process in {other.process for other in shown}:
            seqs = [other.seq for other in shown if other.process == process]
            lost[process] = seqs[-1] - seqs[0] + 1 - len(seqs)
        answer = history.why(event.position, k=len(events))
        told = dict.fromkeys(lost, 0)
        for gap in answer.missing:
            assert gap.process is not None
            told[gap.process] += gap.events
        assert told == lost
        filtered = history.why(event.position, k=len(events), where="seq > 0")
        others = {process: n for process, n in lost.items() if process != event.process and n}
        told = {gap.process or "": 0 for gap in filtered.missing}
        for gap in filtered.missing:
            told[gap.process or ""] += gap.events
        assert {process: n for process, n in told.items() if process != event.process} == others


@few
@given(drawn_histories)
def test_impact_counts_all_effects_and_lists_the_first(drawn: Drawn) -> None:
    """What a change broke is underestimated when effects behind another segment are not counted."""
    with made(drawn) as (history, events):
        for event in events:
            future = [other for other in events if event.happened_before(other)]
            answer = history.impact(event.position, k=4)
            assert positions(answer.effects) == [other.position for other in future[:4]]
            assert answer.total == len(future)
            assert answer.more == (len(future) > 4)
            by_process = {each.process: each.events for each in answer.processes}
            processes = {other.process for other in future}
            assert by_process == {name: sum(other.process == name for other in future) for name in processes}


@few
@given(drawn_histories)
def test_relations_are_those_of_happened_before(drawn: Drawn) -> None:
    """Concurrent events shown as ordered are false evidence."""
    with made(drawn) as (history, events):
        count = len(events)
        first, second = np.repeat(np.arange(count), count), np.tile(np.arange(count), count)
        found = [RELATIONS[code] for code in history.relations(first, second)]
        truth = [relation_of(events[one], events[other]) for one, other in zip(first, second, strict=True)]
        assert found == truth
        codes = {(each.computation, each.process): each.code for each in history.processes()}
        numbered = Numbered([codes[e.computation, e.process] for e in events], [e.index for e in events])
        again = history.relations(Numbered(np.array(numbered.process)[first], np.array(numbered.index)[first]), second)
        assert [RELATIONS[code] for code in again] == truth
        for one, other in ((0, count - 1), (count // 2, count - 1), (count - 1, count // 3)):
            assert history.relation(one, other) == relation_of(events[one], events[other])


@few
@given(drawn_histories)
def test_explain_gives_real_steps_from_cause_to_effect(drawn: Drawn) -> None:
    """A path over a message that was never sent would be believed."""
    with made(drawn) as (history, events):
        last = events[drawn.events - 1]
        for event in events[: drawn.events]:
            answer = history.explain(event.position, last.position)
            assert answer.relation == relation_of(event, last)
            if answer.relation is not Standing.BEFORE:
                assert answer.steps == ()
                continue
            assert (answer.steps[0].cause.position, answer.steps[-1].effect.position) == (event.position, last.position)
            assert all(step.effect == following.cause for step, following in pairwise(answer.steps))
            for step in answer.steps:
                cause, effect = events[step.cause.position], events[step.effect.position]
                if step.message is None:
                    assert (cause.process, cause.index < effect.index) == (effect.process, True)
                else:
                    assert cause in effect.causes
                    assert step.message == f"m-{cause.key}"


@few
@given(drawn_histories)
def test_concurrent_counts_exactly_and_lists_the_nearest(drawn: Drawn) -> None:
    """A race is found among these events, so none may be missing."""
    with made(drawn) as (history, events):
        for event in events:
            alike = [
                other.position
                for other in events
                if other.computation == event.computation and relation_of(event, other) is Standing.CONCURRENT
            ]
            answer = history.concurrent(event.position, k=3)
            assert answer.total == len(alike)
            found = positions(answer.events)
            assert set(found) <= set(alike)
            assert found == sorted(found)
            distances = sorted(abs(position - event.position) for position in alike)
            assert sorted(abs(position - event.position) for position in found) == distances[:3]


def check_cut(history: History, events: list[Made], inside: set[int], **asked: int) -> None:
    answer = history.cut(**asked, k=5)
    assert answer.total == len(inside)
    last = {(event.computation, event.process): event.position for event in events if event.position in inside}
    assert positions(answer.last_events) == [last[name] for name in sorted(last)]
    flying = sorted(
        (event.position, cause.position)
        for event in events
        if event.position not in inside
        for cause in event.causes
        if cause.position in inside
    )
    assert answer.in_flight_total == len(flying)
    assert [(each.received.position, each.sent.position) for each in answer.in_flight] == flying[:5]


@few
@given(drawn_histories)
def test_cuts_are_consistent_and_name_every_message_under_way(drawn: Drawn) -> None:
    """A state that the system was never in, or a message overlooked, misleads whoever looks for a deadlock."""
    with made(drawn) as (history, events):
        for event in events:
            past = {other.position for other in events if other is event or other.happened_before(event)}
            check_cut(history, events, past, event=event.position)
        for time in sorted({event.causal_time for event in events} - {UNTIMED})[::3]:
            for moment in (time - 1, time):
                inside = {event.position for event in events if event.causal_time <= moment}
                check_cut(history, events, inside, time=moment)


@few
@given(drawn_histories)
def test_order_gives_every_event_once_and_causes_first(drawn: Drawn) -> None:
    """An export that loses or repeats events at a segment's edge is not the history."""
    with made(drawn) as (history, events):
        found = list(history.order())
        assert [(event.process, event.seq, event.position) for event in found] == [
            (event.process, event.seq, event.position) for event in events
        ]
        assert sum(len(table) for table in history.order_tables()) == len(events)
        assert [json.loads(json.dumps(event.to_json()))["id"] for event in found] == [e.id or e.key for e in events]


@few
@given(drawn_histories)
def test_every_event_is_found_by_each_of_its_names(drawn: Drawn) -> None:
    """An event that is in the history and cannot be asked about is lost."""
    with made(drawn) as (history, events):
        for event in events:
            assert history.event(event.key, computation=event.computation).position == event.position
            assert history.event(f"@{event.position}").position == event.position
            if event.id is not None:
                found = history.event(event.id)
                assert (found.position, found.id) == (event.position, event.id)
                assert history.event(found) == found
