"""Run everything for the subscribers of one live history."""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import time
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import urlsplit

from ledto.history.errors import HistoryError, NoHistory
from ledto.history.store import StorageError
from ledto.service.http.limits import RETRY_AFTER_S, RequestRefused
from ledto.service.http.sse import KEEP_ALIVE, write_event, write_opening, write_position
from ledto.service.questions.conditions import ConditionLimits
from ledto.service.subscriptions.documents import NewSubscription, subscription_document
from ledto.service.subscriptions.match import EVALUATION_S, Matchers
from ledto.service.subscriptions.notifications import LiveLog, NotificationPage, Notifier
from ledto.service.subscriptions.store import (
    MOST_OF_ONE,
    MOST_SUBSCRIPTIONS,
    Subscription,
    SubscriptionStore,
    Webhook,
    reset_failures,
)
from ledto.service.subscriptions.wake import CommitWatch
from ledto.service.webhooks.client import WebhookHosts
from ledto.service.webhooks.worker import WebhookLimits, Webhooks

log = logging.getLogger("ledto.service")


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionLimits:
    """Bounds of subscriptions."""

    subscriptions: int = MOST_SUBSCRIPTIONS
    subscriptions_of_one: int = MOST_OF_ONE
    """The most subscriptions of one reader, if there are tokens."""
    streams: int = 200
    """The most clients that read events at once."""
    streams_of_one: int = 100
    """The most clients of one reader, if there are tokens."""
    evaluation_s: float = EVALUATION_S
    """The longest time for one condition on one page of the log."""
    poll_s: float = 0.2
    """Seconds between two checks for a new version of the history."""
    keep_alive_s: float = 15.0
    """Seconds after which a stream without events sends a comment."""
    stall_s: float = 30.0
    """Seconds after which a client that reads nothing is disconnected."""
    retry_ms: int = 2_000
    """How long clients are asked to wait before they connect again."""
    threads: int = 4
    webhooks: WebhookLimits = field(default_factory=WebhookLimits)


class Subscriptions:
    """The subscriptions stored in a folder, and their streams and webhooks. Belongs to one event loop.

    The lifespan of `subscriptions_router` calls `start` and `stop`. HAZARD: a server that waits for its connections at the
    end waits for every stream, so call `close_streams` first.
    """

    def __init__(
        self,
        live: LiveLog,
        folder: Path,
        *,
        webhook_hosts: WebhookHosts | None = None,
        limits: SubscriptionLimits | None = None,
        random: Random | None = None,
    ) -> None:
        self.limits = limits or SubscriptionLimits()
        self._live = live
        self._hosts = webhook_hosts or WebhookHosts()
        self._store = SubscriptionStore(
            folder, most=self.limits.subscriptions, most_of_one=self.limits.subscriptions_of_one
        )
        self._conditions = ConditionLimits()
        self._matchers = Matchers(evaluation_s=self.limits.evaluation_s)
        self._notifier = Notifier(live, self._matchers)
        self._watch = CommitWatch(live, poll_s=self.limits.poll_s, threads=self.limits.threads)
        self._webhooks = Webhooks(
            self._store,
            self._notifier,
            self._watch,
            self._hosts,
            limits=self.limits.webhooks,
            random=random or Random(),
        )
        self._watching: asyncio.Task[None] | None = None
        self._streams: Counter[str] = Counter()
        """By owner: the number of open streams."""
        self._closing = False

    async def start(self) -> None:
        """Watch the history, and continue all webhooks."""
        self._watching = asyncio.create_task(self._watch.run())
        for subscription in self._store.all():
            self._webhooks.start(subscription)

    async def stop(self) -> None:
        """End streams, webhooks and threads."""
        self.close_streams()
        await self._webhooks.close()
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        self._watch.close()

    def close_streams(self) -> None:
        """End every stream; its client may connect again with its last number. Call this in the event loop."""
        self._closing = True
        self._watch.wake()

    async def add(self, new: NewSubscription, owner: str = "") -> dict[str, Any]:
        """Store a new subscription; return its document, with the secret if it was made here.

        Raises `RequestRefused` or `BadCondition`.
        """
        if new.webhook is not None:
            self._hosts.parse_target(new.webhook.url)
        subscription = await self._watch.in_thread(partial(self._add, new, owner))
        self._webhooks.start(subscription)
        document = await self.document(subscription)
        if subscription.webhook is not None and new.webhook is not None and new.webhook.secret is None:
            document["secret"] = subscription.webhook.secret
        return document

    def _add(self, new: NewSubscription, owner: str) -> Subscription:
        self._conditions.check(new.where)
        self._matchers.make(new.where)
        last = self._last_delivery()
        start = {"now": last, "start": 0}[new.start] if isinstance(new.start, str) else new.start
        if start > last:
            raise RequestRefused(400, "ahead", f"the log of deliveries ends with number {last}")
        webhook = None
        if new.webhook is not None:
            webhook = Webhook(new.webhook.url, new.webhook.secret or secrets.token_urlsafe(32))
        subscription = Subscription(
            secrets.token_hex(12),
            new.where,
            new.k,
            new.computation,
            start,
            created=time.time_ns(),
            webhook=webhook,
            owner=owner,
        )
        self._store.add(subscription)
        return subscription

    def find(self, name: str) -> Subscription:
        """Return the subscription with this id. Raises `RequestRefused`."""
        subscription = self._store.get(name)
        if subscription is None:
            raise RequestRefused(404, "no-subscription", "there is no subscription with this id")
        return subscription

    async def documents(self) -> list[dict[str, Any]]:
        """Return the documents of all subscriptions, oldest first."""
        return await self._watch.in_thread(lambda: [self._make_document(one) for one in self._store.all()])

    async def document(self, subscription: Subscription) -> dict[str, Any]:
        """Return the document of a subscription, with the state of its webhook."""
        return await self._watch.in_thread(partial(self._make_document, subscription))

    def _make_document(self, subscription: Subscription) -> dict[str, Any]:
        progress = self._store.progress(subscription.id)
        origin, state = "", ""
        if progress is not None and subscription.webhook is not None:
            parts = urlsplit(subscription.webhook.url)
            origin = f"{parts.scheme}://{parts.netloc}"
            state = "suspended" if subscription.suspended is not None else self.limits.webhooks.state(progress)
        warning = self._notifier.warning(subscription)
        return subscription_document(subscription, progress, origin=origin, state=state, warning=warning)

    async def remove(self, name: str) -> None:
        """Delete a subscription; stop its webhook, and end its streams. Raises `RequestRefused`."""
        self.find(name)
        await self._webhooks.stop(name)
        await self._watch.in_thread(partial(self._store.remove, name))
        self._notifier.forget(name)
        self._watch.wake()

    async def resume(self, name: str) -> dict[str, Any]:
        """Continue a suspended subscription, or one with a failing webhook, at once. Raises `RequestRefused`."""
        subscription = self.find(name)
        if subscription.webhook is None and subscription.suspended is None:
            raise RequestRefused(409, "no-webhook", "this subscription has no webhook, and is not suspended")
        await self._webhooks.stop(name)
        resumed = await self._watch.in_thread(partial(self._store.suspend, name, None))
        if resumed is None:
            raise RequestRefused(404, "no-subscription", "there is no subscription with this id")
        await self._watch.in_thread(partial(self._store.save_progress, name, reset_failures))
        self._webhooks.start(resumed)
        return await self.document(resumed)

    async def stream(self, subscription: Subscription, after: int | None, owner: str = "") -> AsyncIterator[bytes]:
        """Return the frames of what the subscription has after a number, or from its start.

        Raises `RequestRefused` at once.
        """
        too_many = self._streams.total() >= self.limits.streams
        too_many = too_many or (owner != "" and self._streams[owner] >= self.limits.streams_of_one)
        if too_many or self._closing:
            raise RequestRefused(503, "busy", "too many streams at once: connect again", retry_after_s=RETRY_AFTER_S)
        if subscription.suspended is not None:
            raise RequestRefused(409, "suspended", f"{subscription.suspended}; resume it, or make another")
        if after is not None and after > (last := await self._watch.in_thread(self._last_delivery)):
            raise RequestRefused(400, "ahead", f"the log of deliveries ends with number {last}")
        start = subscription.start if after is None else max(after, subscription.start)
        return self._frames(subscription, start, owner)

    async def _frames(self, subscription: Subscription, after: int, owner: str) -> AsyncIterator[bytes]:
        self._streams[owner] += 1
        try:
            yield write_opening(self.limits.retry_ms)
            sent_number, position = after, after
            sent_s = time.monotonic()
            while not self._closing:
                seen = self._watch.changes
                page = await self._read_page(subscription, position)
                if self._store.get(subscription.id) is None:
                    return
                if page.suspended is not None:
                    await self._watch.in_thread(partial(self._store.suspend, subscription.id, page.suspended))
                    yield write_suspended(subscription, page.suspended, number=position)
                    return
                for one in page.notifications:
                    yield write_event(one.text, number=one.number, event=None if one.kind == "answer" else one.kind)
                    sent_number, sent_s = one.number, time.monotonic()
                position = max(position, page.upto)
                if page.at_end:
                    pause_s = self.limits.keep_alive_s - (time.monotonic() - sent_s)
                    await self._watch.changed(seen, timeout_s=max(0.0, pause_s))
                if time.monotonic() - sent_s >= self.limits.keep_alive_s:
                    yield write_position(position) if position > sent_number else KEEP_ALIVE
                    sent_number, sent_s = position, time.monotonic()
        finally:
            self._streams[owner] -= 1

    async def _read_page(self, subscription: Subscription, position: int) -> NotificationPage:
        try:
            return await self._watch.in_thread(partial(self._notifier.read_page, subscription, position))
        except (HistoryError, StorageError, OSError) as fault:
            log.warning("subscription %s waits: the history cannot be read (%s)", subscription.id, type(fault).__name__)
            return NotificationPage((), position, at_end=True)

    def _last_delivery(self) -> int:
        try:
            return self._live.last_delivery()
        except NoHistory:
            return 0


def write_suspended(subscription: Subscription, reason: str, *, number: int) -> bytes:
    """Write the last frame of a stream whose subscription was suspended."""
    document = {"type": "suspended", "subscription": subscription.id, "reason": reason}
    return write_event(json.dumps(document), number=number, event="suspended")
