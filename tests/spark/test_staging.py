"""Text that tasks read and write to Parquet: all rows, and counts of them."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ledto.batch.survey import add_counts, count_by_process, counted_columns, survey_from
from ledto.events.schema import COLUMNS, REPORTS
from ledto.history.store import Store
from ledto.sources.inputs import find_inputs
from ledto.spark import read as staging
from ledto.spark.read import Split, stage

ROWS_A_FILE = 30_000


def lines(file: int) -> str:
    """Reports of two computations and three processes, in which some columns are rare, and some lines broken."""
    records = [
        {"computation": "c" if n % 5 else "", "process": f"p{n % 3}", "time": file * 10**6 + n, "name": "é"}
        | ({"seq": n} if n % 2 else {})
        | ({"line": "one"} if n == 7 else {})
        for n in range(1, ROWS_A_FILE + 1)
    ]
    return "".join("rubbish\n" if n == 11 else json.dumps(each) + "\n" for n, each in enumerate(records))


def test_what_a_task_writes_is_what_its_source_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row that is lost between two row groups, or counted wrong, would be missing from the history without a word."""
    monkeypatch.setattr(staging, "GROUP_ROWS", 10_000)
    for file in range(3):
        (tmp_path / f"{file}.jsonl").write_text(lines(file))
    splits = [Split(file, source, 0, None) for file, source in find_inputs([str(tmp_path)]).text]
    expected = pa.Table.from_batches([batch for split in splits for batch in split.read()], REPORTS)
    store = Store(tmp_path / "h")
    done = [stage(splits[:2], 0, store, "staging"), stage(splits[2:], 1, store, "staging")]
    # A task may run twice; only what is given back counts.
    again = stage(splits[2:], 1, store, "staging")
    staged = [each for each in done if each is not None]
    assert again is not None
    assert again.name not in {each.name for each in staged}
    files = [pq.ParquetFile(store.place(f"staging/{each.name}")) for each in staged]
    assert sum(file.metadata.num_row_groups for file in files) > 3
    assert pa.concat_tables([file.read() for file in files]).cast(REPORTS).equals(expected)
    counted = counted_columns(COLUMNS)
    found = survey_from(add_counts([each.counts for each in staged]), counted, window_rows=ROWS_A_FILE)
    assert found == survey_from(count_by_process(expected), counted, window_rows=ROWS_A_FILE)
    assert (found.reports, found.bad, found.computations) == (3 * ROWS_A_FILE, 3, 2)
    assert [(each.name, each.rows, each.processes) for each in found.large] == [
        ("c", 3 * (ROWS_A_FILE - ROWS_A_FILE // 5 - 1), ("p0", "p1", "p2"))
    ]


def test_files_without_reports_leave_nothing(tmp_path: Path) -> None:
    """A Parquet file without rows says no times, and all others would be read the slow way."""
    (tmp_path / "a.jsonl").write_text("\n\n")
    splits = [Split(file, source, 0, None) for file, source in find_inputs([str(tmp_path)]).text]
    assert stage(splits, 0, Store(tmp_path / "h"), "staging") is None
    assert not (tmp_path / "h").exists()
