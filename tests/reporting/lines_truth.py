"""What rows record, worked out naively, and programs that know what is true of their own events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from graphlib import TopologicalSorter
from itertools import count
from typing import Any

from ledto.reporting import Reporter

_numbers = count()


def recorded(events: Iterable[Mapping[str, Any]]) -> dict[str, set[str]]:
    """For each event, by its name, the names of all that the rows record to be before it.

    An event follows the one before it on its line; the first one of a line follows the last one of `line_parent` before it;
    what is joined has ended; and messages are received.
    """
    rows = sorted(events, key=lambda event: (event["process"], event["seq"]))
    on_line: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in rows:
        on_line.setdefault((row["process"], row["line"]), []).append(row)
    senders = {row["sends"]: row["name"] for row in rows if "sends" in row}
    causes: dict[str, set[str]] = {}
    for row in rows:
        process, line = row["process"], on_line[row["process"], row["line"]]
        place = line.index(row)
        assert (row.get("line_phase") == "first") == (not place), "the first event of a line says so, and no other does"
        found = causes[row["name"]] = {line[place - 1]["name"]} if place else set()
        if "line_parent" in row and row["line_parent"] != row["line"]:
            assert not place, "only the first event of a line tells what started it"
            parent = on_line[process, row["line_parent"]]
            found.add([each for each in parent if each["seq"] < row["seq"]][-1]["name"])
        for joined in row.get("line_joins", ()):
            last = on_line[process, joined][-1]
            assert last["seq"] < row["seq"], "a line that was joined has ended"
            found.add(last["name"])
        if "receives" in row:
            found.add(senders[row["receives"]])
    return pasts(causes)


def pasts(causes: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """All that is before each event, from what is directly before it."""
    found: dict[str, set[str]] = {}
    for name in TopologicalSorter(causes).static_order():
        found[name] = set(causes[name]).union(*(found[cause] for cause in causes[name]))
    return found


class Agent:
    """Something that happens one step after the other, and knows what is before its next event."""

    def __init__(self, reporter: Reporter, causes: dict[str, set[str]], known: Iterable[str] = ()) -> None:
        self._reporter, self.causes, self.known = reporter, causes, set(known)

    def report(self) -> None:
        name = f"event {next(_numbers)}"
        self.causes[name] = self.known
        self.known = {name}
        assert self._reporter.report(name) is not None

    def started(self) -> Agent:
        """Another agent that is started now."""
        return Agent(self._reporter, self.causes, self.known)

    def joined(self, other: Agent) -> None:
        self.known = self.known | other.known
