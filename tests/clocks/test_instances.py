"""Instances: exact, named, and able to list their past; and processes expressed in them."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whence.clocks import (
    AutonomousMessage,
    AutonomousProcess,
    ClockError,
    Instance,
    PaperInstance,
    Relation,
    Retired,
    relation,
)
from whence.clocks.instances import numbers
from whence.testing import History, check_clock


def test_exact_on_random_histories():
    """Forks, joins and losses: the relation of every pair is the true one."""
    assert check_clock(Instance.root, histories=150, processes=6) > 10_000
    assert check_clock(PaperInstance.root, histories=150, processes=6) > 10_000


def test_the_past_is_listed_exactly():
    """Asking what could have caused an event needs no log: its stamp names every event before it, and no other."""
    for seed in range(60):
        random = Random(seed)
        truth, names = History(), {}
        live = [(Instance.root(), None)]

        def note(stamp, *causes, truth=truth, names=names):
            event = truth.add("event", *causes)
            names[event] = stamp.name
            assert set(stamp.past()) == {names[cause] for cause in truth.past(event)}
            assert all(stamp.knows(names[cause]) for cause in truth.past(event))
            return event

        for _ in range(50):
            random.shuffle(live)
            instance, last = live.pop()
            if random.random() < 0.3 and len(live) < 5:
                pair = instance.duplicate()
                event = note(pair[0].stamp, last)
                live += [(each, event) for each in pair]
            elif random.random() < 0.4 and live:
                other, other_last = live.pop()
                combined = instance.combine(other)
                live.append((combined, note(combined.stamp, last, other_last)))
            else:
                live.append((instance, note(instance.event(), last)))
        assert len(set(names.values())) == len(names)


@given(st.sets(st.integers(0, 200)), st.sets(st.integers(0, 200)))
def test_sets_of_numbers_are_sets(a, b):
    """The compact tree against Python's own sets."""

    def tree(wanted):
        used = 0
        for number in wanted:
            used = numbers.use(used, number)
        return used

    both = numbers.union(tree(a), tree(b))
    assert set(numbers.numbers(both)) == a | b
    assert both == tree(a | b)
    assert all(numbers.contains(both, number) == (number in a | b) for number in range(210))
    assert numbers.first_run(both) == next(n for n in range(210) if n not in a | b)


def test_processes_and_messages():
    """The classic model in the autonomous one: sends and receives, reordered and lost, checked with reachability."""
    for seed in range(60):
        random = Random(seed)
        processes = AutonomousProcess.start("a", "b", "c")
        truth, last, inbox, stamps = History(), dict.fromkeys(processes), [], []
        for _ in range(50):
            name = random.choice(list(processes))
            cause = None
            if random.random() < 0.5:
                stamp, message = processes[name].send()
                inbox.append((message, len(truth)))
            elif inbox and random.random() < 0.7:
                message, cause = inbox.pop(random.randrange(len(inbox)))
                stamp = processes[name].receive(AutonomousMessage.from_bytes(message.to_bytes()))
            else:
                stamp = processes[name].local()
            last[name] = truth.add(name, last[name], cause)
            stamps.append(stamp)
        for a, stamp_a in enumerate(stamps):
            for b, stamp_b in enumerate(stamps):
                assert relation(stamp_a, stamp_b) is truth.relation(a, b)


def test_a_message_is_received_once_and_a_process_can_send_for_ever():
    """A duplicate must not count as a second message, and a thousand sends must not use the process up."""
    processes = AutonomousProcess.start("client", "server")
    for _ in range(1_000):
        _, message = processes["client"].send()
        processes["server"].receive(message)
    with pytest.raises(Retired):
        processes["server"].receive(message)
    assert len(processes["server"].local().to_bytes()) < 20
    child = processes["server"].spawn()
    assert relation(message.stamp, child.local()) is Relation.BEFORE


def test_an_instance_taken_over_twice_is_found_when_its_copies_meet():
    """Restored from a backup beside the original: the two must not merge as if nothing had happened."""
    data = Instance.root().duplicate()[0].hand_over()
    one, copy = Instance.take_over(data), Instance.take_over(data)
    with pytest.raises(ClockError, match="handed over twice"):
        one.combine(copy)


def test_an_instance_without_events_has_no_stamp():
    """A root that nothing happened in has nothing to show."""
    with pytest.raises(ClockError, match="event"):
        _ = Instance.root().stamp
