"""Turn the delivery log into a subscriber's notifications: the matching events, each with what led to it.

A notification depends only on the subscription, the delivery and the version of the history. Reading after a number gives
what comes after it, however often and by whomever it is read.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from threading import Lock
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ledto.history.errors import AmbiguousEvent, BadCondition, EventNotFound, HistoryError, NoHistory
from ledto.history.store import StorageError
from ledto.live.delivery_log import LogTrimmed
from ledto.questions.event import Event
from ledto.questions.history import History
from ledto.questions.why import Why
from ledto.service.http.limits import RequestRefused
from ledto.service.questions.bounds import bound_answers, truncated_events
from ledto.service.questions.pool import HistorySource, ask_newest
from ledto.service.subscriptions.match import Matcher, Matchers
from ledto.service.subscriptions.store import Subscription

ORIGIN = ("file", "place")
REPORTED = ("time", "name", "kind")


ROWS: Final = 10_000
"""The most rows of the log that one page reads."""
FIRST_ROWS: Final = 1_000
"""The most rows of the first read, before the size of a row is known."""
READ_BYTES: Final = 16 << 20
"""About how many bytes of the log one page reads, estimated from the rows of the last read."""
ANSWERS: Final = 20
"""The most notifications of one page, to bound the memory for a slow client."""
ANSWER_BYTES: Final = 1 << 20
"""The most text of the events in one answer; the longest texts are cut to fit."""
POSSIBLE: Final = 5
"""The most possible causes in an answer."""
LONE_BYTES: Final = 64 << 20
"""The same as `ANSWER_BYTES` for an event without its causes: larger than any report that the collector accepts."""
STEP_BYTES: Final = 2 << 20
"""A page ends after so many bytes of notifications."""
KEPT_READS: Final = 4
"""How many reads of the log are kept for other subscriptions."""
PATIENCE: Final = 2
"""How many versions of the history may lack an event before it is sent without its causes."""


def find_delivered_event(history: History, row: dict[str, Any]) -> Event | None:
    """Find the event of a row of the delivery log; None if the history does not have it."""
    for event in _find_by_name(history, row):
        if all(getattr(event, name) == row[name] for name in REPORTED):
            return event
    return _find_by_report(history, row)


def _find_by_name(history: History, row: dict[str, Any]) -> Iterator[Event]:
    if row["id"] is None and row["seq"] is None:
        return
    name = f"{row['process']}:{row['seq']}" if row["id"] is None else row["id"]
    # Traces that turn out to be linked become one computation, with the name of one of them.
    for computation in (row["computation"], None):
        try:
            yield history.event(name, computation=computation)
        except (EventNotFound, AmbiguousEvent):
            continue


def _find_by_report(history: History, row: dict[str, Any]) -> Event | None:
    """Search the segments that may have the event, earliest first. Its causal time is never before its time."""
    run = history.run
    segments = run.segments
    wanted = [name for name in (*ORIGIN, *REPORTED) if name in REPORTED or row[name] is not None]
    order = np.argsort(segments.first_causal_time, kind="stable")
    if row["time"] is not None:
        order = order[segments.last_causal_time[order] >= row["time"]]
    for number in order.tolist():
        rows = run.events(number, wanted, 0, int(segments.rows[number]))
        matches = np.ones(len(rows), np.bool_)
        for name in wanted:
            matches &= _equal(rows[name], row[name])
        for index in np.flatnonzero(matches).tolist():
            event = history.event(int(segments.first_position[number]) + index)
            # A thread of a traced process is a process of its own in the history, with the traced process's clock.
            if row["process"] in (event.process, event.clock_name):
                return event
    return None


def _equal(column: pa.ChunkedArray, value: Any) -> NDArray[np.bool_]:
    equal = pc.is_null(column) if value is None else pc.fill_null(pc.equal(column, value), False)
    mask: NDArray[np.bool_] = equal.to_numpy()
    return mask


class LiveLog(HistorySource, Protocol):
    """What subscriptions need of `ledto.live.LiveHistory`."""

    @property
    def version(self) -> int:
        """The number of the newest commit; 0 before the first."""

    def deliveries(self, after: int, limit: int = ROWS) -> pa.Table:
        """Read rows of the log with a higher number, ascending. Raises `LogTrimmed` if some of them were removed."""

    def last_delivery(self) -> int:
        """Return the number of the last delivery; 0 before the first."""


@dataclass(frozen=True, slots=True)
class Notification:
    """One notification for a subscriber."""

    number: int
    """The number of the delivery; a subscriber that got this resumes after it."""
    kind: str
    """``answer``, ``unplaced`` or ``trimmed``."""
    text: str
    """The document as JSON on one line: as Python values it would take many times the memory."""

    @property
    def document(self) -> dict[str, Any]:
        """The decoded document."""
        document: dict[str, Any] = json.loads(self.text)
        return document


def make_notification(number: int, document: dict[str, Any]) -> Notification:
    """Encode a document as a notification."""
    return Notification(number, document["type"], json.dumps(document))


@dataclass(frozen=True, slots=True)
class NotificationPage:
    """The notifications of one page of the delivery log."""

    notifications: tuple[Notification, ...]
    upto: int
    """The next page begins after this number."""
    at_end: bool
    """Whether to wait for a new version before the next page."""
    suspended: str | None = None
    """Why the subscription cannot continue; None while it can."""


class Notifier:
    """Reads the pages of all subscriptions. May be used from several threads."""

    def __init__(self, live: LiveLog, matchers: Matchers) -> None:
        self._live = live
        self._matchers = matchers
        self._lock = Lock()
        self._reads: OrderedDict[tuple[int, int], tuple[pa.Table, bool]] = OrderedDict()
        self._matcher_of: dict[str, Matcher] = {}
        self._row_bytes = READ_BYTES / FIRST_ROWS
        self._missed: dict[str, tuple[int, int]] = {}
        """By subscription: the delivery whose event the history lacks, and the version that lacked it first."""

    def read_page(self, subscription: Subscription, after: int) -> NotificationPage:
        """Read the next page of a subscription after a number."""
        try:
            rows, read_all = self._read(after)
        except NoHistory:
            return NotificationPage((), after, at_end=True)
        except LogTrimmed as trimmed:
            notification = make_notification(trimmed.first - 1, trimmed_document(subscription, after, trimmed.first))
            return NotificationPage((notification,), notification.number, at_end=False)
        if not len(rows):
            return NotificationPage((), after, at_end=True)
        try:
            matching = self._matcher(subscription).select(rows)
        except BadCondition as fault:
            return NotificationPage((), after, at_end=True, suspended=str(fault))
        notifications: list[Notification] = []
        size_bytes = 0
        for row in matching:
            if len(notifications) >= ANSWERS or size_bytes > STEP_BYTES:
                return NotificationPage(tuple(notifications), notifications[-1].number, at_end=False)
            document = answer_document(self._live, subscription, row)
            if document is None:
                if self._is_awaited(subscription, row["number"]):
                    return NotificationPage(tuple(notifications), row["number"] - 1, at_end=True)
                document = unplaced_document(subscription, row)
            notifications.append(make_notification(row["number"], document))
            size_bytes += len(notifications[-1].text)
        return NotificationPage(tuple(notifications), rows["number"][-1].as_py(), at_end=read_all)

    def warning(self, subscription: Subscription) -> str | None:
        """Name the attributes in the condition that no event has had so far; None if there are none, or no events."""
        try:
            attributes = ask_newest(self._live, _attributes)
            unknown = self._matcher(subscription).unknown(attributes or ())
        except (HistoryError, StorageError, OSError):
            return None
        return _warn(unknown, attributes) if unknown and attributes is not None else None

    def forget(self, subscription: str) -> None:
        """Free the memory that is held for a subscription."""
        with self._lock:
            self._matcher_of.pop(subscription, None)
            self._missed.pop(subscription, None)

    def _is_awaited(self, subscription: Subscription, number: int) -> bool:
        """Whether the event of this delivery may still appear in a newer version of the history."""
        version = self._live.version
        with self._lock:
            awaited, since = self._missed.get(subscription.id, (0, 0))
            if awaited != number:
                self._missed[subscription.id] = number, version
                return True
            return version < since + PATIENCE

    def _read(self, after: int) -> tuple[pa.Table, bool]:
        """Read rows of the log after a number; return them, and whether they reach its end.

        Reads are kept for a while: subscriptions that have reached the end all ask for the same rows.
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
            matcher = self._matcher_of.get(subscription.id)
        if matcher is None:
            # Made without the lock, so that others need not wait. If two threads make one, both use the first.
            new = self._matchers.make(subscription.where, computation=subscription.computation)
            with self._lock:
                matcher = self._matcher_of.setdefault(subscription.id, new)
        return matcher


def _attributes(history: History) -> tuple[str, ...] | None:
    """List the names of all attributes; None if there are no events."""
    manifest = history.run.manifest
    return (*manifest.attributes, *manifest.native_columns) if len(history) else None


def _warn(unknown: Sequence[str], attributes: Sequence[str]) -> str:
    names = ", ".join(map(repr, unknown))
    similar = sorted({match for name in unknown for match in get_close_matches(name.lower(), attributes, n=1)})
    hint = f" (there is {', '.join(map(repr, similar))})" if similar else ""
    which = "an attribute" if len(unknown) == 1 else "attributes"
    return (
        f"no event so far has {which} {names}{hint}: the condition waits for the first that does. Names are in double "
        "quotes or none, texts in single quotes"
    )


def trimmed_document(subscription: Subscription, after: int, first: int) -> dict[str, Any]:
    """Say that deliveries were removed from the log before the subscriber got them."""
    return {
        "type": "trimmed",
        "subscription": subscription.id,
        "after": after,
        "first": first,
        "removed": first - 1 - after,
    }


def unplaced_document(subscription: Subscription, row: dict[str, Any]) -> dict[str, Any]:
    """Describe a delivered event that the history does not have: later reports contradict it, so it is quarantined."""
    names = ("computation", "process", "seq", "id", "name", "kind", "time", "at", "waited")
    return {
        "type": "unplaced",
        "subscription": subscription.id,
        "number": row["number"],
        **{name: row[name] for name in names},
        "late": bool(row["late"]),
    }


def answer_document(live: HistorySource, subscription: Subscription, row: dict[str, Any]) -> dict[str, Any] | None:
    """Describe a delivered event with what led to it, from the newest history; None if that does not have the event."""

    def question(history: History) -> dict[str, Any] | None:
        history = bound_answers(history, ANSWER_BYTES)
        event = find_delivered_event(history, row)
        if event is None:
            return None
        why = _why(history, event, subscription.k)
        stream = history.run.manifest.stream
        truncated = truncated_events(history)
        return {
            "type": "answer",
            "subscription": subscription.id,
            "number": row["number"],
            "event": why.event.to_json(),
            "causes": [cause.to_json() for cause in why.causes],
            "more": why.more,
            "missing": [hole.to_json() for hole in why.missing],
            "missing_at_delivery": list(row["missing"] or ()),
            "possible": [cause.to_json() for cause in why.possible],
            "more_possible": why.more_possible,
            "complete": why.complete,
            "late": bool(row["late"]),
            "policy": None if stream is None else stream.policy,
            "at": row["at"],
            "waited": row["waited"],
            "version": history.run.manifest.version[1],
            **({"truncated": truncated} if truncated else {}),
        }

    return ask_newest(live, question)


def _why(history: History, event: Event, k: int) -> Why:
    """Ask what led to an event; for fewer causes if names of processes make the answer too large, and at last for none."""
    while k:
        try:
            return history.why(event, k=k, possible=min(k, POSSIBLE))
        except RequestRefused:
            k //= 4
    return bound_answers(history, LONE_BYTES).why(event, k=0, possible=0)
