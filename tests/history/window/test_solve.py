"""Windows, one at a time: which rows are quarantined, and which stay."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from ledto.events.keys import STAMPED
from ledto.events.schema import REPORTS
from ledto.history.window.solve import SegmentWindow, solve


def reports(*rows: dict[str, Any]) -> pa.Table:
    common = {"computation": "", "kind": "local", "file": "log"}
    return pa.Table.from_pylist([{**common, "place": at, **row} for at, row in enumerate(rows)], REPORTS)


def quarantined_codes(*rows: dict[str, Any]) -> dict[int, str]:
    """Give by row the code of the reason why it is quarantined."""
    table = reports(*rows)
    names = sorted({row["process"] for row in rows})
    found = solve(table, names, SegmentWindow()).quarantined
    return {row: reason.partition(":")[0] for row, reason in zip(found.rows, found.reasons, strict=True)}


def test_what_contradicts_itself_is_quarantined_and_nothing_else() -> None:
    """If too much is quarantined, the failure itself is lost; if too little, answers rest on contradictions."""
    cycle = [
        {"process": "a", "seq": 1, "receives": "y"},
        {"process": "a", "seq": 2, "sends": "x"},
        {"process": "b", "seq": 1, "receives": "x"},
        {"process": "b", "seq": 2, "sends": "y"},
        {"process": "c", "seq": 1, "receives": "y"},
    ]
    assert quarantined_codes(*cycle) == {0: "cycle", 2: "cycle"}
    assert quarantined_codes({"process": "a", "seq": 1, "sends": "m", "receives": "m"}) == {0: "cycle"}
    twice = [{"process": name, "time": time, "sends": "m"} for name, time in (("a", 5), ("b", 3))]
    assert quarantined_codes(*twice, {"process": "c", "time": 9, "receives": "m"}) == {0: "sent-twice"}
    assert quarantined_codes({"process": "a", "seq": 1, "name": "x"}, {"process": "a", "seq": 1, "name": "y"}) == {
        1: "conflict"
    }
    assert quarantined_codes({"process": "a", "seq": 1}, {"process": "a", "seq": 1}) == {1: "duplicate"}
    assert quarantined_codes({"process": "a", "time": 1}, {"process": "a", "time": 1}) == {}
    assert quarantined_codes({"process": "a", "seq": 1}, {"process": "a", "time": 2}) == {1: "no-seq"}
    assert quarantined_codes(
        {"process": "a", "time": -(1 << 63)}, {"process": "a", "time": (1 << 63) - 1}
    ) == dict.fromkeys((0, 1), "absurd-time")
    assert quarantined_codes({"process": "a", "seq": 0}, {"process": "a", "seq": -5}) == dict.fromkeys(
        (0, 1), "bad-seq"
    )


def test_what_is_quarantined_is_quarantined_once() -> None:
    """A report that is broken and came twice would be counted twice: no account is right then, and no run commits."""
    table = reports(
        {"process": "mixed", "time": 5},
        {"process": "mixed", "time": 6},
        {"process": "mixed", "seq": 14},
        *[{"process": "zero", "seq": 0}] * 2,
        *[{"process": "huge", "seq": (1 << 62) + 1}] * 2,
        {"process": "late", "seq": 1, "time": 7},
        {"process": "late", "seq": 1, "time": (1 << 62) + 1},
        {"process": "sender", "seq": 1, "time": 1, "sends": "x"},
        {"process": "both", "seq": 1, "time": 2, "receives": "y", "sends": "x"},
        {"process": "both", "seq": 2, "time": 3, "sends": "y"},
    )
    found = solve(table, sorted(set(table["process"].to_pylist())), SegmentWindow())
    assert sorted([*found.quarantined.rows, *found.table_rows.tolist()]) == list(range(len(table)))
    codes = {
        row: reason.partition(":")[0]
        for row, reason in zip(found.quarantined.rows, found.quarantined.reasons, strict=True)
    }
    assert codes == {0: "no-seq", 1: "no-seq", **dict.fromkeys(range(3, 7), "bad-seq"), 8: "absurd-time", 10: "cycle"}


def test_an_event_stays_although_its_cause_is_missing() -> None:
    """A lost report of a send took the receive with it: perhaps the very failure that is asked about."""
    rows = [
        {"process": "a", "seq": 1, "receives": "m", "receives_more": ["n", f"{STAMPED}b:7"]},
        {"process": "a", "seq": 2, "receives": f"{STAMPED}b:7"},
    ]
    table = pa.Table.from_pylist([{"computation": "", "kind": "receive", **row} for row in rows], REPORTS)
    found = solve(table, ["a"], SegmentWindow())
    assert not found.quarantined.rows
    assert found.missing.to_pylist() == [["m", "n"], None], "what a stamp knows of may never have been logged"


def test_a_stamp_that_does_not_come_after_its_causes_is_quarantined() -> None:
    """A clock that was reset would put the failure before what led to it."""
    stamp = '{{"clock": "lamport", "process": "{}", "time": {}}}'.format
    found = quarantined_codes(
        {"process": "a", "seq": 1, "sends": "m", "stamp": stamp("a", 5)},
        {"process": "b", "seq": 1, "receives": "m", "stamp": stamp("b", 6)},
        {"process": "b", "seq": 2, "stamp": stamp("b", 2)},
        {"process": "b", "seq": 3, "stamp": stamp("b", 7)},
    )
    assert found == {2: "stamp-contradicts"}
