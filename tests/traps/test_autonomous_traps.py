"""Each trap that was found in the autonomous causality paper: literally it fails, ours does not."""

from random import Random

import pytest

from ledto.clocks import ClockError, Instance, PaperInstance, PaperStamp, Relation, Retired, relation
from ledto.clocks.autonomous.paper import Endless, ancestors_literally
from ledto.testing.instances import InstanceHistory


def test_A_does_not_terminate_on_a_non_empty_Eq():
    """Definition 5.2 walks from either side of a pair to the other for ever; the closed form needs no walk."""
    left, right = PaperInstance.root().duplicate()
    combined = left.combine(right).stamp
    assert isinstance(ancestors_literally(combined), Endless)
    assert combined.ancestors() == {"0", "00", "00◇", "01"}
    assert ancestors_literally(PaperStamp("010", 1, frozenset())) == {"0", "01", "010"}


def test_the_closed_form_is_exact():
    """Prefixes of I and of every id in Eq: checked with reachability in every pair of random histories."""
    for seed in range(100):
        run = InstanceHistory(PaperInstance.root, Random(seed)).play(live=4, actions=40)
        for a, stamp_a in run.stamps:
            for b, stamp_b in run.stamps:
                assert relation(stamp_a, stamp_b) is run.history.relation(a, b)


def test_definition_4_1_without_virtual_events_misses_relations():
    """An instance that is combined before it has an event of its own passes its parent's past on only by its virtual one."""
    root = PaperInstance.root()
    before = root.event()
    left, right = root.duplicate()
    without_own_events = left.stamp
    assert without_own_events.n == 0
    combined = left.combine(right)
    # Real events only, linked as 4.1 links them: x's last to y's first, where y came of x. `left` has none to link.
    real = {"root": ["before", "duplication"], "left": [], "right": [], "combined": ["combination"]}
    came_of = {"left": ["root"], "right": ["root"], "combined": ["left", "right"]}
    linked = {(real[x][-1], real[y][0]) for y, sources in came_of.items() for x in sources if real[x] and real[y]}
    assert linked == set()
    assert relation(before, combined.stamp) is Relation.BEFORE
    ours = Instance.root()
    first = ours.event()
    one, other = ours.duplicate()
    assert relation(first, one.combine(other).stamp) is Relation.BEFORE


def test_definition_5_2_makes_an_event_concurrent_with_itself():
    """Neither e < e nor e > e, so by the letter e || e; a log that holds an event twice would show a conflict."""
    stamp = PaperInstance.root().event()
    literally_before = stamp.n < stamp.n
    assert not literally_before
    assert relation(stamp, stamp) is Relation.EQUAL
    assert relation(Instance.root().event(), Instance.root("1").event()) is Relation.CONCURRENT


def test_both_sides_of_a_combination_must_not_take_the_same_name():
    """If m and n both go on as m◇, two different events carry one name; here both retire and one goes on."""
    left, right = PaperInstance.root().duplicate()
    twin = PaperInstance("00◇", 1, frozenset({("00", "01")}))
    combined = left.combine(right)
    assert twin.event() == combined.event()  # two events, one stamp
    for side in (left, right):
        with pytest.raises(Retired):
            side.event()
    names = set()
    instances = [Instance.root()]
    random = Random(1)
    for _ in range(300):
        instance = instances.pop(random.randrange(len(instances)))
        if len(instances) > 3 or (instances and random.random() < 0.4):
            instance = instance.combine(instances.pop())
            name = instance.stamp.name
            instances.append(instance)
        else:
            instances += instance.duplicate()
            name = instances[-1].stamp.name
        assert name not in names
        names.add(name)


@pytest.mark.parametrize("root", [Instance.root, PaperInstance.root])
def test_a_retired_instance_refuses_operations(root):
    """A copy that goes on after it was merged would fork history silently."""
    instance = root()
    left, right = instance.duplicate()
    for act in (instance.event, instance.duplicate, lambda: instance.combine(left)):
        with pytest.raises(Retired, match="duplicated"):
            act()
    merged = left.combine(right)
    with pytest.raises(Retired, match="combined"):
        merged.combine(left)
    with pytest.raises(ClockError, match="itself"):
        merged.combine(merged)


def test_several_roots_must_not_all_be_0():
    """Two roots under one name give two events one name; combining them is refused. Under two names all is well."""
    first, second = PaperInstance.root(), PaperInstance.root()
    assert first.event() == second.event()
    clash = Instance.root(), Instance.root()
    assert clash[0].event().name == clash[1].event().name
    with pytest.raises(ClockError, match="same share"):
        clash[0].combine(clash[1])
    phone, laptop = Instance.root("phone"), Instance.root("laptop")
    a, b = phone.event(), laptop.event()
    merged = phone.combine(laptop)
    assert relation(a, b) is Relation.CONCURRENT
    assert relation(a, merged.stamp) is relation(b, merged.stamp) is Relation.BEFORE
    assert set(merged.stamp.past()) == {a.name, b.name}


def test_the_stamp_grows_quadratically_with_joins():
    """A hundred rounds of split and merge: kilobytes in the paper's form, a few bytes in ours."""

    def bytes_after(root, rounds):
        instance = root()
        for _ in range(rounds):
            left, right = instance.duplicate()
            left.event()
            instance = left.combine(right)
        return len(instance.event().to_bytes())

    assert bytes_after(PaperInstance.root, 100) > 3 * bytes_after(PaperInstance.root, 50)
    assert bytes_after(PaperInstance.root, 100) > 2_000
    assert bytes_after(Instance.root, 100) <= 8


def test_a_trace_of_spans_is_this_model():
    """Starting a child span duplicates, its end combines: an asynchronous child that never ends is simply not awaited."""
    request = Instance.root("trace")
    started = request.event()
    request, database = request.duplicate()
    request, mail = request.duplicate()
    query = database.event()
    request = request.combine(database)
    answered = request.event()
    sent = mail.event()
    assert relation(started, query) is relation(query, answered) is Relation.BEFORE
    assert relation(started, sent) is Relation.BEFORE
    assert relation(sent, answered) is relation(sent, query) is Relation.CONCURRENT
