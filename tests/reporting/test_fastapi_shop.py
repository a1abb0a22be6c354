from __future__ import annotations

import json
from pathlib import Path

from examples.fastapi_shop import play
from tests.reporting.lines_truth import recorded


def test_an_order_that_fails_has_its_own_request_as_past_and_no_other(tmp_path: Path) -> None:
    """Of some 180 earlier events, three are recorded to have led to the failure; the others are possible at most."""
    truth = play(tmp_path)
    rows = [json.loads(line) for path in sorted(tmp_path.glob("*/*.jsonl")) for line in path.read_text().splitlines()]
    for row in rows:
        row["told"], row["name"] = row["name"], f"{row['process']}:{row['seq']}"
    by_id = {row["name"]: row for row in rows}
    past = recorded(rows)
    assert len(rows) == 1 + 30 * 6 + 3 + 5
    assert {by_id[each]["told"] for each in past[truth.failure]} == {
        "shop.opened",
        "serve POST /orders/30",
        "order.checked",
    }
    assert truth.change not in past[truth.failure]
    assert by_id[truth.change]["seq"] < by_id[truth.failure]["seq"], (
        "it is earlier in the process, and so it is possible"
    )
    done = [row["name"] for row in rows if row["told"] == "order.done"]
    assert len(done) == 30
    assert all(len(past[each]) == 5 for each in done), "opened, served, checked, reserved, paid"
