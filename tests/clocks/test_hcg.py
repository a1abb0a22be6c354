"""HCG groups against true happened-before, and what their processes refuse."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from threading import Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledto.clocks.hcg.gateway import Gateway
from ledto.clocks.hcg.member import GroupMember
from ledto.clocks.hcg.rules import NetworkBounds, SentLocally, may_precede, vt_less
from ledto.clocks.hcg.stamps import GlobalStamp, LocalStamp
from ledto.clocks.hcg.structure import Group, Subgroup
from ledto.errors import ClockDrift, ClockError, StampError
from ledto.testing.groups import GroupHistory, GroupRun, random_shape
from ledto.testing.truth import TrueHistory
from tests.examples import examples

FUZZ = examples(500)


def runs(count: int, *, span: int = 45) -> list[GroupRun]:
    return [GroupHistory(random_shape(seed, span=span), Random(seed)).play() for seed in range(count)]


# --- the guarantee, on whole histories -------------------------------------------------------------------------------


def test_no_message_is_stamped_as_if_its_cause_could_not_be_one():
    """Otherwise "surely concurrent" would be a lie, and a search for causes would drop the true one."""
    true_pairs = concurrent = needless = 0
    for run in runs(60):
        for a, b, precedes in run.global_pairs():
            if precedes:
                true_pairs += 1
                assert vt_less(a.vt, b.vt), f"{a!r} happened before {b!r}"
                assert a.may_precede(b), f"{a!r} happened before {b!r}"
                assert not b.may_precede(a)
                assert not a.surely_concurrent(b)
            else:
                concurrent += a.surely_concurrent(b)
                needless += a.may_precede(b)
    assert true_pairs > 10_000
    # A rule that orders everything would pass the above: most of what is not causal must be told as such.
    assert concurrent > 4 * needless


def test_no_local_event_is_stamped_as_if_its_cause_could_not_be_one():
    """Otherwise members of one subgroup would take an effect for concurrent with its cause."""
    true_pairs = told_apart = needless = 0
    for run in runs(30, span=15):
        for a, b, precedes in run.local_pairs():
            may = run.group.may_precede(a, b)
            if precedes:
                true_pairs += 1
                assert may, f"{a!r} happened before {b!r}"
                assert a.order_key() < b.order_key()
            else:
                told_apart += not may
                needless += may
    assert true_pairs > 10_000
    assert told_apart > 2 * needless


def test_every_gateway_delivers_every_message_once_and_after_its_causes():
    """Otherwise a member could see an answer before its question, or a message twice, or never."""
    for run in runs(60):
        for name, relayed in run.relays.items():
            others = {i for i, m in enumerate(run.sent) if m.forwarded is not None and m.forwarded.subgroup != name}
            assert sorted(relayed) == sorted(others)
            for position, later in enumerate(relayed):
                for earlier in relayed[:position]:
                    assert not run.messages.precedes(run.sent[later].event, run.sent[earlier].event)


def test_both_rules_see_the_same_history():
    """Otherwise the two could not be compared, and an experiment would measure the dice."""
    shape = random_shape(1)
    sound, literal = (GroupHistory(shape, Random(7), rules=rules).play() for rules in ("sound", "literal"))
    assert sound.stamped == literal.stamped
    assert sound.relays == literal.relays
    assert [m.forwarded and m.forwarded.number for m in sound.sent] == [
        m.forwarded and m.forwarded.number for m in literal.sent
    ]


def test_the_rules_order_a_recorded_trace_between_truth_and_linear_time():
    """The model of section 4: Figure 8 needs HCG to order no less than the truth and no more than LT."""
    random, delta, history = Random(3), 10, TrueHistory()
    lt, last = dict.fromkeys("gstu", 0), dict.fromkeys("gstu")
    agenda = [(random.expovariate(0.1), "send", p, None) for p in "gstu"]
    sent: list[tuple[int, SentLocally, int]] = []
    while len(sent) < 400:
        agenda.sort(key=lambda item: item[0])
        now, what, process, message = agenda.pop(0)
        if what == "send":
            lt[process] += 1
            last[process] = history.add("send", last[process])
            target = random.choice([p for p in "gstu" if p != process])
            arrival = int(now) + delta
            ts, tr = (int(now) if process == "g" else None), (arrival if target == "g" else None)
            sent.append((last[process], SentLocally(process, int(now), lt[process], ts, tr), lt[process]))
            agenda += [(arrival, "receive", target, sent[-1]), (now + random.expovariate(0.1), "send", process, None)]
        else:
            lt[process] = max(lt[process], message[2])
            last[process] = history.add("receive", last[process], message[0])
    ordered = {"truth": 0, "hcg": 0, "lt": 0}
    for a, sent_a, _ in sent:
        for b, sent_b, _ in sent:
            truth, hcg, linear = (
                history.precedes(a, b),
                may_precede(sent_a, sent_b, NetworkBounds(skew=0, delta=delta)),
                sent_a.lt < sent_b.lt,
            )
            assert truth <= hcg <= linear
            ordered = {name: ordered[name] + said for name, said in zip(ordered, (truth, hcg, linear), strict=True)}
    assert ordered["truth"] < ordered["hcg"] < ordered["lt"]


# --- one small group, by hand ----------------------------------------------------------------------------------------


class World:
    """Two subgroups whose clocks the test sets: a, b with gateway x in X, and c with gateway y in Y."""

    def __init__(self, *, max_delay_ns: int | None = None, skew: str = "pairwise", tau_ns: int = 2) -> None:
        self.now = 1_000
        self.group = Group(
            {
                "X": Subgroup(gateway="x", members=("a", "b"), delta_ns=5, max_delay_ns=max_delay_ns),
                "Y": Subgroup(gateway="y", members=("c",), delta_ns=5, max_delay_ns=None),
            },
            tau_ns=tau_ns,
            skew=skew,
        )
        self.a, self.b, self.c = (GroupMember(p, self.group, physical=lambda: self.now) for p in "abc")

    def gateway(self, name: str, **limits: int) -> Gateway:
        return Gateway(name, self.group, physical=lambda: self.now, elapsed=lambda: self.now, **limits)

    def forward(self, gateway: Gateway, member: GroupMember) -> GlobalStamp:
        stamp = member.send()
        self.now += 5
        return gateway.receive_local(stamp)[0].stamp


def test_a_message_waits_for_its_causes_and_the_gap_is_named():
    """A lost message must neither be skipped in silence nor leave the operator without its number."""
    world = World()
    x, y = world.gateway("X"), world.gateway("Y")
    first, second, third = (world.forward(x, world.a) for _ in range(3))
    assert y.receive_global(third) == y.receive_global(second) == y.receive_global(second) == []
    assert y.missing() == {"X": (0, 2)}
    assert [relay.origin for relay in y.receive_global(first)] == [first, second, third]
    assert y.missing() == {}
    assert y.receive_global(first) == y.receive_global(third) == []


def test_waiting_messages_are_bounded_and_the_refused_one_can_come_again():
    """A peer that lost a message must not fill the memory of every other gateway."""
    world = World()
    x, y = world.gateway("X"), world.gateway("Y", waiting_limit=1)
    first, second, third, _, fifth = (world.forward(x, world.a) for _ in range(5))
    y.receive_global(second)
    with pytest.raises(ClockError, match="sent again"):
        y.receive_global(third)
    assert [relay.origin for relay in y.receive_global(first)] == [first, second]
    assert [relay.origin for relay in y.receive_global(third)] == [third]
    assert y.receive_global(first) == []  # a duplicate takes no place
    assert y.receive_global(fifth) == []


def test_the_log_is_bounded():
    """A gateway runs for years; its memory must not grow with what it has forwarded."""
    world = World()
    x, y = world.gateway("X"), world.gateway("Y", log_limit=4)
    for _ in range(50):
        y.receive_global(world.forward(x, world.a))
        world.forward(y, world.c)
    assert y.logged == 2 * 4


def test_a_held_message_goes_out_after_the_cause_that_it_overtook():
    """Local networks let an answer overtake its question; the stamps must not follow suit."""
    world = World(max_delay_ns=20)
    x = world.gateway("X")
    question = world.a.send()
    world.now += 5
    world.b.receive(question)
    answer = world.b.send()
    world.now += 5
    assert x.receive_local(answer) == []
    assert x.next_release_ns == world.now + 16
    world.now += 10  # the question's last moment
    assert x.receive_local(question) == []
    world.now = x.next_release_ns
    forwards = x.release()
    assert [forward.local for forward in forwards] == [question, answer]
    assert vt_less(forwards[0].stamp.vt, forwards[1].stamp.vt)
    assert x.next_release_ns is None


def test_local_messages_taken_twice_are_forwarded_once():
    """A local network that repeats a message must not make two of it for the whole group."""
    world = World()
    x = world.gateway("X")
    stamp = world.a.send()
    world.now += 5
    assert len(x.receive_local(stamp)) == 1
    assert x.receive_local(stamp) == []


def refusals() -> dict[str, tuple[type[ClockError], str, Callable[[World], object]]]:
    def overtaken(world: World) -> object:
        x, early, late = world.gateway("X"), world.a.send(), world.a.send()
        world.now += 5
        x.receive_local(late)
        return x.receive_local(early)

    def slow(world: World) -> object:
        x, stamp = world.gateway("X"), world.a.send()
        world.now += 23
        return x.receive_local(stamp)

    def went_back(world: World) -> object:
        world.a.send()
        world.now -= 1
        return world.a.send()

    def elapsed_went_back(world: World) -> object:
        x = Gateway("X", world.group, physical=lambda: 2_000, elapsed=iter((9, 8)).__next__)
        x.release()
        return x.release()

    def forgotten(world: World) -> object:
        y = world.gateway("Y")
        return y.receive_global(GlobalStamp("X", (("X", 1, 1), ("Y", 1, 1))))

    def two_with_one_number(world: World) -> object:
        y = world.gateway("Y")
        y.receive_global(GlobalStamp("X", (("X", 2, 2),)))
        return y.receive_global(GlobalStamp("X", (("X", 3, 2),)))

    gone = 1 << 62
    return {
        "ahead": (ClockDrift, "ahead", lambda w: w.a.receive(LocalStamp("X", "b", w.now - 2, 1))),
        "ahead at the gateway": (
            ClockDrift,
            "ahead",
            lambda w: w.gateway("X").receive_local(LocalStamp("X", "b", w.now - 2, 1)),
        ),
        "slow": (ClockDrift, "max_delay_ns", slow),
        "went back": (ClockDrift, "went back", went_back),
        "elapsed went back": (ClockDrift, "went back", elapsed_went_back),
        "overtaken": (ClockError, "overtake", overtaken),
        "other subgroup": (ClockError, "through the gateways", lambda w: w.a.receive(w.c.send())),
        "stranger": (ClockError, "not a process of X", lambda w: w.a.receive(LocalStamp("X", "z", 1, 1))),
        "LT out of reach": (ClockError, "counting", lambda w: w.a.receive(LocalStamp("X", "b", 1, gone))),
        "VT out of reach": (
            ClockError,
            "counting",
            lambda w: w.gateway("Y").receive_global(GlobalStamp("X", (("X", gone, 1),))),
        ),
        "own global": (
            ClockError,
            "itself",
            lambda w: w.gateway("X").receive_global(GlobalStamp("X", (("X", 1, 1),))),
        ),
        "own local": (
            ClockError,
            "gateway itself",
            lambda w: w.gateway("X").receive_local(LocalStamp("X", "x", 1, 1)),
        ),
        "unknown subgroup": (
            ClockError,
            "no subgroup Z",
            lambda w: w.gateway("X").receive_global(GlobalStamp("Z", (("Z", 1, 1),))),
        ),
        "forgotten": (ClockError, "lost its state", forgotten),
        "two with one number": (ClockError, "one number", two_with_one_number),
        "compared across subgroups": (
            ClockError,
            "global stamps",
            lambda w: w.group.may_precede(w.a.send(), w.c.send()),
        ),
        "gateway as member": (ClockError, "use Gateway", lambda w: GroupMember("x", w.group)),
    }


@pytest.mark.parametrize("case", refusals())
def test_what_would_make_stamps_wrong_is_refused(case: str):
    """A broken bound or a lost state must stop the stamps, not bend them."""
    error, says, act = refusals()[case]
    world = World(max_delay_ns=20 if case == "slow" else None)
    with pytest.raises(error, match=says):
        act(world)


def test_bounds_are_refused_beyond_equality_only():
    """A bound met exactly is kept: refusing it would stop a healthy group."""
    world = World(max_delay_ns=20)
    world.a.receive(LocalStamp("X", "b", world.now - 3, 1))
    world.gateway("X").receive_local(LocalStamp("X", "b", world.now - 22, 1))
    utc = World(skew="utc")
    before = utc.a.send()
    utc.now -= 4
    after = utc.a.send()
    assert after.rt_ns == before.rt_ns
    utc.now -= 1
    with pytest.raises(ClockDrift):
        utc.a.send()


def test_a_refused_stamp_changes_nothing():
    """A peer with a broken clock must not be able to push ours ahead."""
    world = World()
    before = world.a.local()
    with pytest.raises(ClockDrift):
        world.a.receive(LocalStamp("X", "b", world.now + 100, 50))
    assert world.a.local().lt == before.lt + 1


@pytest.mark.parametrize(
    "build",
    [
        lambda: Group({}, tau_ns=0),
        lambda: Group({"X": Subgroup("x", ("a",), 0, None)}, tau_ns=-1),
        lambda: Group({"X": Subgroup("x", ("a",), 0, None)}, tau_ns=0, skew="utcs"),
        lambda: Group({"X": Subgroup("x", ("a",), 0, None)}, tau_ns=0, rules="printed"),
        lambda: Group({"X": Subgroup("x", ("a",), 0, None), "Y": Subgroup("y", ("a",), 0, None)}, tau_ns=0),
        lambda: Subgroup("x", (), 0, None),
        lambda: Subgroup("x", ("a",), -1, None),
        lambda: Subgroup("x", ("a",), 5, 4),
        lambda: World().gateway("X", log_limit=0),
    ],
)
def test_a_group_that_makes_no_sense_is_not_built(build: Callable[[], object]):
    """A process in two subgroups, or a negative bound, would make every later stamp wrong."""
    with pytest.raises(ValueError, match=r"\w"):
        build()


def test_threads_share_a_gateway_without_losing_a_number():
    """Two messages with one number would be taken for one by every other gateway."""
    world = World()
    x = world.gateway("X")
    stamps = {p: [LocalStamp("X", p, world.now - 5, lt) for lt in range(1, 300)] for p in "ab"}
    got: list[int] = []

    def feed(process: str) -> None:
        for stamp in stamps[process]:
            got.extend(forward.stamp.number for forward in x.receive_local(stamp))

    threads = [Thread(target=feed, args=(p,)) for p in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(got) == list(range(1, 599))


# --- stamps as bytes and JSON ----------------------------------------------------------------------------------------

names = st.text(min_size=1, max_size=5).filter(lambda s: s.isprintable())
counters = st.integers(0, (1 << 63) - 1) | st.integers(0, 300)
local_stamps = st.builds(LocalStamp, names, names, counters, counters)


@st.composite
def global_stamps(draw: st.DrawFn) -> GlobalStamp:
    known = draw(st.dictionaries(names, st.tuples(counters, st.integers(1, (1 << 63) - 1)), min_size=1, max_size=6))
    return GlobalStamp.of(draw(st.sampled_from(sorted(known))), known)


stamps = local_stamps | global_stamps()


def test_the_wire_form_is_pinned():
    """Another version of the program must be able to read the stamps of this one."""
    assert LocalStamp("G", "p", 300, 5).to_bytes() == b"\x19\x01G\x01p\xac\x02\x05"
    assert GlobalStamp("H", (("G", 2, 3), ("H", 1, 7))).to_bytes() == b"\x1a\x02\x01G\x02\x03\x01H\x01\x07\x01"


@FUZZ
@given(stamp=stamps)
def test_stamps_survive_bytes_and_json(stamp: LocalStamp | GlobalStamp):
    """A stamp that changes on the way changes what could have caused what."""
    kind = type(stamp)
    assert kind.from_bytes(stamp.to_bytes()) == stamp
    again = kind.from_json(json.loads(json.dumps(stamp.to_json())))
    assert again == stamp
    assert hash(again) == hash(stamp)


@FUZZ
@given(stamp=stamps, data=st.data())
def test_bytes_are_read_in_one_spelling_or_refused(stamp: LocalStamp | GlobalStamp, data: st.DataObject):
    """Hostile or damaged bytes must neither crash a gateway nor be read as another stamp."""
    raw = bytearray(stamp.to_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(raw) - 1)) if raw else 0
        raw[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=3))
    for kind in (LocalStamp, GlobalStamp):
        try:
            read = kind.from_bytes(bytes(raw))
        except StampError:
            continue
        assert read.to_bytes() == raw


@FUZZ
@given(raw=st.binary(max_size=40), kind=st.sampled_from((LocalStamp, GlobalStamp)))
def test_random_bytes_are_refused_with_a_stamp_error(raw: bytes, kind: type[LocalStamp] | type[GlobalStamp]):
    """As above, from nothing: the first byte is set so that the reader gets past it."""
    raw = bytes((0x10 | kind.kind,)) + raw
    try:
        read = kind.from_bytes(raw)
    except StampError:
        return
    assert read.to_bytes() == raw


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3) | st.integers(), inner, max_size=3),
    max_leaves=6,
)


@FUZZ
@given(stamp=stamps, data=st.data())
def test_json_is_read_or_refused_with_a_stamp_error(stamp: LocalStamp | GlobalStamp, data: st.DataObject):
    """A report with a damaged stamp is kept aside by its StampError; anything else would stop the pipeline."""
    form = stamp.to_json()
    form[data.draw(st.sampled_from(sorted(form)))] = data.draw(json_values)
    if "vt" in form and data.draw(st.booleans()):
        form["vt"] = (
            data.draw(st.dictionaries(st.sampled_from(sorted(stamp.vt)) | names, json_values, max_size=3))
            if stamp.vt
            else {}
        )
    for value in (form, data.draw(json_values)):
        try:
            read = type(stamp).from_json(value)
        except StampError:
            continue
        assert type(stamp).from_json(read.to_json()) == read


@pytest.mark.parametrize(
    "entries",
    [
        (("H", 1, 1), ("G", 1, 1)),
        (("G", 1, 1), ("G", 1, 1)),
        (("G", 1, 1), ("H", 0, 0)),
        (("H", 1, 1),),
        (("G", 1, 0),),
        (),
    ],
)
def test_a_global_stamp_has_one_form(entries: tuple[tuple[str, int, int], ...]):
    """Equal knowledge in two forms would be two stamps, and a duplicate would pass for a new message."""
    with pytest.raises(StampError):
        GlobalStamp("G", entries)


def test_stamps_read_well():
    """They are read in logs by people."""
    assert repr(LocalStamp("tokyo", "p", 300, 5)) == "tokyo/p@5 at 300ns"
    assert repr(GlobalStamp("osaka", (("osaka", 4, 7), ("tokyo", 2, 3)))) == "osaka#7<osaka:4 tokyo:2>"
