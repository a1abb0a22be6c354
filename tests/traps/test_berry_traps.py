"""Each trap that was found in Berry's paper: taken literally it fails as described, and ours does not."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from random import Random

import pytest

from ledto.clocks import OrderingClock, OrderingObserver, OrderingStamp, Relation, VectorClock, relation
from ledto.testing import TrueHistory, check_clock


class LiteralSes:
    """Schiper-Eggli-Sandoz with whole vectors on record; the two options take a sentence of the paper literally."""

    def __init__(self, name, *, count_after_copy=False, wait_if_greater=False):
        self.name = name
        self.count_after_copy = count_after_copy
        self.wait_if_greater = wait_if_greater
        self.vector = {}
        self.records = {}

    def send(self, to):
        if not self.count_after_copy:
            self._count()
        stamp = (dict(self.vector), {d: dict(v) for d, v in self.records.items()})
        self.records[to] = dict(self.vector)
        if self.count_after_copy:
            self._count()
        return stamp

    def may_deliver(self, stamp):
        needed = stamp[1].get(self.name, {})
        if self.wait_if_greater:
            return not (at_most(self.vector, needed) and needed != self.vector)
        return at_most(needed, self.vector)

    def deliver(self, stamp):
        vector, records = stamp
        merge(self.vector, vector)
        for to, recorded in records.items():
            if to != self.name:
                merge(self.records.setdefault(to, {}), recorded)
        self._count()

    def _count(self):
        self.vector[self.name] = self.vector.get(self.name, 0) + 1


def at_most(a, b):
    return all(count <= b.get(process, 0) for process, count in a.items())


def merge(into, other):
    for process, count in other.items():
        into[process] = max(into.get(process, 0), count)


def violations(make, seed, *, observer=None, self_sends=False, processes=3, actions=40):
    """Messages delivered before one they depend on, in one random history over a network that reorders."""
    random = Random(seed)
    clocks = {f"p{i}": make(f"p{i}") for i in range(processes)}
    if observer:
        clocks["observer"] = observer("observer")
    senders = [name for name in clocks if name != "observer"]
    truth = TrueHistory()
    last = dict.fromkeys(clocks)
    under_way, delivered, found = [], {name: [] for name in clocks}, 0
    for _ in range(actions):
        if random.random() < 0.5:
            sender = random.choice(senders)
            to = random.choice([name for name in clocks if self_sends or name != sender])
            stamp = clocks[sender].send(to)
            last[sender] = truth.add("send", last[sender])
            under_way.append((to, stamp, last[sender]))
        else:
            ready = [m for m in under_way if clocks[m[0]].may_deliver(m[1])]
            if ready:
                to, stamp, event = message = random.choice(ready)
                under_way.remove(message)
                found += any(other[0] == to and truth.precedes(other[2], event) for other in under_way)
                clocks[to].deliver(stamp)
                if to != "observer":
                    last[to] = truth.add("deliver", last[to], event)
                delivered[to].append(event)
    return found


class Ours:
    """Our ordering clock under the interface of the literal one."""

    def __init__(self, name, make=OrderingClock):
        self.clock = make(name)
        self.ready = {}

    def send(self, to):
        return self.clock.send(to)

    def may_deliver(self, stamp):
        return not self.clock._gaps(self.clock._incoming(stamp))

    def deliver(self, stamp):
        assert self.clock.try_deliver(stamp).gaps == ()


def test_increment_occurs_after_the_copy():
    """Counting after the copy breaks causal order in every fifth of these histories; counting before it never does."""
    histories = 300
    literally = partial(LiteralSes, count_after_copy=True)
    literal = sum(violations(literally, seed) > 0 for seed in range(histories))
    repaired = sum(violations(LiteralSes, seed) for seed in range(histories))
    ours = sum(violations(Ours, seed) for seed in range(histories))
    assert literal > histories * 0.15
    assert repaired == ours == 0


def test_observer_delays_if_greater():
    """An observer that waits only for "greater" stamps lets incomparable ones pass, and shows effects before causes."""
    strict = partial(LiteralSes, wait_if_greater=True)
    histories = range(300)
    assert sum(violations(LiteralSes, seed, observer=strict) for seed in histories) > 0
    assert sum(violations(Ours, seed, observer=partial(Ours, make=OrderingObserver)) for seed in histories) == 0


def test_self_sends_are_unordered():
    """A process that queues work for itself would see it out of order."""
    histories = range(300)
    assert sum(violations(LiteralSes, seed, self_sends=True) for seed in histories) > 0
    assert sum(violations(Ours, seed, self_sends=True) for seed in histories) == 0


def test_recording_only_the_sender_is_sound_and_smaller():
    """The small form must delay the very messages the full vectors delay, and cost fewer bytes."""
    random = Random(1)
    names = [f"p{i}" for i in range(6)]
    literal, ours = {n: LiteralSes(n) for n in names}, {n: OrderingClock(n) for n in names}
    under_way, full_entries, small_entries = [], 0, 0
    for _ in range(3000):
        if random.random() < 0.5 or not under_way:
            a, b = random.sample(names, 2)
            full, small = literal[a].send(b), ours[a].send(b)
            under_way.append((b, full, small))
            full_entries += sum(map(len, full[1].values()))
            small_entries += sum(map(len, small.outstanding.values()))
        else:
            i = random.randrange(len(under_way))
            to, full, small = under_way[i]
            delivered = ours[to].try_deliver(small)
            assert (delivered is not None) == literal[to].may_deliver(full)
            if delivered:
                literal[to].deliver(full)
                del under_way[i]
    assert small_entries < full_entries * 0.7


def test_a_lost_message_blocks_the_traffic_for_ever():
    """Without a time-out, one lost message in thirty stops a good part of all later ones; with it nothing stays blocked."""
    random = Random(2)
    names = ["a", "b", "c", "d"]
    clocks = {n: OrderingClock(n) for n in names}
    blocked, sent = [], 0
    for _ in range(2000):
        a, b = random.sample(names, 2)
        stamp = clocks[a].send(b)
        sent += 1
        if random.random() < 0.03:
            continue
        if clocks[b].try_deliver(stamp) is None:
            blocked.append((b, stamp))
            blocked = [(to, s) for to, s in blocked if clocks[to].try_deliver(s) is None]
    assert len(blocked) > 0.05 * sent
    forced = [clocks[to].deliver(stamp, timeout_s=0) for to, stamp in blocked]
    assert all(d.stamp is not None for d in forced)
    assert any(d.gaps for d in forced)
    assert all(c.waiting == 0 for c in clocks.values())


def test_a_time_out_releases_waiting_predecessors_first():
    """The message that gives up waiting must not overtake one that waits beside it and that it depends on."""
    a, b, c = OrderingClock("a"), OrderingClock("b"), OrderingClock("c")
    lost = a.send("c")
    first = a.send("c")
    b.deliver(a.send("b"))
    second = b.send("c")
    order = []
    with ThreadPoolExecutor(1) as pool:
        waits = pool.submit(lambda: order.append(c.deliver(first, timeout_s=60)))
        while not c.waiting:
            threading.Event().wait(0.001)
        order_of_second = c.deliver(second, timeout_s=0)
        waits.result()
    assert order[0].gaps == (("a", 0, 1),)
    assert order_of_second.gaps == ()
    assert relation(order[0].stamp, order_of_second.stamp) is Relation.BEFORE
    late = c.try_deliver(lost)
    assert late.late
    assert not late.duplicate


def test_a_retry_must_carry_the_same_stamp():
    """A retry with the same stamp is a duplicate; with a new one the receiver delivers the request twice."""
    client, server = OrderingClock("client"), OrderingClock("server")
    stamp = client.send("server")
    assert not server.deliver(stamp).duplicate
    again = server.deliver(OrderingStamp.from_bytes(stamp.to_bytes()))
    assert again.duplicate
    assert again.stamp is None
    assert not server.deliver(client.send("server")).duplicate


def test_inc_merge_and_copy_belong_under_one_lock():
    """Threads of one process must never give two events one stamp, nor a reply that misses its request."""
    clock, peer = VectorClock("server"), VectorClock("client")
    requests = [peer.send() for _ in range(2000)]
    replies = []

    def serve(share):
        for request in share:
            with clock.grouped():
                received = clock.receive(request)
                reply = clock.send()
            replies.append((request, received, reply))

    threads = [threading.Thread(target=serve, args=(requests[i::4],)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({r for _, *both in replies for r in both}) == 2 * len(requests)
    for request, received, reply in replies:
        assert relation(request, reply) is Relation.BEFORE
        assert reply["server"] == received["server"] + 1


def test_a_blocked_delivery_must_not_hold_the_only_worker():
    """With one thread, the waiting message and the one it waits for must both get through."""
    a, b, c = OrderingClock("a"), OrderingClock("b"), OrderingClock("c")
    first = a.send("c")
    b.deliver(a.send("b"))
    second = b.send("c")

    async def serve():
        waiting = asyncio.create_task(c.deliver_async(second, timeout_s=60))
        await asyncio.sleep(0)
        assert c.waiting == 1
        early = await c.deliver_async(first)
        return early, await waiting

    early, waited = asyncio.run(serve())
    assert early.gaps == waited.gaps == ()
    assert relation(early.stamp, waited.stamp) is Relation.BEFORE


@pytest.mark.parametrize("loss", [False, True])
def test_ordering_is_exact_on_random_histories(loss):
    """Every delivery in causal order, every gap and every late message flagged, none else."""
    assert check_clock(OrderingClock, histories=150, seed=1000 * loss) > 10_000
