"""Whatever is known to be missing from a process's story is told, and nothing is proved without it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ledto.events.keys import STAMPED
from ledto.events.schema import REPORTS
from ledto.questions import History, Standing
from tests.history.computations import observe_cut


def event(process: str, at: int, name: str, **given: Any) -> dict[str, Any]:
    kind = "receive" if "receives" in given else "send" if "sends" in given else "local"
    common = {"computation": "", "process": process, "time": at, "id": name, "kind": kind, "file": "f", "place": at}
    return common | given


def observed(folder: Path, rows: list[dict[str, Any]], cuts: list[int] | None = None) -> History:
    observe_cut(folder / "history", pa.Table.from_pylist(rows, REPORTS), cuts or [], 5)
    return History(folder / "history")


@pytest.mark.parametrize("cuts", [[], [15], [50]])
def test_of_two_that_sent_a_message_neither_is_recorded_to_have_led_to_its_receive(
    tmp_path: Path, cuts: list[int]
) -> None:
    """Or the one that comes first by its clock is blamed, and what led to the other is cleared."""
    rows = [
        event("c", 10, "c0", sends="q"),
        event("a", 20, "a1", sends="m"),
        event("c", 25, "c1", sends="m"),
        event("b", 80, "b1", receives="m"),
    ]
    history = observed(tmp_path, rows, cuts)
    assert history.relation("a1", "b1") is Standing.POSSIBLE
    assert history.relation("c0", "b1") is Standing.UNKNOWN
    assert [each.message for each in history.why("b1").missing] == ["m"]


def test_a_stamp_hides_no_gap_before_other_events(tmp_path: Path) -> None:
    """One event with a stamp would make ledto blind for all that its process lost."""
    rows = [
        event("a", 5, "a1", sends="s", seq=1),
        event("b", 10, "b1", sends=f"{STAMPED}b 1", seq=1),
        event("b", 30, "b3", seq=3),
        event("c", 40, "c1", receives="s", seq=1),
    ]
    history = observed(tmp_path, rows)
    assert history.relation("a1", "b3") is Standing.UNKNOWN
    assert not history.why("b3").complete


@pytest.mark.parametrize("first", ["e1", "e2"])
def test_what_one_event_misses_all_of_its_time_may_miss(tmp_path: Path, first: str) -> None:
    """Or the order of lines in a file decides whether the culprit is cleared."""
    rows = [
        event("a", 1, "a1", sends="s"),
        event("b", 5, "e1", line="A", place=0 if first == "e1" else 2),
        event("b", 5, "e2", line="B", receives="lost", place=1),
        event("c", 6, "c1", receives="s"),
    ]
    history = observed(tmp_path, rows)
    for name in ("e1", "e2"):
        related = history.related("a1", name)
        assert related.relation is Standing.UNKNOWN
        assert [each.message for each in related.missing] == ["lost"]


@pytest.mark.parametrize("cuts", [[], [25], [35]])
@pytest.mark.parametrize("lost", ["left out", "quarantined"])
def test_a_line_whose_first_report_may_be_lost_is_not_known_to_follow_what_it_names(
    tmp_path: Path, cuts: list[int], lost: str
) -> None:
    """Or a change that came after the request had begun is told to have led to it."""
    first = event("p", 20, "e2", line="L", line_parent="main", seq=2)
    rows = [
        event("p", 10, "e1", line="main", seq=1),
        *([] if lost == "left out" else [{**first, "reason": "bad-field: x", "text": "{"}]),
        event("p", 30, "changed", line="main", seq=3),
        event("p", 40, "e4", line="L", line_parent="main", seq=4),
        event("p", 50, "e5", line="L", seq=5),
    ]
    assert observed(tmp_path, rows, cuts).relation("changed", "e4") is Standing.POSSIBLE
    told = History(tmp_path / "history")
    assert told.relation("changed", "e5") is Standing.POSSIBLE
    assert told.relation("e4", "e5") is Standing.BEFORE
    observe_cut(
        tmp_path / "whole", pa.Table.from_pylist([first, *(r for r in rows if r["id"] != "e2")], REPORTS), cuts, 5
    )
    assert History(tmp_path / "whole").relation("changed", "e5") is Standing.POSSIBLE
    assert History(tmp_path / "whole").relation("e1", "e5") is Standing.BEFORE
