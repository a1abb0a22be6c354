"""What a `Model` refuses, and the delays it draws from."""

from __future__ import annotations

from math import ceil, floor
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

from ledto.simulation import Bursts, Delay, Model, Relays, closest, literal
from ledto.simulation.draws import DRAWS


@pytest.mark.parametrize(
    ("wrong", "allowed"),
    [
        ({"processes": 1}, "processes must be an integer from 2"),
        ({"eps": 0}, "eps must be an integer from 1"),
        ({"delta": 2.5}, "delta must be an integer from 1"),
        ({"rate": 0.0}, "rate must be a probability above 0"),
        ({"rate": 1.1}, "up to 1"),
        ({"loss": 1.0}, "loss must be a probability from 0 and below 1"),
        ({"messages": True}, "messages must be an integer from 1"),
        ({"recipients": "some"}, "recipients must be 'all' or 'one', not 'some'"),
        ({"rounding": "off"}, "rounding must be 'down' or 'nearest' or 'up'"),
        ({"delay": Delay.custom(11, 1)}, "the mean runs from 0 to delta = 10"),
        ({"delay": Delay.custom(5, float("nan"))}, "standard deviation is 0 or more"),
    ],
)
def test_a_refusal_says_what_is_allowed(wrong: dict[str, Any], allowed: str) -> None:
    """A typo in a study would otherwise run for minutes and measure another system."""
    parameters: dict[str, Any] = {"processes": 3, "eps": 5, "delta": 10, "rate": 0.1}
    with pytest.raises(ValueError, match=allowed.replace("*", "\\*")):
        Model(**(parameters | wrong))


@pytest.mark.parametrize(
    "make", [lambda: Bursts(0, 0.5, 2), lambda: Bursts(0.5, 2, 2), lambda: Bursts(0.5, 0.5, 0), lambda: Relays(0)]
)
def test_extensions_refuse_too(make: Any) -> None:
    """A relay that never forwards, or a burst that never ends, would hang a run."""
    with pytest.raises(ValueError, match="must be"):
        make()


def test_the_presets_differ_where_the_paper_is_silent() -> None:
    """A study that names a reading must get that reading, whatever the defaults become."""
    near, plain = closest(3, 5, 10, 0.1, messages=7), literal(3, 5, 10, 0.1, messages=7)
    assert (near.recipients, near.delays, near.arrives_by) == ("all", "shared", "most_advanced")
    assert (plain.recipients, plain.delays, plain.arrives_by) == ("one", "independent", "sender")
    assert near.messages == plain.messages == 7


@pytest.mark.parametrize("rounding", ["down", "nearest", "up"])
@pytest.mark.parametrize("delay", [Delay.half, Delay.quarter, Delay.custom(0.8, 2.5)])
def test_delays_follow_the_truncated_normal(delay: Delay, rounding: Any) -> None:
    """Delays from another distribution would move every curve."""
    delta = 10
    mean, sd = map(float, delay.ticks(delta))
    normal = NormalDist(mean, sd)
    reach = {"down": 1.0, "nearest": 0.5, "up": 0.0}[rounding]
    share = (delay.last_draws(delta, rounding) + 1.0) / DRAWS
    for d in range(delta + 1):
        expected = (normal.cdf(min(d + reach, delta)) - normal.cdf(0)) / (1 - normal.cdf(0))
        assert share[d] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(("rounding", "ticks"), [("down", floor(3.4)), ("nearest", 3), ("up", ceil(3.4))])
def test_a_constant_delay_is_constant(rounding: Any, ticks: int) -> None:
    """A spread of 0 is the simplest experiment, and the one where a normal's formula divides by 0."""
    last = Delay.custom(3.4, 0).last_draws(5, rounding)
    assert np.flatnonzero(last == -1).tolist() == list(range(ticks))
    assert (last[ticks:] == DRAWS - 1).all()
