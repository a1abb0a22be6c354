from __future__ import annotations

import json
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledto.batch.inline import InlineEngine
from ledto.batch.join import EpsTooSmall, Unbalanced
from ledto.events.keys import SPAN
from ledto.events.schema import REPORTS
from ledto.sources.contract import SourceError
from ledto.sources.inputs import find_inputs
from tests.examples import examples
from tests.history.computations import Event, draw, observe_cut, past_of, relations_of, reports, told_of


def name(event):
    return f"{event.process}-{event.number}"


@examples(120)
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
    prefix=st.sampled_from(("", SPAN)),
)
def test_every_cutting_gives_the_true_relations(
    seed, processes, events, skew, loss, copies, numbered, cuts, more_eps, prefix
):
    """A user would get other causes for the same failure, or wrong ones, depending on how the work was spread."""
    random = Random(seed)
    drawn = draw(random, processes=processes, events=events, skew=skew, loss=loss, prefix=prefix)
    table = reports(drawn, random, numbered=numbered, copies=copies)
    if not len(table):
        return
    past = past_of(drawn)
    delivered = [event for event in drawn if not event.lost]
    known = {id(event): name(event) for event in delivered}
    expected = {name(event): {known[each] for each in past[id(event)] if each in known} for event in delivered}
    if not expected:
        return
    corrected = true_corrections(drawn, past)
    told = {name(each): (corrected[id(each)], sorted({*each.lacks})) for each in delivered}
    with TemporaryDirectory() as folder:
        whole = observe_cut(Path(folder) / "whole", table, [], 0)
        order, found = relations_of(whole)
        assert found == expected
        assert told_of(whole) == told
        assert whole.manifest.ledger.duplicate == len(table) - len(set(table["id"].to_pylist()))
        for eps in (more_eps, skew + more_eps):
            try:
                cut = observe_cut(Path(folder) / "cut", table, cuts, eps)
            except (EpsTooSmall, Unbalanced):
                assert eps < skew, "an eps that bounds the difference of the clocks is enough"
                continue
            assert relations_of(cut) == (order, expected)
            assert told_of(cut) == told


def test_a_row_that_is_quarantined_passes_on_its_causes_from_earlier_epochs(tmp_path):
    """Later events of its process lost them where the log was cut: b2 would not have a1, the true cause, before it."""
    rows = [
        {"id": "a1", "process": "a", "time": 0, "kind": "send", "sends": "m"},
        {"id": "c1", "process": "c", "time": 90, "kind": "send", "sends": "k"},
        {"id": "b1", "process": "b", "time": 100, "kind": "receive", "receives": "m", "sends": "k"},
        {"id": "b2", "process": "b", "time": 101, "kind": "local"},
        {"id": "b3", "process": "b", "time": 102, "kind": "receive", "receives": "nobody's"},
    ]
    table = pa.Table.from_pylist([{"computation": "", "file": "f", "place": 0, **row} for row in rows], REPORTS)
    whole, cut = (observe_cut(tmp_path / str(len(cuts)), table, cuts, 5) for cuts in ([], [50]))
    assert relations_of(whole)[1]["b2"] == {"a1"}
    assert relations_of(cut) == relations_of(whole)
    assert told_of(cut) == told_of(whole)
    assert told_of(cut)["b3"][1] == ["nobody's"]


def true_corrections(drawn: list[Event], past: dict[int, set[int]]) -> dict[int, int]:
    """The middle between the latest time in an event's past and the earliest in its future, less its time."""
    time = {id(event): event.time for event in drawn if not event.lost}
    found = {}
    for each, own in time.items():
        latest = max([own, *(time[other] for other in past[each])])
        earliest = min([own, *(other for effect, other in time.items() if each in past[effect])])
        found[each] = (latest + earliest) // 2 - own
    return found


@examples(200)
@given(seed=st.integers(0, 2**32), processes=st.integers(1, 4), events=st.integers(2, 40), skew=st.integers(0, 60))
def test_no_times_that_respect_causality_are_nearer_to_the_clocks(seed, processes, events, skew):
    """A correction that moved more than it must would hide what the clocks did say.

    For a cause that is later than its effect by d, whatever respects causality moves one of the two by d / 2.
    """
    drawn = draw(Random(seed), processes=processes, events=events, skew=skew, loss=0.0)
    past = past_of(drawn)
    time = {id(event): event.time for event in drawn}
    with TemporaryDirectory() as folder:
        told = told_of(observe_cut(Path(folder), reports(drawn, Random(0), numbered=True, copies=0.0), [], 0))
    moved = {id(event): told[name(event)][0] for event in drawn}
    pairs = [(cause, effect) for effect in past for cause in past[effect]]
    assert all(time[cause] + moved[cause] <= time[effect] + moved[effect] for cause, effect in pairs)
    worst = max([time[cause] - time[effect] for cause, effect in pairs], default=0)
    assert max(abs(each) for each in moved.values()) <= max(0, -(-worst // 2))
    involved = {each for pair in pairs if time[pair[0]] > time[pair[1]] for each in pair}
    assert all(moved[each] == 0 for each in moved if each not in involved)


def test_what_does_not_fit_in_memory_is_refused_while_it_is_read(tmp_path):
    """A megabyte of Parquet with a million long names took 4.7 GB in a notebook."""
    lines = (json.dumps({"process": "p" * 1_000, "seq": seq}) + "\n" for seq in range(1, 3_000))
    (tmp_path / "log.jsonl").write_text("".join(lines))
    inputs = find_inputs([str(tmp_path / "log.jsonl")])
    with pytest.raises(SourceError, match="more than 1 MiB of reports, too much for --engine inline"):
        InlineEngine(most_bytes=1 << 20).read(inputs, None, lambda *stage: None)
    assert InlineEngine().read(inputs, None, lambda *stage: None).table.num_rows == 2_999
