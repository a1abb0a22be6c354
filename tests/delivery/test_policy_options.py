"""Policies as a command line writes them."""

from __future__ import annotations

import pytest

from ledto.delivery.policies import CBD, Exact, PhysicalOnly, policies_from_options, read_policies


def test_several_policies_in_ticks() -> None:
    """A wait of milliseconds would be taken as nanoseconds, or rounded to less than the clocks differ by."""
    found = policies_from_options(
        ["exact", "cbd:0.6", "cbd:40%", "physical-only"], phi="0.5", eps=1001, delta=2000, elements=3, tick=100
    )
    assert found == {
        "exact": Exact(11, 20, elements=3),
        "cbd-0.6": CBD(0.6, 11, 20, elements=3),
        "cbd-0.4": CBD(0.4, 11, 20, elements=3),
        "physical-only-0.5": PhysicalOnly(0.5, 11, 20),
    }


@pytest.mark.parametrize(
    ("texts", "told"),
    [
        (
            ["ecxact"],
            "no delivery policy is called 'ecxact'; there are exact, dapw, cbd, physical-only, physical-and-c",
        ),
        (["exact:0.5"], "policy exact .* takes no phi: write exact"),
        (["cbd"], "policy cbd needs phi.*: write cbd:0.6"),
        (["cbd:"], "phi is a fraction of the full wait"),
        (["cbd:1.5"], "phi is a fraction of the full wait"),
        (["cbd:0.5", "cbd:50%"], "policy cbd-0.5 is given twice"),
    ],
)
def test_what_is_refused_says_what_is_allowed(texts: list[str], told: str) -> None:
    """A long run would start under another policy than the one meant."""
    with pytest.raises(ValueError, match=told):
        read_policies(texts)


def test_lengths_that_make_no_policy() -> None:
    """More elements than stamps have, or no tick at all, would only show in the middle of a run."""
    with pytest.raises(ValueError, match="elements is a whole number from 1 to 3"):
        policies_from_options(["exact"], eps=20, delta=0, elements=4, tick=10)
    with pytest.raises(ValueError, match="tick is 1 or more"):
        policies_from_options(["exact"], eps=20, delta=0, tick=0)
