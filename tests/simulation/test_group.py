"""HCG's structured group: stamps by hand, and the ratios that Figure 8's text states."""

from __future__ import annotations

import numpy as np
import pytest

from ledto.simulation import GroupMessages, SimulatedGroup, ordered_ratios, simulate_group
from ledto.simulation.group import GATEWAY


def stamps_by_hand(messages: GroupMessages, processes: int) -> tuple[list[int], list[list[int]]]:
    """LT and VT of every message from sends and receipts in time order, with pasts as sets."""
    count = len(messages.sender)
    receipts = [(int(messages.received[m]), 0, m) for m in range(count)]
    sends = [(int(messages.sent[m]), 1, m) for m in range(count)]
    linear = [0] * processes
    past: list[set[int]] = [set() for _ in range(processes)]
    sent_linear = [0] * count
    sent_past: list[set[int]] = [set()] * count
    for _, is_send, m in sorted(receipts + sends):
        if is_send:
            process = int(messages.sender[m])
            linear[process] += 1
            past[process].add(m)
            sent_linear[m], sent_past[m] = linear[process], set(past[process])
        else:
            process = int(messages.recipient[m])
            linear[process] = max(linear[process], sent_linear[m])
            past[process] |= sent_past[m]
    counted = [[sum(int(messages.sender[c]) == j for c in causes) for j in range(processes)] for causes in sent_past]
    return sent_linear, counted


@pytest.mark.parametrize(("gap", "gaps"), [(300, "exponential"), (4_000, "exponential"), (700, "periodic")])
def test_stamps_are_those_of_the_history(gap: int, gaps: str) -> None:
    """Every curve of Figure 8 compares these stamps."""
    group = SimulatedGroup(gap, delay=1_000, messages=60, gaps=gaps)  # type: ignore[arg-type]
    messages = simulate_group(group, 5)
    linear, vector = stamps_by_hand(messages, group.processes)
    assert messages.linear.tolist() == linear
    assert messages.vector.tolist() == vector
    assert (messages.sender != messages.recipient).all()
    assert (messages.received - messages.sent == 1_000).all()
    assert (messages.recipient == GATEWAY).sum() >= 60


def test_the_stated_ratios_are_met() -> None:
    """HCG's case: 15-20% fewer messages ordered than by LT, twice as many as by VT, 35 points too many."""
    ratios = ordered_ratios(simulate_group(SimulatedGroup(6_000), 1))
    assert 0.15 <= 1 - ratios.hcg / ratios.linear <= 0.20
    assert 1.8 <= ratios.hcg / ratios.vector <= 2.2
    assert 0.33 <= ratios.hcg - ratios.vector <= 0.37


def test_gaps_are_exponential() -> None:
    """Gaps of another shape do not meet the stated ratios; three moments and the tail tell the shape."""
    messages = simulate_group(SimulatedGroup(10_000, messages=30_000), 3)
    gaps = np.concatenate([np.diff(messages.sent[messages.sender == j]) for j in range(4)]) / 10_000
    assert gaps.mean() == pytest.approx(1, abs=0.01)
    assert (gaps**2).mean() == pytest.approx(2, abs=0.05)
    assert (gaps > 2).mean() == pytest.approx(np.exp(-2), abs=0.005)
    assert (gaps > 0.5).mean() == pytest.approx(np.exp(-0.5), abs=0.005)


def test_periodic_sends_are_periodic() -> None:
    """The option would otherwise compare exponential gaps with themselves."""
    messages = simulate_group(SimulatedGroup(700, messages=50, gaps="periodic"), 3)
    for j in range(4):
        assert set(np.diff(messages.sent[messages.sender == j]).tolist()) == {700}


def test_runs_repeat_and_bad_parameters_do_not_run() -> None:
    """A figure is its seed; a wrong parameter must not become a figure."""
    again = [simulate_group(SimulatedGroup(500, messages=40), 9) for _ in range(2)]
    assert all((a == b).all() for a, b in zip(*again, strict=True))
    with pytest.raises(ValueError, match="gap must be an integer from 1"):
        SimulatedGroup(0)
    with pytest.raises(ValueError, match="'exponential' or 'periodic'"):
        SimulatedGroup(5, gaps="uniform")  # type: ignore[arg-type]
