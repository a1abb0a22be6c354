"""Every decoder against anything: at least 10,000 random and mutated inputs each, in bytes and in JSON.

What a user would lose: a stamp from a hostile or broken sender crashes the receiver, hangs it, takes its memory, or is read
as something its sender never said.
"""

import copy
import json
import pickle
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledto.clocks import (
    AutonomousStamp,
    BoundedStamp,
    ClockError,
    GlobalStamp,
    HybridStamp,
    Instance,
    IntervalTreeClock,
    IntervalTreeStamp,
    LamportStamp,
    LocalStamp,
    OrderingChannel,
    OrderingClock,
    OrderingStamp,
    PaperInstance,
    PaperStamp,
    StampError,
    VectorChannel,
    VectorClock,
    VectorStamp,
    stamp_from_bytes,
    stamp_from_json,
)
from ledto.testing.groups import GroupHistory, Shape
from ledto.testing.instances import InstanceHistory
from ledto.testing.ordering import OrderingHistory

EXAMPLES, INPUTS_EACH = 130, 80
NAMES = ("a", "bb", "process-1", "process-2", "žluťoučký", "x" * 255)


def counter(random):
    return random.choice((1, 2, 127, 128, 2**31, 2**63 - 1, random.getrandbits(random.randint(1, 62)) + 1))


def vector(random):
    names = random.sample(NAMES, random.randint(0, len(NAMES)))
    return VectorStamp({name: counter(random) for name in names}, complete=random.random() < 0.8)


def ordering(random):
    run = OrderingHistory(OrderingClock, random, loss=0.1).play(processes=3, actions=12)
    stamps = [stamp for _, stamp in run.stamps]
    return random.choice(stamps) if stamps else OrderingClock("p0").send("p1")


def grown(root):
    """Stamps of a short history of forks and joins."""

    def make(random):
        run = InstanceHistory(root, random).play(live=5, actions=30)
        return random.choice([stamp for _, stamp in run.stamps] or [root().event()])

    return make


def two_roots(random):
    """The compact form, sometimes of a computation with more than one root."""
    stamp = grown(Instance.root)(random)
    if random.random() < 0.5:
        return stamp
    phone, laptop = Instance.root("phone"), Instance.root("žluťoučký")
    laptop.event()
    both = phone.combine(laptop)
    for _ in range(random.choice((0, 40))):  # so many that lines are opened
        both, child = both.duplicate()
        if random.random() < 0.1:
            child.event()
            both = both.combine(child)
    return both.event()


def global_group(random):
    """Stamps of one short run of gateways; made once, for they take a simulation."""
    return random.choice(GATEWAY_STAMPS)


GATEWAY_STAMPS = sorted(
    {
        stamp
        for seed in range(5)
        for a, b, _ in GroupHistory(Shape(span=40), Random(seed)).play().global_pairs()
        for stamp in (a, b)
    },
    key=repr,
)

STAMPS = {
    LamportStamp: lambda random: LamportStamp(counter(random), random.choice(NAMES)),
    HybridStamp: lambda random: HybridStamp(counter(random), random.getrandbits(9), random.choice(NAMES)),
    VectorStamp: vector,
    OrderingStamp: ordering,
    BoundedStamp: lambda random: BoundedStamp(
        random.choice(NAMES), counter(random), random.randint(0, 9), tuple(random.getrandbits(4) for _ in range(5))
    ),
    LocalStamp: lambda random: LocalStamp(
        random.choice(NAMES), random.choice(NAMES), random.getrandbits(40), random.getrandbits(20)
    ),
    GlobalStamp: global_group,
    AutonomousStamp: two_roots,
    PaperStamp: grown(PaperInstance.root),
    IntervalTreeStamp: grown(IntervalTreeClock.seed),
}


def mutated(random, data):
    """A valid input with a few bytes changed, lost, doubled or moved."""
    out = bytearray(data)
    for _ in range(random.randint(1, 3)):
        at = random.randrange(len(out) + 1)
        move = random.randrange(5)
        if move == 0 and out:
            out[at % len(out)] = random.getrandbits(8)
        elif move == 1 and out:
            out[at % len(out)] ^= 1 << random.randrange(8)
        elif move == 2:
            del out[at : at + random.randint(1, 4)]
        elif move == 3:
            out[at:at] = random.randbytes(random.randint(1, 4))
        else:
            out[at:at] = out[at : at + random.randint(1, 9)]
    return bytes(out)


@pytest.mark.parametrize("kind", STAMPS, ids=lambda kind: kind.__name__)
@settings(max_examples=EXAMPLES, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_bytes_are_refused_or_read_in_their_one_spelling(kind, seed):
    random = Random(seed)
    valid = STAMPS[kind](random)
    data = valid.to_bytes()
    assert kind.from_bytes(data) == stamp_from_bytes(data) == valid
    for i in range(INPUTS_EACH):
        tried = mutated(random, data) if i % 2 else data[:1] + random.randbytes(random.randint(0, 40))
        try:
            stamp = kind.from_bytes(tried)
        except StampError:
            continue
        assert stamp.to_bytes() == tried
        assert kind.from_json(json.loads(json.dumps(stamp.to_json()))) == stamp
        assert repr(stamp)


def misshapen(random, value, junk):
    """A valid JSON value with one place, at any depth, replaced, repeated or removed."""
    inside = list(value) if isinstance(value, dict) else list(range(len(value))) if isinstance(value, list) else []
    if not inside or random.random() < 0.3:
        wrong = (junk, None, True, -1, 1.5, 2**63, 2**70, "", "x" * 300, [], {}, [value], {"a": value}, str(value))
        return random.choice(wrong)
    place = random.choice(inside)
    changed = value.copy()
    if random.random() < 0.2:
        del changed[place]
    else:
        changed[place] = misshapen(random, value[place], junk)
    return changed


@pytest.mark.parametrize("kind", STAMPS, ids=lambda kind: kind.__name__)
@settings(max_examples=EXAMPLES, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    junk=st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
        max_leaves=8,
    ),
)
def test_json_is_refused_or_read_without_coercion(kind, seed, junk):
    random = Random(seed)
    valid = STAMPS[kind](random)
    form = json.loads(json.dumps(valid.to_json()))
    assert kind.from_json(form) == stamp_from_json(form) == valid
    tries = [junk, {**form, "extra": junk}, *({**form, key: junk} for key in form)]
    tries += [{k: v for k, v in form.items() if k != key} for key in form]
    tries += [misshapen(random, form, junk) for _ in range(INPUTS_EACH)]
    for tried in tries:
        try:
            stamp = kind.from_json(tried)
        except StampError:
            continue
        assert kind.from_json(stamp.to_json()) == stamp


@pytest.mark.parametrize("kind", STAMPS, ids=lambda kind: kind.__name__)
def test_stamps_travel_between_processes_and_clocks_do_not(kind):
    """A stamp in a queue between two Python processes arrives as it was; a clock in it would live twice."""
    for seed in range(20):
        stamp = STAMPS[kind](Random(seed))
        back = pickle.loads(pickle.dumps(stamp))
        assert (back, hash(back), repr(back)) == (stamp, hash(stamp), repr(stamp))
        assert copy.deepcopy(stamp) is copy.copy(stamp) is stamp
    for clock in (VectorClock("a"), OrderingClock("a"), Instance.root(), IntervalTreeClock.seed()):
        for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match="belongs to one process"):
                attempt(clock)


def talking(channel, clock, random, say, hear):
    """Two ends that have exchanged a few messages, and the next message between them."""
    ends = [channel(clock(name), identity=lambda: random.getrandbits(64) or 1) for name in ("a", "b")]
    for i in range(random.randint(0, 3)):
        hear(ends[1 - i % 2], say(ends[i % 2], "ba"[i % 2]))
    return ends, say(ends[0], "b")


CHANNELS = {
    "vector": (VectorChannel, VectorClock, lambda end, _: end.send(), lambda end, data: end.receive(data)),
    "ordering": (OrderingChannel, OrderingClock, lambda end, to: end.send(to), lambda end, data: end.try_deliver(data)),
}


@pytest.mark.parametrize("kind", CHANNELS)
@settings(max_examples=EXAMPLES, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_channel_messages_are_refused_with_a_clock_or_stamp_error(kind, seed):
    """A refused message must also leave the clock as it was: its entry for this process never moves on its own."""
    random = Random(seed)
    channel, clock, say, hear = CHANNELS[kind]
    for _ in range(INPUTS_EACH // 8):
        ends, data = talking(channel, clock, random, say, hear)
        for _ in range(8):
            before = ends[1].clock.stamp
            try:
                hear(ends[1], mutated(random, data))
            except (StampError, ClockError):
                assert ends[1].clock.stamp == before


def test_announced_sizes_are_checked_before_memory_is_taken():
    """Nine bytes that announce billions of entries."""
    for kind, body in ((VectorStamp, b"\xff\xff\xff\xff\x7f"), (BoundedStamp, b"\x01a\x01\x01\xff\xff\xff\xff\x7f")):
        with pytest.raises(StampError):
            kind.from_bytes(bytes([1 << 4 | kind.kind]) + body)
    with pytest.raises(StampError, match="limit"):
        VectorStamp.from_bytes(bytes(2**20 + 1))


@pytest.mark.parametrize("kind", [AutonomousStamp, IntervalTreeStamp])
@pytest.mark.parametrize("bits", [70, 400, 20_000, 8 * 2**18])
def test_a_number_without_end_is_refused(kind, bits):
    """A counter of kilobytes would be accepted, and then break whatever prints or stores it."""
    body = {AutonomousStamp: "0", IntervalTreeStamp: "1"}[kind] + "0" * bits + "1" * (bits + 12)
    size = -(-len(body) // 8)
    with pytest.raises(StampError, match="63"):
        kind.from_bytes(bytes([1 << 4 | kind.kind]) + int(body.ljust(8 * size, "0"), 2).to_bytes(size))


def test_a_whole_instance_is_taken_over_or_refused():
    """An instance that travels as bytes must arrive as it was, or not at all."""
    for seed in range(2_000):
        random = Random(seed)
        left, right = Instance.root(random.choice(("0", "notes"))).duplicate()
        left.event()
        instance = left.combine(right) if seed % 3 == 0 else random.choice((left, right))
        data = instance.hand_over()
        assert Instance.take_over(data).hand_over() == data
        for _ in range(5):
            tried = mutated(random, data)
            try:
                taken = Instance.take_over(tried)
            except StampError:
                continue
            assert taken.hand_over() == tried
