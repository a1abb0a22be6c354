"""What a page says of an event must be true of the computation."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from ledto.questions import open_history
from ledto.web.gather import Ordering, find_bystanders, gather, read_orderings
from tests.history.building import Made, draw, write_history
from tests.questions.test_model import Execution, observed


def suspects(events: list[Made], focus: Made) -> list[Made]:
    """By wall time before the focus and not its causes, the loud first, then the nearest; from the truth alone."""
    assert focus.time is not None
    found = [
        each
        for each in events
        if each.computation == focus.computation
        and each.time is not None
        and each.time < focus.time
        and not each.happened_before(focus)
    ]
    loud = {True: 0, False: 1}
    return sorted(found, key=lambda each: (loud[is_error(each)], focus.time - each.time, each.position))


def is_error(event: Made) -> bool:
    return event.attributes is not None and event.attributes.get("level") == "ERROR"


@pytest.mark.parametrize("seed", range(4))
def test_bystanders_are_before_by_wall_clock_and_innocent(seed: int, tmp_path: Path) -> None:
    """The page tells a reader to stop suspecting these events: a cause among them would let the culprit go."""
    random = Random(seed)
    one, other = draw(random, "one", 5, 120), draw(random, "other", 3, 60)
    for event in random.sample(one, 12):
        event.attributes = {"level": "ERROR"}
    made = write_history(tmp_path, [(one, [40, 90]), (other, [])], [])
    history = open_history(tmp_path)
    some = 0
    for focus in random.sample([event for event in made if event.time is not None], 25):
        found = find_bystanders(history, history.event(focus.position), 4)
        expected = suspects(made, focus)[:4]
        assert {event.position for event in found} == {event.position for event in expected}
        assert [event.time for event in found] == sorted(event.time for event in expected if event.time is not None)
        some += len(found)
    assert some > 25


def test_gathering_asks_for_the_last_causes(tmp_path: Path) -> None:
    """The diagram's rows are exactly the causes asked for, and the event is not drawn as its own cause."""
    made = write_history(tmp_path, [(draw(Random(1), "", 4, 80), [])], [])
    focus = made[-1]
    causes = [event.position for event in made if event.happened_before(focus)]
    found = gather(open_history(tmp_path), f"@{focus.position}", last=10, beside=2)
    assert found.event.position == focus.position
    assert [event.position for event in found.past] == causes[-10:]
    assert found.ledger["quarantined"] == 1
    assert found.orderings == ()
    picked = gather(open_history(tmp_path), f"@{focus.position}", last=3, where="process = 'p1'").past
    assert [event.position for event in picked] == [place for place in causes if made[place].process == "p1"][-3:]


@pytest.mark.parametrize("seed", range(4))
def test_what_is_only_possible_is_told_apart(seed: int, tmp_path: Path) -> None:
    """A post-mortem would name as the cause what only ran in the same process."""
    execution = Execution(Random(seed), processes=3, events=80, skew=9)
    recorded, wide = execution.paths()
    history = observed(tmp_path / "history", execution, numbered=True, cuts=[60], eps=10)
    done = {event.id: event for event in execution.done}
    possible = 0
    for focus in execution.done[10::7]:
        found = gather(history, focus.id, last=20, beside=5)
        assert {each.id for each in found.past} <= {each.id for each in recorded[focus]}
        assert {each.id for each in found.possible} <= {each.id for each in wide[focus] - recorded[focus]}
        possible += len(found.possible)
        for other in found.bystanders:
            assert done[other.id] not in wide[focus]
            assert found.standings[other.position] is history.relation(other, found.event)
        names = {each.position: each.id for each in (*found.past, *found.possible, found.event, *found.bystanders)}
        assert found.follows is not None
        for position, name in names.items():
            assert found.lines[position] == done[name].line
            direct = {history.event(f"@{each}").id for each in (*found.causes[position], *found.follows[position])}
            said = {*done[name].recorded, *done[name].assumed}
            assert direct <= {each.id for each in said}
            # What others imply need not be drawn.
            implied = {each for other in direct for each in recorded[done[other]]}
            assert {each for each in said if each.id not in direct} <= implied
            assert {each for each, effect in found.assumed if effect == position} == {
                history.event(each.id).position for each in done[name].assumed
            }
    assert possible > 20


def test_what_a_run_measured_is_passed_on() -> None:
    """The table of orders must show the manifest's numbers, and what is not known as not known."""
    wall = {"violations": {"messages": 9, "messages_inverted": 4, "before_cause": 6, "pairs": 20}}
    unknown = {"messages": 9, "messages_inverted": 1, "before_cause": None, "pairs": None, "unknown_because": "late"}
    waits = {"deliveries": 9, "p50": 3, "p95": 4, "p99": 5, "max": 6}
    assert read_orderings(wall, {"cbd-0.1": {"violations": unknown, "delays": waits}}) == (
        Ordering("wall clock", 9, 4, 6, 20, None),
        Ordering("cbd-0.1", 9, 1, None, None, waits),
    )
