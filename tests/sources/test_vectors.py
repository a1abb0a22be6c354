"""Causes told from vector clocks, against the clocks themselves: the truth about what precedes what."""

from __future__ import annotations

import json
from collections import Counter, OrderedDict
from collections.abc import Iterator
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from ledto.events.keys import STAMPED
from ledto.sources import Source, vectors
from ledto.sources.native.lines import JsonLines
from ledto.sources.shiviz.source import ShiViz
from tests.sources.reading import table

Clock = dict[str, int]


def history(random: Random, *, processes: int, events: int) -> list[tuple[str, Clock]]:
    """Events with their vector clocks, in an order in which they could have happened."""
    names = [f"p{n}" for n in range(processes)]
    clocks: dict[str, Clock] = {name: {} for name in names}
    sent: list[Clock] = []
    found = []
    for _ in range(events):
        name = random.choice(names)
        clock = dict(clocks[name])
        for _ in range(random.choice([0, 0, 1, 2])):
            if sent:
                for other, count in random.choice(sent).items():
                    clock[other] = max(clock.get(other, 0), count)
        clock[name] = clocks[name].get(name, 0) + 1
        clocks[name] = clock
        sent.append(clock)
        found.append((name, clock))
    return found


def known_by_rows(rows: list[dict[str, Any]]) -> dict[str, set[str]]:
    """The past of each event by its process's order and its causes, found by walking."""
    # In JSON, keys say that they come from stamps.
    for row in rows:
        row["sends"] = row["sends"].removeprefix(STAMPED)
        row["receives"] = row["receives"] and row["receives"].removeprefix(STAMPED)
        row["receives_more"] = [key.removeprefix(STAMPED) for key in row["receives_more"] or []]
    own = {row["sends"]: row for row in rows}
    by_process: dict[str, list[dict[str, Any]]] = {}
    for row in sorted(rows, key=lambda row: row["seq"]):
        by_process.setdefault(row["process"], []).append(row)
    before = {b["sends"]: a["sends"] for group in by_process.values() for a, b in pairwise(group)}
    past: dict[str, set[str]] = {}

    def walk(start: str) -> set[str]:
        reached, pending = set(), [start]
        while pending:
            key = pending.pop()
            if key not in reached:
                reached.add(key)
                row = own[key]
                causes = [row["receives"], *(row["receives_more"] or []), before.get(key)]
                pending += [cause for cause in causes if cause is not None]
        return reached

    for key in own:
        past[key] = walk(key)
    return past


def as_json(events: list[tuple[str, Clock]]) -> str:
    stamped = ({"process": name, "stamp": {"clock": "vector", "counters": clock}} for name, clock in events)
    return "".join(json.dumps(record) + "\n" for record in stamped)


def as_shiviz(events: list[tuple[str, Clock]]) -> str:
    return "".join(f"{name} {json.dumps(clock)}\nevent\n" for name, clock in events)


@pytest.mark.parametrize("order", ["as it happened", "one process after the other", "any"])
@pytest.mark.parametrize(("source", "write"), [(JsonLines(), as_json), (ShiViz(), as_shiviz)], ids=["json", "shiviz"])
def test_the_causes_of_a_log_give_the_order_of_its_clocks(source: Source, write: Any, order: str) -> None:
    """The whole use of such a log: one cause too few and an effect loses its cause, one too many and it gets a false one."""
    refused = 0
    for seed in range(12):
        random = Random(seed)
        events = history(random, processes=4, events=40)
        if order == "any":
            random.shuffle(events)
        elif order != "as it happened":
            events.sort(key=lambda event: event[0])
        rows = table(source, write(events)).to_pylist()
        assert len(rows) == len(events)
        refused += sum(row["reason"] is not None for row in rows)
        past = known_by_rows(rows)
        for name, clock in events:
            expected = {f"{other}:{n}" for other, count in clock.items() for n in range(1, count + 1)}
            assert past[f"{name}:{clock[name]}"] == expected
    assert refused == 0


def test_only_direct_causes_are_named() -> None:
    """Naming all entries would be right as well, and a log of 23 messages would be told to have hundreds."""
    events = history(Random(1), processes=20, events=400)
    Random(2).shuffle(events)
    rows = table(ShiViz(), as_shiviz(events)).to_pylist()
    clocks = {f"{name}:{clock[name]}": clock for name, clock in events}
    named = 0
    for row in rows:
        causes = [row["receives"], *(row["receives_more"] or [])] if row["receives"] else []
        named += len(causes)
        for cause in causes:
            name, _, count = cause.rpartition(":")
            others = [clocks[other] for other in causes if other != cause]
            assert all(other.get(name, 0) < int(count) for other in others), "implied by another cause"
    assert named > 100


def test_forgetting_a_clock_looks_at_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log with more clocks than are remembered would take hours: each one forgotten was searched for among all before."""
    monkeypatch.setattr(vectors, "REMEMBERED_ENTRIES", 100)
    looked_at = Counter[str]()

    class Counted(OrderedDict[Any, Any]):
        def __iter__(self) -> Iterator[Any]:
            looked_at["entries, from the first on"] += 1
            return super().__iter__()

    growth = vectors.ClockGrowth(_clocks=Counted())
    for count in range(1, 1_001):
        growth.note("", "a", {"a": count, "b": 1})
    assert not looked_at
    assert len(growth._clocks) == 50, "of two entries each"
    assert growth._clocks.popitem(last=False)[0] == ("", "a", 951), "the oldest that is left"
