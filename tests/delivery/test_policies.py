"""Policies refuse what they cannot mean, and say what is allowed."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest

from ledto.delivery.policies import CBD, DAPW, POLICIES, Exact, PhysicalAndC, PhysicalOnly, policy_from_name

GOOD = {"phi": 0.4, "eps": 5, "delta": 10}


@pytest.mark.parametrize(
    ("wrong", "allowed"),
    [
        ({"phi": 1.01}, "from 0 to 1"),
        ({"phi": -0.1}, "from 0 to 1"),
        ({"phi": "140%"}, "0% to 100%"),
        ({"phi": "much"}, "from 0 to 1"),
        ({"phi": True}, "from 0 to 1"),
        ({"phi": float("nan")}, "from 0 to 1"),
        ({"phi": Fraction(1, 3)}, "0.333333"),
        ({"eps": -1}, "eps is a whole number from 0"),
        ({"eps": 1.5}, "eps is a whole number"),
        ({"eps": True}, "eps is a whole number"),
        ({"delta": -1}, "delta is a whole number from 0"),
        ({"delta": 1 << 50}, "delta is a whole number from 0 to 4398046511104"),
        ({"elements": 0}, "elements is a whole number from 1 to 6"),
        ({"elements": 7}, "at most eps \\+ 1"),
        ({"elements": 1.0}, "elements is a whole number"),
        ({"unit": "hours"}, "tick, s, ms, us, ns"),
        ({"eps": "5ms", "delta": "10us"}, "different units \\(ms, us\\)"),
        ({"eps": "5ms", "unit": "ns"}, "different units"),
        ({"eps": "5 furlongs"}, "tick, s, ms, us, ns"),
        ({"eps": "five"}, "10ms"),
        ({"colour": "red"}, "it takes phi, eps, delta, elements, unit"),
    ],
)
def test_wrong_values_are_refused(wrong: dict[str, object], allowed: str) -> None:
    """A slip on the command line would choose another trade-off than the one meant, in silence."""
    with pytest.raises(ValueError, match=allowed):
        policy_from_name("cbd", **{**GOOD, **wrong})


def test_wrong_names_are_refused() -> None:
    with pytest.raises(ValueError, match=r"exact, dapw, cbd, physical-only, physical-and-c"):
        policy_from_name("best")
    with pytest.raises(ValueError, match="needs phi, delta"):
        policy_from_name("dapw", eps=3)
    with pytest.raises(ValueError, match=r"physical-only has no option 'elements'"):
        policy_from_name("physical-only", **GOOD, elements=2)


def test_a_name_gives_the_policy_it_means() -> None:
    assert policy_from_name("exact", eps="5ms", delta="10") == Exact(5, 10, unit="ms")
    assert policy_from_name("dapw", **GOOD) == DAPW(Fraction(2, 5), 5, 10)
    assert policy_from_name("cbd", phi="40%", eps="5", delta="10", elements="2") == CBD(0.4, 5, 10, elements=2)
    assert policy_from_name("physical-only", **GOOD, unit="us") == PhysicalOnly("0.4", 5, 10, unit="us")
    assert policy_from_name("physical-and-c", **GOOD) == PhysicalAndC(Decimal("0.40"), 5, 10)
    assert all(policy.name == name for name, policy in POLICIES.items())


def test_a_tenth_is_a_tenth() -> None:
    """Binary fractions would move due times by a tick: 0.1 of 30 ticks is 3, and 0.7 of 10 is 7."""
    assert CBD(0.1, 10, 20).rule().phi_millionths * 30 == 3_000_000
    assert CBD(0.7, 0, 10).rule().phi_millionths * 10 == 7_000_000
