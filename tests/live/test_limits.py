"""What one sender may cost everybody is bounded, and no name is harmful."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ledto.events.schema import REPORTS
from ledto.history.recorded import recorded_past
from ledto.live import LiveHistory, LiveLimits, LiveWriter
from tests.live.streams import BASE, HOUR, MS, terms

HOSTILE = ("t", "t (late)", "t (late 2)", f"t (late {'1' * 5_000})", "t (late) (reported)", "../../t", "t\x00u", "/")


def reports(*rows: dict[str, Any], at: int = 0) -> pa.Table:
    common = {"computation": "", "process": "p", "kind": "local", "file": "f"}
    given = [
        {**common, "time": BASE + (at + n) * MS, "arrival": BASE + (at + n) * MS, "place": at + n, **row}
        for n, row in enumerate(rows)
    ]
    return pa.Table.from_pylist(given, REPORTS)


def told(folder: Path) -> tuple[list[tuple[str, str]], list[str]]:
    """Computation and process of every delivery, and the codes of what is quarantined."""
    live = LiveHistory(folder)
    log = live.deliveries(0)
    quarantined = [str(each.reason) for each in live.current().quarantine(outcome=None)]
    return list(zip(log["computation"].to_pylist(), log["process"].to_pylist(), strict=True)), quarantined


@pytest.mark.parametrize("sort", ["processes", "computations"])
def test_what_is_new_is_refused_once_there_is_as_much_as_may_be(tmp_path: Path, sort: str) -> None:
    """One request with 100,000 names asked for 37 GiB at every start: what is known goes on, and a raised limit lets in."""
    column = "process" if sort == "processes" else "computation"
    names = [f"n{number}" for number in range(8)]
    given, history = terms(close_rows=4), str(tmp_path / "h")
    for start, limit, chosen in ((0, 3, names), (20, 3, names), (40, 5, names[:5])):
        with LiveWriter(history, given, LiveLimits(**{sort: limit})) as writer:
            writer.step(reports(*({column: name} for name in chosen), at=start), now=BASE + 60 * MS, positions={})
    with LiveWriter(history) as writer:
        writer.step(REPORTS.empty_table(), now=BASE + HOUR)
    delivered, quarantined = told(tmp_path / "h")
    assert sorted(each[column == "process"] for each in delivered) == sorted([*names[:3] * 3, "n3", "n4"])
    refused = [each for each in quarantined if each.startswith("too-many-")]
    assert len(refused) == 10
    assert all(each.startswith(f"too-many-{sort}: ") and f"raise --most-{sort}" in each for each in refused)


@pytest.mark.parametrize("on_lines", [True, False])
def test_every_name_is_a_name(tmp_path: Path, on_lines: bool) -> None:
    """A computation called "t (late 111...)" made committed state unreadable; one called "t (late)" was taken for t's."""
    history = str(tmp_path / "h")
    given = terms(close_rows=2)
    for start in (0, 10_000):
        with LiveWriter(history, given) as writer:
            named = [{"computation": name, "process": name, "line": name if on_lines else None} for name in HOSTILE]
            writer.step(reports(*named, at=start), now=BASE + (start + 10) * MS, positions={})
        with LiveWriter(history) as writer:
            writer.step(REPORTS.empty_table(), now=BASE + (start + 5_000) * MS)
    with LiveWriter(history) as writer:
        writer.step(REPORTS.empty_table(), now=BASE + HOUR)
    delivered, quarantined = told(tmp_path / "h")
    assert quarantined == []
    assert sorted(process for _, process in delivered) == sorted([*HOSTILE, *HOSTILE])
    assert {computation for computation, _ in delivered} == {*HOSTILE}
    run = LiveHistory(tmp_path / "h").current().run
    for position in range(len(HOSTILE) * 2):
        before = np.unique(np.concatenate(list(recorded_past(run, np.array([position])))))
        assert len(before) == 1 + position % 2, "the second event of each follows the first, and nobody else's"
    assert {path.parent.parent.name for path in (tmp_path / "h").rglob("*.parquet")} == {"runs"}
