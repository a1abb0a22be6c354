"""From the log of deliveries to what a subscriber is told: the matching events, each with what led to it.

What is told of a delivery is a function of the subscription, the delivery and the version of the history that is asked.
Whoever asks again after a number gets what comes after it, no matter how often and from where.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock
from typing import Any, Final, Protocol

import pyarrow as pa

from whence.history.errors import NoHistory
from whence.history.live.log import LogTrimmed
from whence.history.questions.history import History
from whence.service.asking_pool import HistorySource, newest
from whence.service.matching import Matcher, Matchers
from whence.service.subscribing_events import delivered_event
from whence.service.subscriptions import Subscription

ROWS: Final = 10_000
"""Of the log, looked at in one step."""
ANSWERS: Final = 20
"""Given by one step at most, to bound what is held for a slow client."""
KEPT_READS: Final = 8
PATIENCE: Final = 2
"""Versions that an event may be missing from the history before it is told of without its causes."""


class LiveLog(HistorySource, Protocol):
    """What subscriptions need of `whence.history.live.LiveHistory`."""

    @property
    def version(self) -> int:
        """The number of the newest commit; 0 before the first."""

    def deliveries(self, after: int, limit: int = ROWS) -> pa.Table:
        """Rows of the log with a higher number, ascending. Raises `LogTrimmed` when some of them are gone."""

    def last_delivery(self) -> int:
        """The number of the last one; 0 before the first."""


@dataclass(frozen=True, slots=True)
class Told:
    """One thing that a subscriber is told."""

    number: int
    """Of the delivery; a subscriber that was told this resumes after it."""
    kind: str
    """``answer``, ``unplaced`` or ``trimmed``."""
    document: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Step:
    """What comes after a number."""

    told: tuple[Told, ...]
    upto: int
    """The next step goes on after this number."""
    at_end: bool
    """Whether to wait for a new version before the next step."""


class Teller:
    """Makes the steps of all subscriptions. Threads may share it."""

    def __init__(self, live: LiveLog, matchers: Matchers) -> None:
        self._live = live
        self._matchers = matchers
        self._lock = Lock()
        self._reads: OrderedDict[tuple[int, int], pa.Table] = OrderedDict()
        self._matcher_of: dict[str, Matcher] = {}
        self._missed: dict[str, tuple[int, int]] = {}
        """By subscription: the delivery it waits for, and the version in which it was missed first."""

    def step(self, subscription: Subscription, after: int) -> Step:
        """What the subscription has after this number, as far as one step goes."""
        try:
            rows = self._read(after)
        except NoHistory:
            return Step((), after, at_end=True)
        except LogTrimmed as trimmed:
            told = Told(trimmed.first - 1, "trimmed", trimmed_document(subscription, after, trimmed.first))
            return Step((told,), told.number, at_end=False)
        if not len(rows):
            return Step((), after, at_end=True)
        matched = self._matcher(subscription).matching(rows)
        found: list[Told] = []
        for row in matched[:ANSWERS]:
            document = answer_document(self._live, subscription, row)
            if document is None:
                if self._is_awaited(subscription, row["number"]):
                    return Step(tuple(found), row["number"] - 1, at_end=True)
                document = unplaced_document(subscription, row)
            found.append(Told(row["number"], document["type"], document))
        cut_short = len(matched) > ANSWERS
        upto = found[-1].number if cut_short else rows["number"][-1].as_py()
        return Step(tuple(found), upto, at_end=not cut_short and len(rows) < ROWS)

    def forget(self, subscription: str) -> None:
        """Let go of what is held for it."""
        with self._lock:
            self._matcher_of.pop(subscription, None)
            self._missed.pop(subscription, None)

    def _is_awaited(self, subscription: Subscription, number: int) -> bool:
        """Whether the event of this delivery may still come into the history: later versions have it, or never will."""
        version = self._live.version
        with self._lock:
            awaited, since = self._missed.get(subscription.id, (0, 0))
            if awaited != number:
                self._missed[subscription.id] = number, version
                return True
            return version < since + PATIENCE

    def _read(self, after: int) -> pa.Table:
        """Rows of the log; those who wait for its end all ask for the same ones, which are read once."""
        with self._lock:
            key = after, self._live.version
            if key not in self._reads:
                self._reads[key] = self._live.deliveries(after, limit=ROWS)
                while len(self._reads) > KEPT_READS:
                    self._reads.popitem(last=False)
            return self._reads[key]

    def _matcher(self, subscription: Subscription) -> Matcher:
        with self._lock:
            found = self._matcher_of.get(subscription.id)
            if found is None:
                found = self._matchers.matcher(subscription.where, computation=subscription.computation)
                self._matcher_of[subscription.id] = found
            return found


def trimmed_document(subscription: Subscription, after: int, first: int) -> dict[str, Any]:
    """That deliveries were removed from the log before they could be told of."""
    return {
        "type": "trimmed",
        "subscription": subscription.id,
        "after": after,
        "first": first,
        "removed": first - 1 - after,
    }


def unplaced_document(subscription: Subscription, row: dict[str, Any]) -> dict[str, Any]:
    """A delivered event that the history does not have: later reports contradict it, and it was set aside."""
    told = {name: row[name] for name in ("computation", "process", "seq", "id", "name", "kind", "time", "at", "waited")}
    return {
        "type": "unplaced",
        "subscription": subscription.id,
        "number": row["number"],
        **told,
        "late": bool(row["late"]),
    }


def answer_document(live: HistorySource, subscription: Subscription, row: dict[str, Any]) -> dict[str, Any] | None:
    """A delivered event with what led to it, from the newest history; None while that does not have the event."""

    def question(history: History) -> dict[str, Any] | None:
        event = delivered_event(history, row)
        if event is None:
            return None
        why = history.why(event, k=subscription.k)
        stream = history.run.manifest.get("stream") or {}
        missing = [each.to_json() for each in why.missing]
        return {
            "type": "answer",
            "subscription": subscription.id,
            "number": row["number"],
            "event": why.event.to_json(),
            "causes": [each.to_json() for each in why.events],
            "more": why.more,
            "missing": missing,
            "missing_at_delivery": list(row["missing"] or ()),
            "complete": not missing,
            "late": bool(row["late"]),
            "policy": stream.get("policy"),
            "at": row["at"],
            "waited": row["waited"],
            "version": stream.get("version", 0),
        }

    return newest(live, question)
