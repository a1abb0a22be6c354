"""Exports that come back as histories: all relations are those of the original, by reachability."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from ledto.export import FORMATS, Selection, choose
from ledto.questions import RELATIONS, History
from ledto.sources.otlp import Otlp
from tests.export.returning import (
    brought_back,
    exported,
    hard_history,
    parquet_rows,
    rows_of,
    same_relations,
    selections,
    shiviz,
)
from tests.questions.test_model import Execution, observed

seeds = st.integers(0, 2**32)


def rows_back(format: str, data: bytes, *, several: bool) -> pa.Table:
    if format == "parquet":
        return parquet_rows(data)
    regex = FORMATS[format].regex
    return rows_of(Otlp() if regex is None else shiviz(regex, several=several), data)


@pytest.mark.parametrize("format", ["shiviz", "govector", "otlp", "parquet"])
@settings(max_examples=10)
@given(seed=seeds)
def test_what_comes_back_says_what_the_history_says(format: str, seed: int) -> None:
    """Whoever looks at an export sees the true causes, however names are written and whatever is left out."""
    with hard_history(seed) as (history, events, random, folder):
        for number, (selection, kept) in enumerate(selections(history, events, random)):
            several = len({event.computation for event in kept}) > 1
            rows = rows_back(format, exported(history, format, selection=selection), several=several)
            back = brought_back(folder / f"back {number}", rows)
            same_relations(back, kept, clocks=FORMATS[format].regex is not None)


@pytest.mark.parametrize("format", ["otlp", "parquet"])
@settings(max_examples=25)
@given(
    seed=seeds,
    processes=st.integers(1, 4),
    loss=st.sampled_from((0.0, 0.1)),
    numbered=st.booleans(),
    cuts=st.lists(st.integers(1, 110), max_size=3),
)
def test_lines_come_back(format: str, seed: int, processes: int, loss: float, numbered: bool, cuts: list[int]) -> None:
    """What only shared a process would come back as a cause, or a cause as an accident, or a doubt as a certainty."""
    execution = Execution(Random(seed), processes=processes, events=45, skew=12)
    for event in execution.done:
        event.lost = execution.random.random() < loss
    with TemporaryDirectory() as folder:
        history = observed(Path(folder) / "history", execution, numbered=numbered, cuts=cuts, eps=13)
        for number, selection in enumerate(parts_of(history, execution.random)):
            data = exported(history, format, selection=selection)
            back = brought_back(Path(folder) / f"back {number}", rows_back(format, data, several=False))
            compare(history, back, whole=selection.whole)


def parts_of(history: History, random: Random) -> Iterator[Selection]:
    """All of it, some of its processes, and what led to an event."""
    yield choose(history)
    names = [each.process for each in history.processes()]
    yield choose(history, processes=random.sample(names, random.randint(1, len(names))))
    yield choose(history, around=f"@{random.randrange(len(history))}", k=random.randint(0, 12))


def compare(history: History, back: History, *, whole: bool) -> None:
    """Compare how all pairs of events stand. Of a part less may be certain, and nothing else may be said."""
    found = [*back.order()]
    place = np.array([history.event(event.id).position for event in found])
    before, after = standings(history)[np.ix_(place, place)], standings(back)
    for first, second in np.ndindex(*after.shape):
        was, now = RELATIONS[before[first, second]], RELATIONS[after[first, second]]
        less_certain = not whole and now == "unknown" and was not in ("before", "after")
        assert before[first, second] == after[first, second] or less_certain, (
            found[first].id,
            found[second].id,
            was,
            now,
        )


def standings(history: History) -> NDArray[np.int8]:
    """How every event stands to every other, by position."""
    every = np.indices((len(history), len(history)))
    return history.relations(every[0].ravel(), every[1].ravel()).reshape(len(history), len(history))


def test_what_the_pipeline_makes_of_a_parquet_export(session, tmp_path: Path) -> None:
    """The file goes through `ledto observe` as it is, and comes out as the history it was."""
    from tests.spark.running import observe

    with hard_history(11) as (history, events, _, _):
        (tmp_path / "export.parquet").write_bytes(exported(history, "parquet"))
    observe(session, [str(tmp_path / "export.parquet")], tmp_path / "back", unit="ticks")
    assert len(events) > 20
    same_relations(History(tmp_path / "back"), events, clocks=False)
