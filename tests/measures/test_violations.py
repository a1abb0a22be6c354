"""Violations against a naive count over every pair, in histories whose causality is known by reachability."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledto.events.columns import TrueOrder
from ledto.measures.violations import Violations, count_violations


class History:
    """Messages of random processes; each knows the set of messages in its past."""

    def __init__(self, random: Random, processes: int, messages: int) -> None:
        self.senders: list[int] = []
        self.numbers: list[int] = []
        self.pasts: list[set[int]] = []
        knows: list[set[int]] = [set() for _ in range(processes)]
        sent = [0] * processes
        for message in range(messages):
            sender = random.randrange(processes)
            if message and random.random() < 0.7:
                heard = random.randrange(max(0, message - 3 * processes), message)
                knows[sender] |= self.pasts[heard] | {heard}
            sent[sender] += 1
            self.senders.append(sender)
            self.numbers.append(sent[sender])
            self.pasts.append(set(knows[sender]))
            knows[sender].add(message)
        self.processes = processes

    def truth(self, spread: int) -> TrueOrder:
        """The same as vectors; numbers `spread` apart."""
        vector = np.zeros((len(self.senders), self.processes), np.int64)
        for message, past in enumerate(self.pasts):
            for other in (*past, message):
                sender = self.senders[other]
                vector[message, sender] = max(vector[message, sender], self.numbers[other] * spread)
        return TrueOrder(np.array(self.senders, np.int64), np.array(self.numbers, np.int32) * spread, vector)

    def count(self, order: list[int]) -> Violations:
        before, after, pairs = set[int](), set[int](), 0
        for place, effect in enumerate(order):
            for cause in order[place + 1 :]:
                if cause in self.pasts[effect]:
                    before.add(effect)
                    after.add(cause)
                    pairs += 1
        return Violations(len(order), len(before), len(after), len(before | after), pairs)


@st.composite
def deliveries(draw: st.DrawFn) -> tuple[History, TrueOrder, list[int]]:
    random = Random(draw(st.integers(0, 1 << 32)))
    history = History(random, draw(st.sampled_from([1, 2, 3, 9, 20])), draw(st.sampled_from([0, 1, 2, 10, 60])))
    lost = draw(st.sampled_from([0, 0, 0.3]))
    disorder = draw(st.sampled_from([0, 2, 8, 1000]))
    kept = [message for message in range(len(history.senders)) if random.random() >= lost]
    order = sorted(kept, key=lambda message: message + random.randint(0, disorder))
    return history, history.truth(draw(st.sampled_from([1, 1, 70_000_000 // 60]))), order


@given(deliveries())
def test_counts_are_exact(case: tuple[History, TrueOrder, list[int]]) -> None:
    """Every figure drawn from these counts would be wrong."""
    history, truth, order = case
    assert count_violations(truth, np.array(order, np.int64)) == history.count(order)


@pytest.mark.parametrize(("processes", "disorder"), [(2, 1_000_000), (12, 1_000_000), (12, 300)])
def test_long_disordered_orders(processes: int, disorder: int) -> None:
    """Where nearly everything is inverted another algorithm takes over, in mid-run; small cases never reach it."""
    random = np.random.default_rng(processes)
    messages = 12_000
    process = random.integers(0, processes, messages).astype(np.int32)
    seq, vector = np.zeros(messages, np.int64), np.zeros((messages, processes), np.int32)
    now = np.zeros((processes, processes), np.int32)
    for message, sender in enumerate(process):
        heard = max(0, message - int(random.integers(1, 9)))
        now[sender] = np.maximum(now[sender], vector[heard])
        now[sender, sender] += 1
        seq[message], vector[message] = now[sender, sender], now[sender]
    order = np.argsort(np.arange(messages) + random.integers(0, disorder, messages))
    # Most of process 0 is lost, so that vectors know of far more than was delivered.
    order = order[(process[order] != 0) | (seq[order] % 100 < 20) & (order < messages // 2)]
    messages = len(order)
    before, after, pairs = np.zeros(messages, bool), np.zeros(messages, bool), 0
    for place, effect in enumerate(order):
        causes = order[place + 1 :]
        inverted = vector[effect, process[causes]] >= seq[causes]
        before[place] = inverted.any()
        after[place + 1 :] |= inverted
        pairs += int(inverted.sum())
    expected = Violations(messages, before.sum(), after.sum(), (before | after).sum(), pairs)
    assert count_violations(TrueOrder(process, seq, vector), order) == expected


def test_percentages_are_those_of_the_paper() -> None:
    """A figure's axis would show another measure than its label."""
    counts = Violations(messages=200, before_cause=30, after_effect=10, involved=35, pairs=50)
    assert (counts.average_pct, counts.messages_pct, counts.pairs_pct) == (10.0, 17.5, 25.0)
    assert Violations(0, 0, 0, 0, 0).average_pct == 0


def test_orders_that_are_none_are_refused() -> None:
    """Duplicates would be counted as messages, and a wrong column as an order."""
    truth = TrueOrder(np.array([0, 1, 0]), np.array([1, 1, 1]), np.array([[1, 0], [1, 1], [1, 0]]))
    with pytest.raises(ValueError, match="message 1 of process 0 is in the order twice"):
        count_violations(truth, np.array([0, 1, 2]))
    with pytest.raises(ValueError, match="rows 0 to 3; the truth has 3"):
        count_violations(truth, np.array([0, 3]))
    with pytest.raises(ValueError, match="senders are 0 to 0"):
        count_violations(TrueOrder(truth.process, truth.seq, truth.vector[:, :1]), np.array([0, 1]))
