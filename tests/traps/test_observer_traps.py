"""Each trap that was found in the observer paper's time-stamp program: literally it fails, ours does not."""

from dataclasses import dataclass, field
from functools import partial
from random import Random

import pytest

from ledto.clocks import BoundedClock, BoundedFormat, BoundedStamp, StampError, less
from ledto.testing import Drift, TrueHistory, check_clock


@dataclass
class LiteralProgram:
    """Figure 1 of the paper, to the letter: kn has 2 eps elements, and those outside read as zero."""

    eps: int
    rt: int = 0
    r: int = 0
    c: int = 0
    kn: dict = field(default_factory=lambda: {0: 1})

    def event(self, message=None):
        r, c, kn = message or (0, 0, {})
        self.c = max(0, self.r + self.c - self.rt, r + c - self.rt)
        self.kn = {
            t: max(self.kn.get(t + self.rt - self.r, 0), kn.get(t + self.rt - r, 0) if message else 0)
            for t in range(-self.eps, self.eps)
        }
        self.kn[0] += 1
        self.r = self.rt
        return self.r, self.c, dict(self.kn)

    def key(self, stamp, name):
        r, c, kn = stamp
        return (r + c, *(kn.get(c - i, 0) for i in range(self.eps)), name)


def test_a_receive_between_ticks_breaks_less():
    """Sent at reading v + eps, received at v before its tick: the paper's order puts the effect before its cause."""
    sender, receiver = LiteralProgram(3, rt=8), LiteralProgram(3, rt=5)
    sent = sender.event()
    received = receiver.event(sent)
    assert received[1] == 3  # c = eps, though the paper has c < eps
    assert receiver.key(received, "a") < sender.key(sent, "b")

    ours_sent = BoundedClock("b", 3, 5, physical=lambda: 8).send()
    ours_received = BoundedClock("a", 3, 5, physical=lambda: 5).receive(ours_sent)
    assert ours_received.c == 3
    assert less(ours_sent, ours_received)


def test_kn_reaches_n():
    """A field sized for kn < n overflows: n processes with one event a tick reach n, with two events 2 n."""
    n = 4
    for events, most in ((1, n), (2, 2 * n)):
        clocks = [BoundedClock(f"p{i}", 2, 9, physical=lambda: 1) for i in range(n)]
        stamp = None
        for clock in clocks:
            stamp = clock.receive(stamp) if stamp else clock.local()
            for _ in range(events - 1):
                stamp = clock.send()
        assert stamp.kn[0] == most
        names = tuple(f"p{i}" for i in range(n))
        fits = BoundedFormat(2, 9, names, 1, events_per_tick=events)
        assert fits.unpack(fits.pack(stamp), 1) == stamp.first(1)
    with pytest.raises(StampError, match="events_per_tick"):
        BoundedFormat(2, 9, names, 1, events_per_tick=1).pack(BoundedStamp("p0", 1, 0, (2 * n, 0, 0)))


def test_B_of_eps_plus_delta_plus_1_is_too_small():
    """A reader must tell apart every r from delta + eps back to eps ahead; the paper's B maps two of them to one."""
    eps, delta = 4, 6
    layout = BoundedFormat(eps, delta, ("a", "b"), 0)
    spans = range(-eps, delta + eps + 1)
    paper_b = eps + delta + 1
    assert len({(100 - span) % paper_b for span in spans}) < len(spans)
    assert len({(100 - span) % layout.modulus for span in spans}) == len(spans)
    for span in spans:
        stamp = BoundedClock("a", eps, delta, physical=lambda span=span: 100 - span).send().physical_and_c()
        assert layout.unpack(layout.pack(stamp), 100).r == 100 - span


def test_truncating_on_the_wire_or_when_comparing_gives_the_same_order():
    """A mote that sends k elements must get the order that comparing k elements of whole stamps gives."""
    for seed in range(60):
        random = Random(seed)
        k = random.randint(1, 4)
        names = ["a", "b", "c"]
        reading = dict.fromkeys(names, 0)
        readers = {n: partial(reading.__getitem__, n) for n in names}
        whole = {n: BoundedClock(n, 3, 6, physical=read) for n, read in readers.items()}
        cut = {n: BoundedClock(n, 3, 6, physical=read, elements=k) for n, read in readers.items()}
        keys_whole, keys_cut, inbox = [], [], []
        for _ in range(60):
            slowest = min(reading.values())
            reading[random.choice([n for n in names if reading[n] < slowest + 3])] += 1
            name = random.choice(names)
            if inbox and random.random() < 0.5:
                stamp, short = inbox.pop(random.randrange(len(inbox)))
                if stamp.r < reading[name] - 6:
                    continue
                a, b = whole[name].receive(stamp), cut[name].receive(short)
            else:
                a, b = whole[name].send(), cut[name].send()
                inbox.append((a, b))
            keys_whole.append(a.first(k).sort_key())
            keys_cut.append(b.sort_key())
        assert keys_whole == keys_cut


def test_less_never_contradicts_causality_and_c_stays_within_eps():
    """Any history within the bounds, several events a tick, receives between ticks."""
    largest = {}

    class Watched(BoundedClock):
        def _event(self, heard):
            stamp = super()._event(heard)
            largest[self.eps] = max(largest.get(self.eps, 0), stamp.c)
            return stamp

    for eps, delta in ((0, 2), (1, 1), (4, 2), (3, 9)):

        def make(name, physical, eps=eps, delta=delta):
            return Watched(name, eps, delta, physical=physical)

        check_clock(make, histories=60, drift=Drift(eps, delta), actions=60)
    assert largest == {0: 0, 1: 1, 4: 4, 3: 3}


def test_history_truth_is_reachability():
    """The judge of all these tests, judged by hand: a diamond and a stranger."""
    truth = TrueHistory()
    top = truth.add("top")
    left, right = truth.add("left", top), truth.add("right", top)
    bottom = truth.add("bottom", left, right)
    stranger = truth.add("stranger")
    assert truth.past(bottom) == {top, left, right}
    assert truth.relation(left, right).name == "CONCURRENT"
    assert truth.relation(stranger, bottom).name == "CONCURRENT"
    assert truth.relation(bottom, top).name == "AFTER"
