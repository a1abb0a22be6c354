from __future__ import annotations

import json
from pathlib import Path

from examples.fastapi_shop import play
from ledto import observe
from ledto.questions import Standing
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


def test_the_history_of_the_shop_says_what_the_reports_say(tmp_path: Path) -> None:
    """Who asks why the order failed is shown its own request, and the change of another request as possible."""
    truth = play(tmp_path / "reports")
    files = sorted((tmp_path / "reports").glob("*/*.jsonl"))
    rows = [json.loads(line) for path in files for line in path.read_text().splitlines()]
    for row in rows:
        row["name"] = f"{row['process']}:{row['seq']}"
    history = observe(files, tmp_path / "history")
    assert len(history) == len(rows)
    answer = history.why(truth.failure)
    assert {event.id for event in answer.causes} == recorded(rows)[truth.failure]
    assert [event.name for event in answer.causes] == ["shop.opened", "serve POST /orders/30", "order.checked"]
    assert truth.change in [each.event.id for each in answer.possible[:10]]
    found = history.related(truth.change, truth.failure)
    assert (found.relation, found.direction) == (Standing.POSSIBLE, Standing.BEFORE)
    assert found.through is not None
    assert (found.through.kind, found.through.cause.process) == ("process", found.first.process)
