from __future__ import annotations

from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.history.cutting import draw, past_of, relations_of, reports, run_by_hand
from whence.history.joining import EpsTooSmall, Unbalanced


def name(event):
    return f"{event.process}-{event.number}"


@settings(max_examples=120, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    processes=st.integers(1, 5),
    events=st.integers(1, 60),
    skew=st.integers(0, 30),
    loss=st.sampled_from((0.0, 0.0, 0.15)),
    copies=st.sampled_from((0.0, 0.3)),
    numbered=st.booleans(),
    cuts=st.lists(st.integers(1, 150), max_size=4),
    more_eps=st.integers(0, 40),
)
def test_every_cutting_gives_the_true_relations(seed, processes, events, skew, loss, copies, numbered, cuts, more_eps):
    """A user would get other causes for the same failure, or wrong ones, depending on how the work was spread."""
    random = Random(seed)
    drawn = draw(random, processes=processes, events=events, skew=skew, loss=loss)
    table = reports(drawn, random, numbered=numbered, copies=copies)
    if not len(table):
        return
    past = past_of(drawn)
    delivered = [event for event in drawn if event.delivered]
    known = {id(event): name(event) for event in delivered}
    expected = {name(event): {known[each] for each in past[id(event)] if each in known} for event in delivered}
    if not expected:
        return
    with TemporaryDirectory() as folder:
        whole = run_by_hand(Path(folder) / "whole", table, [], 0)
        order, found = relations_of(whole)
        assert found == expected
        assert whole.manifest["ledger"]["duplicate"] == len(table) - len(set(table["id"].to_pylist()))
        for eps in (more_eps, skew + more_eps):
            try:
                cut = run_by_hand(Path(folder) / "cut", table, cuts, eps)
            except (EpsTooSmall, Unbalanced):
                assert eps < skew, "an eps that bounds the difference of the clocks is enough"
                continue
            assert relations_of(cut) == (order, expected)
