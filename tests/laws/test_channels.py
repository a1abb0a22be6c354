"""A channel that sends only changes gives the very stamps that whole stamps give, whatever the network does."""

from random import Random

import pytest

from ledto.clocks.channels.end import StaleChannel
from ledto.clocks.channels.ses import OrderingChannel
from ledto.clocks.channels.vector import VectorChannel
from ledto.clocks.ses.clock import OrderingClock
from ledto.clocks.vector.clock import VectorClock

HISTORIES = 150


class Pair:
    """The same processes twice: one set exchanges whole stamps, the other talks through channels."""

    def __init__(self, random: Random, make_clock, make_channel):
        self.names = [f"p{i}" for i in range(random.randint(2, 4))]
        self.make_channel = make_channel
        self.random = random
        self.whole = {n: make_clock(n) for n in self.names}
        self.small = {n: make_clock(n) for n in self.names}
        self.ends = {(a, b): self.new_end(a) for a in self.names for b in self.names if a != b}

    def new_end(self, process):
        return self.make_channel(self.small[process], identity=lambda: self.random.getrandbits(64) or 1)

    def peers(self):
        return self.random.sample(self.names, 2)


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_vector_channels_equal_whole_stamps(seed):
    """Losing this, a saving on the wire would silently forget causes: under loss, duplicates, reordering, restarts."""
    random = Random(seed)
    pair = Pair(random, VectorClock, VectorChannel)
    network = []
    for _ in range(80):
        move = random.random()
        if move < 0.45 or not network:
            a, b = pair.peers()
            network.append((a, b, pair.whole[a].send(), pair.ends[a, b].send()))
        elif move < 0.9:
            i = random.randrange(len(network))
            a, b, stamp, data = network[i] if random.random() < 0.2 else network.pop(i)
            try:
                got = pair.ends[b, a].receive(data)
            except StaleChannel:
                continue  # refused, and so not received on the other side either
            assert got == pair.whole[b].receive(stamp)
        elif move < 0.95:
            network.pop(random.randrange(len(network)))
        else:
            a, b = pair.peers()
            pair.ends[a, b] = pair.new_end(a)


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_ordering_channels_equal_whole_stamps(seed):
    """The same for causal ordering: what waits, what is released, every gap and late flag."""
    random = Random(seed)
    pair = Pair(random, OrderingClock, OrderingChannel)
    network = []
    lossy = seed % 2
    for _ in range(80):
        move = random.random()
        if move < 0.5 or not network:
            a, b = pair.peers()
            network.append((a, b, pair.whole[a].send(b), pair.ends[a, b].send(b)))
        elif lossy and move < 0.55:
            network.pop(random.randrange(len(network)))
        else:
            i = random.randrange(len(network))
            a, b, stamp, data = network[i]
            got, expected = pair.ends[b, a].try_deliver(data), pair.whole[b].try_deliver(stamp)
            if got is None and lossy and random.random() < 0.5:
                got = pair.ends[b, a].deliver(data, timeout_s=0)
                expected = pair.whole[b].deliver(stamp, timeout_s=0)
            assert got == expected
            if got is not None and random.random() < 0.8:
                network.pop(i)
