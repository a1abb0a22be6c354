"""Row groups that tasks read by themselves give the rows that every other reader gives."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ledto.batch.parquet_windows import File, find_clusters
from ledto.history.window.solve import SegmentWindow
from ledto.sources.files import find_files, open_at
from ledto.sources.parquet import parquet_schema, read_parquet_rows
from tests.sources.parquet_tables import table

OPENER = partial(open_at, compression=None, offset=0)
NOON_NS = 1_714_564_800_123_456_789


def shown(rows: pa.Table) -> list[dict[str, Any]]:
    """The rows in order, without nulls."""
    columns = [name for name in rows.column_names if name != "own"]
    plain = sorted(rows.select(columns).to_pylist(), key=lambda row: row["place"])
    return [{name: value for name, value in row.items() if value is not None} for row in plain]


@pytest.mark.parametrize("unit", ["ns", "us", "ms"])
@pytest.mark.parametrize("precision", ["ms", "us", "ns"])
def test_windows_have_the_rows_of_their_time(tmp_path: Path, unit: str, precision: str) -> None:
    """Rows at a cut would be in no window or in two, or times of a large file count something else than those of a small."""
    per_second = {"ms": 10**3, "us": 10**6, "ns": 10**9}
    for seed in range(20):
        random = Random(seed)
        given = table(random, rows=60)
        start = NOON_NS * per_second[precision] // 10**9
        times = sorted(start + random.randrange(3 * per_second[precision]) for _ in range(60))
        columns = {name: given[name] for name in given.column_names if name not in ("time", "arrival")}
        columns["time"] = pa.array(times, pa.timestamp(precision, "UTC"))
        path = tmp_path / f"{seed}.parquet"
        pq.write_table(pa.table(columns), path, row_group_size=20)
        (file,) = find_files([str(path)], ())
        whole = pa.concat_tables(read_parquet_rows(file, parquet_schema(file, unit)))
        clustered = find_clusters([File(str(path), file.name, f"{seed} {unit}")], OPENER, staged=False, unit=unit)
        assert clustered is not None
        assert [(group.first_row, group.rows) for group in clustered.groups] == [(0, 20), (20, 20), (40, 20)]
        good = [row for row in shown(whole) if "reason" not in row]
        bad = [row for row in shown(whole) if "reason" in row]
        later = [row["time"] for row in good if row["time"] > clustered.groups[0].first_time]
        if not later:
            continue
        cut = random.choice(later)
        eps = random.randrange(per_second[unit])
        found = [clustered.rows(window, eps) for window in (SegmentWindow(None, cut), SegmentWindow(cut, None))]
        for rows, inside in zip(found, (lambda t: t < cut + eps, lambda t: t >= cut - eps), strict=True):  # noqa: B023
            assert [row for row in shown(rows) if "reason" not in row] == [row for row in good if inside(row["time"])]
        own = [shown(rows.filter(rows["own"])) for rows in found]
        assert own[0] + own[1] == sorted(good, key=lambda row: (row["time"] >= cut, row["place"]))
        assert (
            sorted((row for rows in found for row in shown(rows) if "reason" in row), key=lambda r: r["place"]) == bad
        )


def test_processes_are_counted_only_where_no_row_is_bad(tmp_path: Path) -> None:
    """A row that cannot be used would be counted as an event."""
    rows = {"process": ["a", "b", "a", "b"], "time": [1, 2, 3, 4], "name": ["x", "y", "z", "nul\0"], "v": [1, 2, 3, 4]}
    pq.write_table(pa.table(rows), tmp_path / "f.parquet", row_group_size=2)
    clustered = find_clusters([File(str(tmp_path / "f.parquet"), "f", "r")], OPENER, staged=False, unit="ns")
    assert clustered is not None
    assert [clustered.process_rows(group) for group in clustered.groups] == [{"a": 1, "b": 1}, None]


def test_without_times_in_the_footer_nothing_is_clustered(tmp_path: Path) -> None:
    """A task would look for its rows in the wrong row groups."""

    def found(rows: dict[str, Any], **how: Any) -> Any:
        pq.write_table(pa.table(rows), tmp_path / "f.parquet", **how)
        return find_clusters([File(str(tmp_path / "f.parquet"), "f", "r")], OPENER, staged=False, unit="ns")

    assert found({"process": ["a"], "time": [1]}) is not None
    assert found({"process": ["a"], "time": [1]}, write_statistics=False) is None
    assert found({"process": ["a", "a"], "time": [1, None]}) is None
    assert found({"process": ["a"], "seq": [1]}) is None
    old = {"process": ["a"], "time": pa.array([1], pa.timestamp("us"))}
    assert found(old, use_deprecated_int96_timestamps=True) is None
