"""`fork_join`: histories that a clock for instances can be run on."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledto.simulation import fork_join
from ledto.simulation.fork_join import EVENT, FORK, JOIN, NO_INSTANCE


@given(operations=st.integers(0, 400), live=st.integers(1, 9), seed=st.integers(0, 2**64 - 1))
def test_only_living_instances_act_and_never_too_many_live(operations: int, live: int, seed: int) -> None:
    """A clock refuses retired instances: a history with one would stop half-way."""
    history = fork_join(operations, live, seed)
    alive, named = {0}, 1
    for kind, takes, takes_too, gives, gives_too in zip(*(column.tolist() for column in history), strict=True):
        assert takes in alive
        if kind == EVENT:
            assert takes_too == gives == gives_too == NO_INSTANCE
        elif kind == FORK:
            assert takes_too == NO_INSTANCE
            assert (gives, gives_too) == (named, named + 1)
            alive = alive - {takes} | {gives, gives_too}
            named += 2
        else:
            assert kind == JOIN
            assert takes_too in alive - {takes}
            assert (gives, gives_too) == (named, NO_INSTANCE)
            alive = alive - {takes, takes_too} | {gives}
            named += 1
        assert 1 <= len(alive) <= live
    assert len(history.kind) == operations


def test_proportions_are_kept_where_they_can_be() -> None:
    """A benchmark of joins needs joins."""
    kinds = fork_join(30_000, 200, 1, events=2, forks=1, joins=1).kind
    for kind, share in ((EVENT, 0.5), (FORK, 0.25), (JOIN, 0.25)):
        assert (kinds == kind).mean() == pytest.approx(share, abs=0.02)
    assert (fork_join(500, 1, 1).kind == EVENT).all()


def test_a_seed_is_a_history() -> None:
    """A failing history must be found again."""
    first, again, other = fork_join(300, 5, 8), fork_join(300, 5, 8), fork_join(300, 5, 9)
    assert all((a == b).all() for a, b in zip(first, again, strict=True))
    assert any(not np.array_equal(a, b) for a, b in zip(first, other, strict=True))


@pytest.mark.parametrize(
    "wrong", [{"live": 0}, {"operations": -1}, {"events": 0, "forks": 0, "joins": 0}, {"forks": -1}]
)
def test_a_refusal_says_what_is_allowed(wrong: dict[str, int]) -> None:
    """Proportions that sum to nothing would never draw an operation."""
    with pytest.raises(ValueError, match="or more"):
        fork_join(**({"operations": 5, "live": 2, "seed": 1} | wrong))
