"""Exports that come back as histories: all relations are those of the original, by reachability."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whence.export import FORMATS
from whence.history import History
from whence.sources.otlp import Otlp

from .returning import brought_back, exported, hard_history, parquet_rows, rows_of, same_relations, selections, shiviz

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


def test_what_the_pipeline_makes_of_a_parquet_export(session, tmp_path: Path) -> None:
    """The file goes through `whence observe` as it is, and comes out as the history it was."""
    from tests.spark.running import observe

    with hard_history(11) as (history, events, _, _):
        (tmp_path / "export.parquet").write_bytes(exported(history, "parquet"))
    observe(session, [str(tmp_path / "export.parquet")], tmp_path / "back", unit="ticks")
    assert len(events) > 20
    same_relations(History(tmp_path / "back"), events, clocks=False)
