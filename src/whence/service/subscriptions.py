"""Subscriptions: what they are, and how they outlive the service.

Each is a small file, ``<id>.json``, written whole or not at all, and readable by its owner only because it may hold the
secret of a webhook. How far a webhook has got stands beside it, in ``<id>.progress.json``, and is written after every
delivery that its receiver took.
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

from whence.service.limits import Refused

log = logging.getLogger("whence.service")

MOST_SUBSCRIPTIONS: Final = 200
MOST_OF_ONE: Final = 100
"""Subscriptions of one owner: half of all, so that others find room."""
ID = re.compile(r"[0-9a-f]{24}")
ENDING, PROGRESS_ENDING, TEMPORARY = ".json", ".progress.json", ".new"
FORMAT: Final = 1


@dataclass(frozen=True, slots=True)
class Webhook:
    """Where answers are sent, and what they are signed with."""

    url: str
    secret: str

    def __repr__(self) -> str:
        return "Webhook(...)"


@dataclass(frozen=True, slots=True)
class Subscription:
    """Tell of every delivered event that meets a condition."""

    id: str
    where: str
    """A condition on the columns of the log of deliveries and on attributes."""
    k: int
    """How many events that led to it are told."""
    computation: str | None
    """Only events of this computation."""
    start: int
    """Only deliveries of a higher number."""
    created: int
    """Nanoseconds since 1970."""
    webhook: Webhook | None = None
    owner: str = ""
    """The name of the reader who made it; all of one owner's are counted together."""
    suspended: str | None = None
    """Why nothing is told of it until it is resumed; None while it goes on."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a webhook has got."""

    position: int
    """Everything up to this number was taken, or was none of the subscription's."""
    attempts: int = 0
    """How often the next one was sent in vain."""
    failing_since: int | None = None
    """When that began, in nanoseconds since 1970: to be shown. A clock that is set does not make it longer ago."""
    failing_ns: int = 0
    """How long it has failed while the service ran, by a clock that nobody sets."""
    error: str | None = None
    """What the last attempt ended with."""
    suspended: bool = False
    """Whether it is no longer tried."""


class SubscriptionStore:
    """The subscriptions of a folder. Threads may share it; two processes may not."""

    def __init__(self, folder: Path, *, most: int = MOST_SUBSCRIPTIONS, most_of_one: int | None = None) -> None:
        self._folder = folder
        self._most = most
        self._most_of_one = most if most_of_one is None else most_of_one
        # Readers are in the event loop and must not wait for a disk: writers hold the first lock, both hold the second
        # for as long as it takes to change a dict.
        self._writing, self._lock = Lock(), Lock()
        self._subscriptions: dict[str, Subscription] = {}
        self._progress: dict[str, Progress] = {}
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._load()

    def all(self) -> list[Subscription]:
        """Oldest first."""
        with self._lock:
            return sorted(self._subscriptions.values(), key=lambda each: (each.created, each.id))

    def get(self, name: str) -> Subscription | None:
        """The subscription of this id."""
        with self._lock:
            return self._subscriptions.get(name)

    def progress(self, name: str) -> Progress | None:
        """How far its webhook has got; None without one."""
        with self._lock:
            return self._progress.get(name)

    def add(self, subscription: Subscription) -> None:
        """Keep it; when this returns, it survives a crash. Raises `Refused` when there are too many."""
        with self._writing:
            if len(self._subscriptions) >= self._most:
                raise Refused(
                    409, "too-many", f"there are {self._most:,} subscriptions, which is the limit: delete one"
                )
            mine = [each for each in self._subscriptions.values() if each.owner == subscription.owner != ""]
            if len(mine) >= self._most_of_one:
                raise Refused(
                    409, "too-many", f"you have {self._most_of_one:,} subscriptions, which is the limit: delete one"
                )
            self._write(subscription.id + ENDING, {"format": FORMAT, **asdict(subscription)})
            with self._lock:
                self._subscriptions[subscription.id] = subscription
                if subscription.webhook is not None:
                    self._progress[subscription.id] = Progress(subscription.start)

    def suspend(self, name: str, reason: str | None) -> Subscription | None:
        """Note why nothing is told of it, durably, or with None that it goes on; None if it has been deleted meanwhile."""
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
        """Forget it; whether it was there."""
        with self._writing:
            with self._lock:
                found = self._subscriptions.pop(name, None)
                self._progress.pop(name, None)
            if found is not None:
                for ending in (ENDING, PROGRESS_ENDING):
                    (self._folder / (name + ending)).unlink(missing_ok=True)
                self._sync_folder()
            return found is not None

    def save_progress(self, name: str, change: Callable[[Progress], Progress]) -> Progress | None:
        """Change how far a webhook has got, durably; None if it has been deleted meanwhile."""
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
                    self._subscriptions[name] = _subscription(_read(path), name)
                except (OSError, ValueError, KeyError, TypeError) as fault:
                    log.error("subscription %s cannot be read (%s) and is left aside", name, type(fault).__name__)
        for name, subscription in self._subscriptions.items():
            if subscription.webhook is not None:
                self._progress[name] = self._loaded_progress(subscription)

    def _loaded_progress(self, subscription: Subscription) -> Progress:
        """What was written last; where nothing was, or it cannot be read, everything is sent again rather than lost."""
        try:
            found = Progress(**_read(self._folder / (subscription.id + PROGRESS_ENDING)))
            return found if isinstance(found.position, int) else Progress(subscription.start)
        except FileNotFoundError:
            return Progress(subscription.start)
        except (OSError, ValueError, TypeError) as fault:
            log.error("the progress of subscription %s cannot be read (%s)", subscription.id, type(fault).__name__)
            return Progress(subscription.start)

    def _write(self, name: str, document: dict[str, Any]) -> None:
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
    found = json.loads(path.read_bytes())
    if not isinstance(found, dict) or found.pop("format", None) != FORMAT:
        raise ValueError("not of this format")
    return found


def _subscription(found: dict[str, Any], name: str) -> Subscription:
    webhook = found.pop("webhook")
    read = Subscription(**found, webhook=None if webhook is None else Webhook(**webhook))
    if read.id != name or not isinstance(read.where, str) or not isinstance(read.start, int):
        raise ValueError("contradicts its name")
    return read


def taken(progress: Progress, position: int) -> Progress:
    """After a receiver took a delivery, or after looking at others that were not for it."""
    return Progress(max(position, progress.position))


def failed(progress: Progress, error: str, now_ns: int, *, passed_ns: int) -> Progress:
    """After an attempt in vain; `passed_ns` is the time since the last one, if this run of the service made it."""
    if progress.failing_since is None:
        return replace(progress, attempts=progress.attempts + 1, failing_since=now_ns, failing_ns=0, error=error)
    longer_ns = progress.failing_ns + passed_ns
    return replace(progress, attempts=progress.attempts + 1, failing_ns=longer_ns, error=error)


def resumed(progress: Progress) -> Progress:
    """To be tried again from where it is."""
    return Progress(progress.position)
