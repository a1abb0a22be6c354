"""The shop's logs must hold what the demo claims of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from whence.demo.shop import Truth, write_shop

SECONDS = 40


@pytest.fixture(scope="module", params=[7, 1])
def shop(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Truth]:
    folder = tmp_path_factory.mktemp("shop")
    return folder, write_shop(folder, seconds=SECONDS, seed=request.param)


def read(folder: Path) -> tuple[list[dict[str, Any]], int]:
    """The records in the logs, and how many lines cannot be read."""
    records, torn = [], 0
    for file in sorted(folder.glob("*.jsonl")):
        for line in file.read_text().splitlines():
            try:
                records.append(json.loads(line))
            except ValueError:
                torn += 1
    return records, torn


def past_of(failure: str, records: list[dict[str, Any]]) -> set[str]:
    """Everything from which a path of messages and steps leads to the failure, by plain reachability."""
    events = {f"{each['process']}:{each['seq']}": each for each in records}
    senders = {each["message"]: name for name, each in events.items() if each["kind"] == "send"}
    steps: dict[str, list[int]] = {}
    for each in events.values():
        steps.setdefault(each["process"], []).append(each["seq"])
    before = {
        f"{process}:{seq}": f"{process}:{earlier}"
        for process, seqs in steps.items()
        for earlier, seq in zip(sorted(seqs), sorted(seqs)[1:], strict=False)
    }
    found: set[str] = set()
    todo = [failure]
    while todo:
        name = todo.pop()
        causes = [before.get(name)]
        if events[name]["kind"] == "receive":
            causes.append(senders.get(events[name]["message"]))
        for cause in causes:
            if cause is not None and cause not in found:
                found.add(cause)
                todo.append(cause)
    return found


def test_the_truth_is_true(shop: tuple[Path, Truth]) -> None:
    """The demo checks its answers against this truth: it would praise wrong ones if the truth were wrong."""
    folder, truth = shop
    records, torn = read(folder)
    events = {(each["process"], each["seq"]) for each in records}
    assert torn == truth.torn
    assert len(records) + torn == truth.reports
    assert len(records) - len(events) == truth.duplicates > 0
    assert truth.events - len(events) == truth.lost > 0
    times: dict[str, dict[str, int]] = {}
    for each in records:
        if "message" in each:
            times.setdefault(each["message"], {})[each["kind"]] = each["time"]
    whole = [ends for ends in times.values() if len(ends) == 2]
    assert len(whole) == truth.messages
    assert sum("send" not in ends for ends in times.values()) == truth.orphans > 0
    assert sum(ends["receive"] < ends["send"] for ends in whole) == truth.messages_backwards

    past = past_of(truth.failure, records)
    assert set(truth.chain[:-1]) <= past
    assert truth.herring not in past


def test_wall_clocks_tell_the_wrong_story(shop: tuple[Path, Truth]) -> None:
    """Without this the demo shows nothing: the cause stands after the failure, and another change right before it."""
    folder, truth = shop
    records, _ = read(folder)
    odd = sorted(
        {
            (each["time"], f"{each['process']}:{each['seq']}")
            for each in records
            if each["severity"] in ("notice", "error")
        }
    )
    names = [name for _, name in odd]
    assert names.index(truth.herring) == names.index(truth.failure) - 1
    assert names.index(truth.cause) > names.index(truth.failure)
    changes = [each for each in records if each["name"].startswith("configuration loaded")]
    assert all("order" not in each for each in changes), "searching the logs for the order would find the cause"


def test_the_same_seed_writes_the_same_bytes(tmp_path: Path) -> None:
    """What a page shows of the demo must be what its reader gets."""
    one, two = tmp_path / "one", tmp_path / "two"
    assert write_shop(one, seconds=10, seed=3) == write_shop(two, seconds=10, seed=3)
    for file in one.iterdir():
        assert (two / file.name).read_bytes() == file.read_bytes()


def test_a_shop_too_short_for_its_incident_is_refused(tmp_path: Path) -> None:
    """A demo without its failure would be blamed on whence."""
    with pytest.raises(ValueError, match="ten seconds or longer, not 9"):
        write_shop(tmp_path, seconds=9)
