"""Happened-before by reachability: the truth that clocks are checked against.

Nothing here knows of clocks. Add an event with its direct causes; its past is the union of theirs.
"""

from __future__ import annotations

from ledto.clocks.relation import Relation


class TrueHistory:
    """A growing set of events with their true causal pasts, each a bit set over event numbers."""

    def __init__(self) -> None:
        self._past: list[int] = []
        self.labels: list[str] = []

    def __len__(self) -> int:
        return len(self._past)

    def add(self, label: str, *causes: int | None) -> int:
        """Record an event with its direct causes (None means "no cause"); return its number."""
        past = 0
        for cause in causes:
            if cause is not None:
                past |= self._past[cause] | 1 << cause
        self._past.append(past)
        self.labels.append(label)
        return len(self._past) - 1

    def precedes(self, a: int, b: int) -> bool:
        """Tell whether event `a` happened before event `b`."""
        return bool(self._past[b] >> a & 1)

    def past(self, event: int) -> set[int]:
        """Return the numbers of all events that happened before this one."""
        bits = self._past[event]
        return {i for i in range(event) if bits >> i & 1}

    def relation(self, a: int, b: int) -> Relation:
        """Tell how event `a` is truly related to event `b`."""
        if a == b:
            return Relation.EQUAL
        if self.precedes(a, b):
            return Relation.BEFORE
        return Relation.AFTER if self.precedes(b, a) else Relation.CONCURRENT
