"""`Subscriptions`: all that is running for subscribers of one live history."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import urlsplit

from whence.history.errors import HistoryError, NoHistory
from whence.history.storage import StorageError
from whence.service.limits import RETRY_AFTER_S, Refused
from whence.service.matching import Matchers
from whence.service.matching_limits import ConditionLimits
from whence.service.sse import KEEP_ALIVE, frame, opening_frame, position_frame
from whence.service.subscribing_documents import NewSubscription, subscription_document
from whence.service.subscribing_steps import LiveLog, Step, Teller
from whence.service.subscribing_watch import Watch
from whence.service.subscriptions import MOST_SUBSCRIPTIONS, Subscription, SubscriptionStore, Webhook, resumed
from whence.service.webhooks import WebhookLimits, Webhooks
from whence.service.webhooks_sending import WebhookHosts

log = logging.getLogger("whence.service")


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionLimits:
    """Bounds of subscriptions."""

    subscriptions: int = MOST_SUBSCRIPTIONS
    streams: int = 200
    """Clients that read events at once."""
    poll_s: float = 0.2
    """Between two looks for a new version of the history."""
    keep_alive_s: float = 15.0
    stall_s: float = 30.0
    """After which a client that takes nothing is let go."""
    retry_ms: int = 2_000
    """What clients are told to wait before they connect again."""
    threads: int = 4
    webhooks: WebhookLimits = field(default_factory=WebhookLimits)


class Subscriptions:
    """Subscriptions in a folder, told from a live history.

    `start` and `stop` run in the event loop that serves; `subscriptions_router` does that by its lifespan. HAZARD: a
    server that waits for its connections before it ends waits for every stream, so call `close_streams` when it is told
    to end.
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
        self._store = SubscriptionStore(folder, most=self.limits.subscriptions)
        self._conditions = ConditionLimits()
        self._matchers = Matchers()
        self._teller = Teller(live, self._matchers)
        self._watch = Watch(live, poll_s=self.limits.poll_s, threads=self.limits.threads)
        self._webhooks = Webhooks(
            self._store,
            self._teller,
            self._watch,
            self._hosts,
            limits=self.limits.webhooks,
            random=random or Random(),
        )
        self._watching: asyncio.Task[None] | None = None
        self._streams = 0
        self._closing = False

    async def start(self) -> None:
        """Watch the history, and go on with the webhooks."""
        self._watching = asyncio.create_task(self._watch.run())
        for subscription in self._store.all():
            self._webhooks.start(subscription)

    async def stop(self) -> None:
        """End everything."""
        self.close_streams()
        await self._webhooks.close()
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        self._watch.close()

    def close_streams(self) -> None:
        """Let every stream end; its client comes again with its last number. Called in the event loop."""
        self._closing = True
        self._watch.wake()

    async def add(self, new: NewSubscription) -> dict[str, Any]:
        """Keep a new subscription; its document, with the secret if it was made here. Raises `Refused`, `BadCondition`."""
        if new.webhook is not None:
            self._hosts.target(new.webhook.url)
        made = await self._watch.in_thread(partial(self._add, new))
        self._webhooks.start(made)
        document = self.document(made)
        if made.webhook is not None and new.webhook is not None and new.webhook.secret is None:
            document["secret"] = made.webhook.secret
        return document

    def _add(self, new: NewSubscription) -> Subscription:
        self._conditions.check(new.where)
        self._matchers.matcher(new.where)
        last = self._last_delivery()
        start = {"now": last, "start": 0}[new.start] if isinstance(new.start, str) else new.start
        if start > last:
            raise Refused(400, "ahead", f"the log of deliveries ends with number {last}")
        webhook = None
        if new.webhook is not None:
            webhook = Webhook(new.webhook.url, new.webhook.secret or secrets.token_urlsafe(32))
        made = Subscription(
            secrets.token_hex(12), new.where, new.k, new.computation, start, created=time.time_ns(), webhook=webhook
        )
        self._store.add(made)
        return made

    def find(self, name: str) -> Subscription:
        """The subscription of this id. Raises `Refused`."""
        found = self._store.get(name)
        if found is None:
            raise Refused(404, "no-subscription", "there is no subscription of this id")
        return found

    def documents(self) -> list[dict[str, Any]]:
        """All subscriptions, oldest first."""
        return [self.document(each) for each in self._store.all()]

    def document(self, subscription: Subscription) -> dict[str, Any]:
        """A subscription and how its webhook is doing."""
        progress = self._store.progress(subscription.id)
        origin, state = "", ""
        if progress is not None and subscription.webhook is not None:
            parts = urlsplit(subscription.webhook.url)
            origin = f"{parts.scheme}://{parts.netloc}"
            state = self.limits.webhooks.state(progress, time.time_ns())
        return subscription_document(subscription, progress, origin=origin, state=state)

    async def remove(self, name: str) -> None:
        """Forget a subscription: its webhook stops, and its streams end. Raises `Refused`."""
        self.find(name)
        await self._webhooks.stop(name)
        await self._watch.in_thread(partial(self._store.remove, name))
        self._teller.forget(name)
        self._watch.wake()

    async def resume(self, name: str) -> dict[str, Any]:
        """Try a suspended or failing webhook again, at once. Raises `Refused`."""
        found = self.find(name)
        if found.webhook is None:
            raise Refused(409, "no-webhook", "this subscription has no webhook")
        await self._webhooks.stop(name)
        await self._watch.in_thread(partial(self._store.save_progress, name, resumed))
        self._webhooks.start(found)
        return self.document(found)

    async def stream(self, subscription: Subscription, after: int | None) -> AsyncIterator[bytes]:
        """The frames of what the subscription has after a number, or from its start. Raises `Refused` before the first."""
        if self._streams >= self.limits.streams or self._closing:
            raise Refused(503, "busy", "too many streams at once: connect again", retry_after_s=RETRY_AFTER_S)
        if after is not None and after > (last := await self._watch.in_thread(self._last_delivery)):
            raise Refused(400, "ahead", f"the log of deliveries ends with number {last}")
        return self._frames(subscription, subscription.start if after is None else max(after, subscription.start))

    async def _frames(self, subscription: Subscription, after: int) -> AsyncIterator[bytes]:
        self._streams += 1
        try:
            yield opening_frame(self.limits.retry_ms)
            told_upto, position = after, after
            spoken_s = time.monotonic()
            while not self._closing:
                seen = self._watch.changes
                step = await self._step(subscription, position)
                if self._store.get(subscription.id) is None:
                    return
                for told in step.told:
                    yield frame(told.document, number=told.number, event=None if told.kind == "answer" else told.kind)
                    told_upto, spoken_s = told.number, time.monotonic()
                position = max(position, step.upto)
                if step.at_end:
                    pause_s = self.limits.keep_alive_s - (time.monotonic() - spoken_s)
                    await self._watch.changed(seen, timeout_s=max(0.0, pause_s))
                if time.monotonic() - spoken_s >= self.limits.keep_alive_s:
                    yield position_frame(position) if position > told_upto else KEEP_ALIVE
                    told_upto, spoken_s = position, time.monotonic()
        finally:
            self._streams -= 1

    async def _step(self, subscription: Subscription, position: int) -> Step:
        try:
            return await self._watch.in_thread(partial(self._teller.step, subscription, position))
        except (HistoryError, StorageError, OSError) as fault:
            log.warning("subscription %s waits: the history cannot be read (%s)", subscription.id, type(fault).__name__)
            return Step((), position, at_end=True)

    def _last_delivery(self) -> int:
        try:
            return self._live.last_delivery()
        except NoHistory:
            return 0
