"""From the log of deliveries to what a subscriber is told: the matching events, each with what led to it.

What is told of a delivery is a function of the subscription, the delivery and the version of the history that is asked.
Whoever asks again after a number gets what comes after it, no matter how often and from where.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from threading import Lock
from typing import Any, Final, Protocol

import pyarrow as pa

from whence.history.errors import BadCondition, HistoryError, NoHistory
from whence.history.live.log import LogTrimmed
from whence.history.questions.event import Event
from whence.history.questions.history import History
from whence.history.questions.past import Why
from whence.history.storage import StorageError
from whence.service.answer_bounds import bounded, truncated_events
from whence.service.asking_pool import HistorySource, newest
from whence.service.limits import Refused
from whence.service.matching import Matcher, Matchers
from whence.service.subscribing_events import delivered_event
from whence.service.subscriptions import Subscription

ROWS: Final = 10_000
"""Of the log, looked at in one step at most."""
FIRST_ROWS: Final = 1_000
"""Of the log, looked at before anything is known of how long its rows are."""
READ_BYTES: Final = 16 << 20
"""Of the log, looked at in one step, about: by what the rows of the last look took."""
ANSWERS: Final = 20
"""Given by one step at most, to bound what is held for a slow client."""
ANSWER_BYTES: Final = 1 << 20
"""Text of the events that an answer tells of; longer ones are cut."""
POSSIBLE: Final = 5
"""Events that could have led to it, told in an answer at most."""
LONE_BYTES: Final = 64 << 20
"""The same for one event without its causes, whose report was taken after all."""
STEP_BYTES: Final = 2 << 20
"""After so much, a step gives what it has."""
KEPT_READS: Final = 4
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
    text: str
    """The document, in JSON on one line: as values it would take many times the memory."""

    @property
    def document(self) -> dict[str, Any]:
        """What is told."""
        found: dict[str, Any] = json.loads(self.text)
        return found


def told(number: int, document: dict[str, Any]) -> Told:
    """The document as it is told."""
    return Told(number, document["type"], json.dumps(document))


@dataclass(frozen=True, slots=True)
class Step:
    """What comes after a number."""

    told: tuple[Told, ...]
    upto: int
    """The next step goes on after this number."""
    at_end: bool
    """Whether to wait for a new version before the next step."""
    suspended: str | None = None
    """Why the subscription cannot go on; None while it can."""


class Teller:
    """Makes the steps of all subscriptions. Threads may share it."""

    def __init__(self, live: LiveLog, matchers: Matchers) -> None:
        self._live = live
        self._matchers = matchers
        self._lock = Lock()
        self._reads: OrderedDict[tuple[int, int], tuple[pa.Table, bool]] = OrderedDict()
        self._matcher_of: dict[str, Matcher] = {}
        self._row_bytes = READ_BYTES / FIRST_ROWS
        self._missed: dict[str, tuple[int, int]] = {}
        """By subscription: the delivery it waits for, and the version in which it was missed first."""

    def step(self, subscription: Subscription, after: int) -> Step:
        """What the subscription has after this number, as far as one step goes."""
        try:
            rows, read_all = self._read(after)
        except NoHistory:
            return Step((), after, at_end=True)
        except LogTrimmed as trimmed:
            told_so = told(trimmed.first - 1, trimmed_document(subscription, after, trimmed.first))
            return Step((told_so,), told_so.number, at_end=False)
        if not len(rows):
            return Step((), after, at_end=True)
        try:
            matched = self._matcher(subscription).matching(rows)
        except BadCondition as fault:
            return Step((), after, at_end=True, suspended=str(fault))
        found: list[Told] = []
        size = 0
        for row in matched:
            if len(found) >= ANSWERS or size > STEP_BYTES:
                return Step(tuple(found), found[-1].number, at_end=False)
            document = answer_document(self._live, subscription, row)
            if document is None:
                if self._is_awaited(subscription, row["number"]):
                    return Step(tuple(found), row["number"] - 1, at_end=True)
                document = unplaced_document(subscription, row)
            found.append(told(row["number"], document))
            size += len(found[-1].text)
        return Step(tuple(found), rows["number"][-1].as_py(), at_end=read_all)

    def warning(self, subscription: Subscription) -> str | None:
        """That the condition names attributes which no event so far has; None where all are known, or nothing is."""
        try:
            known = newest(self._live, _attributes)
            unknown = self._matcher(subscription).unknown(known or ())
        except (HistoryError, StorageError, OSError):
            return None
        return _never_seen(unknown, known) if unknown and known is not None else None

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

    def _read(self, after: int) -> tuple[pa.Table, bool]:
        """Rows of the log, and whether they go to its end.

        Those who wait for its end all ask for the same ones, which are read once.
        """
        with self._lock:
            key = after, self._live.version
            if key not in self._reads:
                limit = max(1, min(ROWS, int(READ_BYTES / self._row_bytes)))
                rows = self._live.deliveries(after, limit=limit)
                if len(rows):
                    self._row_bytes = max(rows.nbytes / len(rows), 1.0)
                self._reads[key] = rows, len(rows) < limit
                while len(self._reads) > KEPT_READS:
                    self._reads.popitem(last=False)
            return self._reads[key]

    def _matcher(self, subscription: Subscription) -> Matcher:
        with self._lock:
            found = self._matcher_of.get(subscription.id)
        if found is None:
            # Others need not wait for it to be made; whoever is second takes the first's.
            made = self._matchers.matcher(subscription.where, computation=subscription.computation)
            with self._lock:
                found = self._matcher_of.setdefault(subscription.id, made)
        return found


def _attributes(history: History) -> tuple[str, ...] | None:
    """The names of all attributes; None where there are no events."""
    manifest = history.run.manifest
    return (*manifest.attributes, *manifest.native_columns) if len(history) else None


def _never_seen(unknown: Sequence[str], known: Sequence[str]) -> str:
    names = ", ".join(map(repr, unknown))
    alike = sorted({each for name in unknown for each in get_close_matches(name.lower(), known, n=1)})
    meant = f" (there is {', '.join(map(repr, alike))})" if alike else ""
    which = "an attribute" if len(unknown) == 1 else "attributes"
    return f"no event so far has {which} {names}{meant}: the condition waits for the first that does"


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
        history = bounded(history, ANSWER_BYTES)
        event = delivered_event(history, row)
        if event is None:
            return None
        why = _why(history, event, subscription.k)
        stream = history.run.manifest.stream
        missing = [each.to_json() for each in why.missing]
        cut = truncated_events(history)
        return {
            "type": "answer",
            "subscription": subscription.id,
            "number": row["number"],
            "event": why.event.to_json(),
            "causes": [each.to_json() for each in why.events],
            "more": why.more,
            "missing": missing,
            "missing_at_delivery": list(row["missing"] or ()),
            "possible": [each.to_json() for each in why.possible],
            "more_possible": why.more_possible,
            "complete": why.complete,
            "late": bool(row["late"]),
            "policy": None if stream is None else stream.policy,
            "at": row["at"],
            "waited": row["waited"],
            "version": history.run.manifest.version[1],
            **({"truncated": cut} if cut else {}),
        }

    return newest(live, question)


def _why(history: History, event: Event, k: int) -> Why:
    """What led to it: fewer events where the names of `k` are too long, which cannot be cut; the last one alone always."""
    while k:
        try:
            return history.why(event, k=k, possible=min(k, POSSIBLE))
        except Refused:
            k //= 4
    return bounded(history, LONE_BYTES).why(event, k=0, possible=0)
