"""Instances: exact, named, and able to list their past; and processes expressed in them."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledto.clocks import (
    AutonomousMessage,
    AutonomousProcess,
    ClockError,
    Instance,
    IntervalTreeClock,
    PaperInstance,
    Relation,
    Retired,
    relation,
)
from ledto.clocks.autonomous import names as numbers
from ledto.simulation import fork_join
from ledto.simulation.fork_join import EVENT, FORK
from ledto.testing import TrueHistory, check_clock


@pytest.mark.parametrize("halvings", [numbers.HALVINGS, 1])
def test_exact_on_random_histories(halvings, monkeypatch):
    """Forks, joins and losses: the relation of every pair is the true one, also where new lines are opened."""
    monkeypatch.setattr(numbers, "HALVINGS", halvings)
    assert check_clock(Instance.root, histories=150, processes=6) > 10_000
    assert check_clock(PaperInstance.root, histories=150, processes=6) > 10_000


@pytest.mark.parametrize("halvings", [numbers.HALVINGS, 1])
def test_the_past_is_listed_exactly(halvings, monkeypatch):
    """Asking what could have caused an event needs no log: its stamp names every event before it, and no other."""
    monkeypatch.setattr(numbers, "HALVINGS", halvings)
    for seed in range(60):
        random = Random(seed)
        truth, names = TrueHistory(), {}
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
        truth, last, inbox, stamps = TrueHistory(), dict.fromkeys(processes), [], []
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


def test_a_copy_of_a_message_is_refused():
    """A transport that delivers twice must not make two receipts of one message."""
    processes = AutonomousProcess.start("client", "server")
    _, first = processes["client"].send()
    data = first.to_bytes()
    processes["server"].receive(AutonomousMessage.from_bytes(data))
    known = processes["server"].local()
    with pytest.raises(Retired, match="copy"):
        processes["server"].receive(AutonomousMessage.from_bytes(data))
    after = processes["server"].local()
    assert set(after.past()) == {*known.past(), known.name}
    forgetful = AutonomousProcess(Instance.root("r"), remember=1)
    for _, message in (processes["client"].send(), processes["client"].send()):
        forgetful.receive(message)
    assert relation(known, forgetful.receive(AutonomousMessage.from_bytes(data))) is Relation.CONCURRENT


@pytest.mark.parametrize("children", [10, 100, 1_000])
def test_one_instance_starts_any_number_of_others(children):
    """A server forks for each client, a span for each child; the next thousand reuse the names of the last."""
    parent, sizes = Instance.root(), []
    for _ in range(3):
        born, stamps = [], []
        for _ in range(children):
            parent, child = parent.duplicate()
            born.append(child)
        for child in born:
            stamps.append(child.event())
            assert stamps[-1].name.number < 2**63
        assert len({stamp.name for stamp in stamps}) == children
        assert all(relation(stamps[0], stamp) is Relation.CONCURRENT for stamp in stamps[1:])
        for child in born:
            parent = parent.combine(child)
        assert all(relation(stamp, parent.stamp) is Relation.BEFORE for stamp in stamps)
        sizes.append(len(parent.stamp.to_bytes()))
    assert sizes[2] < sizes[0] + 50
    assert sizes[2] < 10 * children


def test_an_instance_takes_little_more_room_than_its_stamp():
    """Moving an instance must not cost twice what stamping does."""
    random = Random(5)
    live = [Instance.root()]
    for _ in range(600):
        random.shuffle(live)
        instance = live.pop()
        if len(live) < 4 and random.random() < 0.5:
            live += instance.duplicate()
        else:
            live.append(instance.combine(live.pop()) if live else instance)
    for instance in live:
        stamp = len(instance.stamp.to_bytes())
        assert len(instance.hand_over()) <= stamp + 20


@pytest.mark.parametrize(("live", "times"), [(4, 2), (8, 3), (16, 3)])
def test_names_cost_at_most_three_times_the_smallest_stamp(live, times):
    """After a thousand joins; the paper's own form takes 100,000 bytes and more by then."""
    history = fork_join(9_000, live, seed=1)
    ours, theirs = {0: Instance.root()}, {0: IntervalTreeClock.seed()}
    ours_bytes = theirs_bytes = joins = 0
    for kind, takes, takes_too, gives, gives_too in zip(*(column.tolist() for column in history), strict=True):
        if kind == EVENT:
            stamps = ours[takes].event(), theirs[takes].event()
        elif kind == FORK:
            other = theirs[takes].event()
            ours[gives], ours[gives_too] = ours.pop(takes).duplicate()
            theirs[gives], theirs[gives_too] = theirs.pop(takes).fork()
            stamps = ours[gives].stamp, other
        else:
            ours[gives] = ours.pop(takes).combine(ours.pop(takes_too))
            theirs[gives] = theirs.pop(takes).join(theirs.pop(takes_too))
            stamps = ours[gives].stamp, theirs[gives].event()
            joins += 1
            if joins == 1_000:
                break
        ours_bytes += len(stamps[0].to_bytes())
        theirs_bytes += len(stamps[1].to_bytes())
    assert joins == 1_000
    assert ours_bytes <= times * theirs_bytes


def test_an_instance_taken_over_twice_is_found_when_its_copies_meet():
    """Restored from a backup beside the original: the two must not merge as if nothing had happened."""
    data = Instance.root().duplicate()[0].hand_over()
    one, copy = Instance.take_over(data), Instance.take_over(data)
    with pytest.raises(ClockError, match="handed over twice"):
        one.combine(copy)


def test_a_root_cannot_pose_as_a_line():
    """A line is named after the event that opened it; a root of that name would give its events other events' names."""
    with pytest.raises(ClockError, match="no '/'"):
        Instance.root("0/17")


def test_an_instance_without_events_has_no_stamp():
    """A root that nothing happened in has nothing to show."""
    with pytest.raises(ClockError, match="event"):
        _ = Instance.root().stamp
