"""Store subscriptions in files, so that they survive restarts.

Each one is a small file, ``<id>.json``, which is replaced atomically, and which only its owner can read, because it may
contain the secret of a webhook. ``<id>.progress.json`` says how far its webhook has got; it is written after every
delivery that the receiver accepted.
"""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from threading import Lock
from typing import Any, Final

from ledto.service.http.limits import RequestRefused

log = logging.getLogger("ledto.service")

MOST_SUBSCRIPTIONS: Final = 200
MOST_OF_ONE: Final = 100
"""The most subscriptions of one owner: half of all, so that others find room."""
ID = re.compile(r"[0-9a-f]{24}")
ENDING, PROGRESS_ENDING, TEMPORARY = ".json", ".progress.json", ".new"
FORMAT: Final = 1


@dataclass(frozen=True, slots=True)
class Webhook:
    """The URL that answers are sent to, and the secret that they are signed with."""

    url: str
    secret: str

    def __repr__(self) -> str:
        return "Webhook(...)"


@dataclass(frozen=True, slots=True)
class Subscription:
    """A request to be notified of every delivered event that meets a condition."""

    id: str
    where: str
    """A condition on the columns of the delivery log and on attributes."""
    k: int
    """How many causes are listed with an event."""
    computation: str | None
    """Only events of this computation; None for all."""
    start: int
    """Only deliveries with a higher number."""
    created: int
    """When it was made, in nanoseconds since 1970."""
    webhook: Webhook | None = None
    owner: str = ""
    """The name of the reader who made it; the subscriptions of one owner are counted together."""
    suspended: str | None = None
    """Why it is suspended; None while it is active."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a webhook has got."""

    position: int
    """The receiver has accepted every matching delivery up to this number."""
    attempts: int = 0
    """How often the next delivery was sent without success."""
    failing_since: int | None = None
    """When the first of these attempts failed, in nanoseconds since 1970. Only shown: decisions use `failing_ns`."""
    failing_ns: int = 0
    """How long it has failed while the service ran, by the monotonic clock."""
    error: str | None = None
    """Why the last attempt failed."""
    suspended: bool = False
    """Whether it is no longer sent."""


class SubscriptionStore:
    """The subscriptions of a folder. May be used from several threads, but from one process only."""

    def __init__(self, folder: Path, *, most: int = MOST_SUBSCRIPTIONS, most_of_one: int | None = None) -> None:
        self._folder = folder
        self._most = most
        self._most_of_one = most if most_of_one is None else most_of_one
        # Readers run in the event loop and must not wait for the disk. Writers hold the first lock while they write files;
        # all hold the second one only while they use the dicts.
        self._writing, self._lock = Lock(), Lock()
        self._subscriptions: dict[str, Subscription] = {}
        self._progress: dict[str, Progress] = {}
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._load()

    def all(self) -> list[Subscription]:
        """List all subscriptions, oldest first."""
        with self._lock:
            return sorted(self._subscriptions.values(), key=lambda one: (one.created, one.id))

    def get(self, name: str) -> Subscription | None:
        """Return the subscription with this id; None if there is none."""
        with self._lock:
            return self._subscriptions.get(name)

    def progress(self, name: str) -> Progress | None:
        """Return how far a subscription's webhook has got; None without a webhook."""
        with self._lock:
            return self._progress.get(name)

    def add(self, subscription: Subscription) -> None:
        """Store a subscription; when this returns, it survives a crash. Raises `RequestRefused` if there are too many."""
        with self._writing:
            if len(self._subscriptions) >= self._most:
                raise RequestRefused(
                    409, "too-many", f"there are {self._most:,} subscriptions, which is the limit: delete one"
                )
            of_owner = [one for one in self._subscriptions.values() if one.owner == subscription.owner != ""]
            if len(of_owner) >= self._most_of_one:
                raise RequestRefused(
                    409, "too-many", f"you have {self._most_of_one:,} subscriptions, which is the limit: delete one"
                )
            self._write(subscription.id + ENDING, {"format": FORMAT, **asdict(subscription)})
            with self._lock:
                self._subscriptions[subscription.id] = subscription
                if subscription.webhook is not None:
                    self._progress[subscription.id] = Progress(subscription.start)

    def suspend(self, name: str, reason: str | None) -> Subscription | None:
        """Suspend a subscription, or resume it with `reason` None, and store that; None if it has been deleted meanwhile."""
        with self._writing:
            before = self._subscriptions.get(name)
            if before is None or before.suspended == reason:
                return before
            after = replace(before, suspended=reason)
            self._write(name + ENDING, {"format": FORMAT, **asdict(after)})
            with self._lock:
                self._subscriptions[name] = after
            return after

    def remove(self, name: str) -> bool:
        """Delete a subscription; return whether it existed."""
        with self._writing:
            with self._lock:
                removed = self._subscriptions.pop(name, None)
                self._progress.pop(name, None)
            if removed is not None:
                for ending in (ENDING, PROGRESS_ENDING):
                    (self._folder / (name + ending)).unlink(missing_ok=True)
                self._sync_folder()
            return removed is not None

    def save_progress(self, name: str, change: Callable[[Progress], Progress]) -> Progress | None:
        """Change and store how far a webhook has got; return it, or None if it has been deleted meanwhile."""
        with self._writing:
            before = self._progress.get(name)
            if before is None:
                return None
            after = change(before)
            if after != before:
                self._write(name + PROGRESS_ENDING, {"format": FORMAT, **asdict(after)})
                with self._lock:
                    self._progress[name] = after
            return after

    def _load(self) -> None:
        for path in sorted(self._folder.iterdir()):
            name = path.name.partition(".")[0]
            if path.name.endswith(TEMPORARY):
                path.unlink(missing_ok=True)
            elif ID.fullmatch(name) and path.name == name + ENDING:
                try:
                    self._subscriptions[name] = _parse_subscription(_read(path), name)
                except (OSError, ValueError, KeyError, TypeError) as fault:
                    log.error("subscription %s cannot be read (%s) and is not used", name, type(fault).__name__)
        for name, subscription in self._subscriptions.items():
            if subscription.webhook is not None:
                self._progress[name] = self._load_progress(subscription)

    def _load_progress(self, subscription: Subscription) -> Progress:
        """Read the progress file. If it is missing or unreadable, begin at the start: sent twice is better than lost."""
        try:
            progress = Progress(**_read(self._folder / (subscription.id + PROGRESS_ENDING)))
            return progress if isinstance(progress.position, int) else Progress(subscription.start)
        except FileNotFoundError:
            return Progress(subscription.start)
        except (OSError, ValueError, TypeError) as fault:
            log.error("the progress of subscription %s cannot be read (%s)", subscription.id, type(fault).__name__)
            return Progress(subscription.start)

    def _write(self, name: str, document: dict[str, Any]) -> None:
        """Replace a file atomically, and sync it and the folder to disk."""
        unfinished = self._folder / (name + TEMPORARY)
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(json.dumps(document).encode())
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(self._folder / name)
        self._sync_folder()

    def _sync_folder(self) -> None:
        descriptor = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _read(path: Path) -> dict[str, Any]:
    document = json.loads(path.read_bytes())
    if not isinstance(document, dict) or document.pop("format", None) != FORMAT:
        raise ValueError("not of this format")
    return document


def _parse_subscription(document: dict[str, Any], name: str) -> Subscription:
    webhook = document.pop("webhook")
    subscription = Subscription(**document, webhook=None if webhook is None else Webhook(**webhook))
    if subscription.id != name or not isinstance(subscription.where, str) or not isinstance(subscription.start, int):
        raise ValueError("contradicts its name")
    return subscription


def advance(progress: Progress, position: int) -> Progress:
    """Move on to a position: everything up to it was accepted or did not match. Resets failures."""
    return Progress(max(position, progress.position))


def add_failure(progress: Progress, error: str, now_ns: int, *, passed_ns: int) -> Progress:
    """Add a failed attempt; `passed_ns` is the time since the last one, or 0 if an earlier run of the service made it."""
    if progress.failing_since is None:
        return replace(progress, attempts=progress.attempts + 1, failing_since=now_ns, failing_ns=0, error=error)
    failing_ns = progress.failing_ns + passed_ns
    return replace(progress, attempts=progress.attempts + 1, failing_ns=failing_ns, error=error)


def reset_failures(progress: Progress) -> Progress:
    """Forget all failures, and keep the position."""
    return Progress(progress.position)
