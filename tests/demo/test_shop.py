"""The shop's logs must hold what the demo claims of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ledto.demo.shop import ShopTruth, write_shop

SECONDS = 40


@pytest.fixture(scope="module", params=[7, 1])
def shop(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ShopTruth]:
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


def past_of(failure: str, records: list[dict[str, Any]], *, by_lines: bool) -> set[str]:
    """Everything from which a path of messages and steps leads to the failure, by plain reachability.

    Steps lead along lines and from the line that started one; else along whole processes.
    """
    events = {f"{each['process']}:{each['seq']}": each for each in records}
    senders = {each["message"]: name for name, each in events.items() if each["kind"] == "send"}
    causes: dict[str, list[str]] = {name: [] for name in events}
    last: dict[tuple[str, str], str] = {}
    for name, each in sorted(events.items(), key=lambda item: item[1]["seq"]):
        line = (each["process"], each["line"] if by_lines else "")
        parent = (each["process"], each.get("line_parent", "")) if by_lines and line not in last else line
        causes[name] += [last[known] for known in {line, parent} if known in last]
        last[line] = name
        if each["kind"] == "receive" and each["message"] in senders:
            causes[name].append(senders[each["message"]])
    found: set[str] = set()
    todo = [failure]
    while todo:
        for cause in causes[todo.pop()]:
            if cause not in found:
                found.add(cause)
                todo.append(cause)
    return found


def test_the_truth_is_true(shop: tuple[Path, ShopTruth]) -> None:
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
    assert sum("send" not in ends for ends in times.values()) == truth.receives_without_send > 0
    assert sum(ends["receive"] < ends["send"] for ends in whole) == truth.messages_backwards

    past = past_of(truth.failure, records, by_lines=True)
    assert set(truth.chain[:-1]) <= past
    assert len(past) == truth.causes
    assert truth.bystander not in past
    assert truth.bystander in (wide := past_of(truth.failure, records, by_lines=False))
    assert truth.herring not in wide
    assert truth.failure not in (of_herring := past_of(truth.herring, records, by_lines=False))
    for name in (truth.herring, truth.failure):
        process, seq = name.split(":")
        assert {f"{process}:{number}" for number in range(1, int(seq))} <= wide | of_herring, "a report is missing"


def test_instances_do_several_things_at_once(shop: tuple[Path, ShopTruth]) -> None:
    """A shop that handles one order after another would show nothing of lines."""
    records, _ = read(shop[0])
    spans: dict[str, dict[str, list[int]]] = {}
    for each in records:
        spans.setdefault(each["process"], {}).setdefault(each["line"], []).append(each["seq"])
    for process in ("orders-1", "payments-1"):
        ends = sorted((min(seqs), max(seqs)) for seqs in spans[process].values())
        open_at = [sum(begin < each <= end for begin, end in ends) for each, _ in ends]
        assert sum(open_at) / len(open_at) > 3


def test_wall_clocks_tell_the_wrong_story(shop: tuple[Path, ShopTruth]) -> None:
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
    """A demo without its failure would be blamed on ledto."""
    with pytest.raises(ValueError, match="ten seconds or longer, not 9"):
        write_shop(tmp_path, seconds=9)
