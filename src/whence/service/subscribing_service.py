"""`Subscriptions`: all that is running for subscribers of one live history."""

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

from whence.history.errors import HistoryError, NoHistory
from whence.history.storage import StorageError
from whence.service.limits import RETRY_AFTER_S, Refused
from whence.service.matching import EVALUATION_S, Matchers
from whence.service.matching_limits import ConditionLimits
from whence.service.sse import KEEP_ALIVE, frame, opening_frame, position_frame
from whence.service.subscribing_documents import NewSubscription, subscription_document
from whence.service.subscribing_steps import LiveLog, Step, Teller
from whence.service.subscribing_watch import Watch
from whence.service.subscriptions import (
    MOST_OF_ONE,
    MOST_SUBSCRIPTIONS,
    Subscription,
    SubscriptionStore,
    Webhook,
    resumed,
)
from whence.service.webhooks import WebhookLimits, Webhooks
from whence.service.webhooks_sending import WebhookHosts

log = logging.getLogger("whence.service")


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionLimits:
    """Bounds of subscriptions."""

    subscriptions: int = MOST_SUBSCRIPTIONS
    subscriptions_of_one: int = MOST_OF_ONE
    """Of one reader's token, where there are tokens."""
    streams: int = 200
    """Clients that read events at once."""
    streams_of_one: int = 100
    """With one reader's token, where there are tokens."""
    evaluation_s: float = EVALUATION_S
    """For one condition on one step through the log."""
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
        self._store = SubscriptionStore(
            folder, most=self.limits.subscriptions, most_of_one=self.limits.subscriptions_of_one
        )
        self._conditions = ConditionLimits()
        self._matchers = Matchers(evaluation_s=self.limits.evaluation_s)
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
        self._streams: Counter[str] = Counter()
        """By owner."""
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

    async def add(self, new: NewSubscription, owner: str = "") -> dict[str, Any]:
        """Keep a new subscription; its document, with the secret if it was made here. Raises `Refused`, `BadCondition`."""
        if new.webhook is not None:
            self._hosts.target(new.webhook.url)
        made = await self._watch.in_thread(partial(self._add, new, owner))
        self._webhooks.start(made)
        document = await self.document(made)
        if made.webhook is not None and new.webhook is not None and new.webhook.secret is None:
            document["secret"] = made.webhook.secret
        return document

    def _add(self, new: NewSubscription, owner: str) -> Subscription:
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
            secrets.token_hex(12),
            new.where,
            new.k,
            new.computation,
            start,
            created=time.time_ns(),
            webhook=webhook,
            owner=owner,
        )
        self._store.add(made)
        return made

    def find(self, name: str) -> Subscription:
        """The subscription of this id. Raises `Refused`."""
        found = self._store.get(name)
        if found is None:
            raise Refused(404, "no-subscription", "there is no subscription of this id")
        return found

    async def documents(self) -> list[dict[str, Any]]:
        """All subscriptions, oldest first."""
        return await self._watch.in_thread(lambda: [self._document(each) for each in self._store.all()])

    async def document(self, subscription: Subscription) -> dict[str, Any]:
        """A subscription and how its webhook is doing."""
        return await self._watch.in_thread(partial(self._document, subscription))

    def _document(self, subscription: Subscription) -> dict[str, Any]:
        progress = self._store.progress(subscription.id)
        origin, state = "", ""
        if progress is not None and subscription.webhook is not None:
            parts = urlsplit(subscription.webhook.url)
            origin = f"{parts.scheme}://{parts.netloc}"
            state = "suspended" if subscription.suspended is not None else self.limits.webhooks.state(progress)
        warning = self._teller.warning(subscription)
        return subscription_document(subscription, progress, origin=origin, state=state, warning=warning)

    async def remove(self, name: str) -> None:
        """Forget a subscription: its webhook stops, and its streams end. Raises `Refused`."""
        self.find(name)
        await self._webhooks.stop(name)
        await self._watch.in_thread(partial(self._store.remove, name))
        self._teller.forget(name)
        self._watch.wake()

    async def resume(self, name: str) -> dict[str, Any]:
        """Go on at once with a suspended subscription, or with a failing webhook. Raises `Refused`."""
        found = self.find(name)
        if found.webhook is None and found.suspended is None:
            raise Refused(409, "no-webhook", "this subscription has no webhook, and is not suspended")
        await self._webhooks.stop(name)
        resumed_one = await self._watch.in_thread(partial(self._store.suspend, name, None))
        if resumed_one is None:
            raise Refused(404, "no-subscription", "there is no subscription of this id")
        await self._watch.in_thread(partial(self._store.save_progress, name, resumed))
        self._webhooks.start(resumed_one)
        return await self.document(resumed_one)

    async def stream(self, subscription: Subscription, after: int | None, owner: str = "") -> AsyncIterator[bytes]:
        """The frames of what the subscription has after a number, or from its start. Raises `Refused` before the first."""
        too_many = self._streams.total() >= self.limits.streams
        too_many = too_many or (owner != "" and self._streams[owner] >= self.limits.streams_of_one)
        if too_many or self._closing:
            raise Refused(503, "busy", "too many streams at once: connect again", retry_after_s=RETRY_AFTER_S)
        if subscription.suspended is not None:
            raise Refused(409, "suspended", f"{subscription.suspended}; resume it, or make another")
        if after is not None and after > (last := await self._watch.in_thread(self._last_delivery)):
            raise Refused(400, "ahead", f"the log of deliveries ends with number {last}")
        start = subscription.start if after is None else max(after, subscription.start)
        return self._frames(subscription, start, owner)

    async def _frames(self, subscription: Subscription, after: int, owner: str) -> AsyncIterator[bytes]:
        self._streams[owner] += 1
        try:
            yield opening_frame(self.limits.retry_ms)
            told_upto, position = after, after
            spoken_s = time.monotonic()
            while not self._closing:
                seen = self._watch.changes
                step = await self._step(subscription, position)
                if self._store.get(subscription.id) is None:
                    return
                if step.suspended is not None:
                    await self._watch.in_thread(partial(self._store.suspend, subscription.id, step.suspended))
                    yield suspended_frame(subscription, step.suspended, number=position)
                    return
                for told in step.told:
                    yield frame(told.text, number=told.number, event=None if told.kind == "answer" else told.kind)
                    told_upto, spoken_s = told.number, time.monotonic()
                position = max(position, step.upto)
                if step.at_end:
                    pause_s = self.limits.keep_alive_s - (time.monotonic() - spoken_s)
                    await self._watch.changed(seen, timeout_s=max(0.0, pause_s))
                if time.monotonic() - spoken_s >= self.limits.keep_alive_s:
                    yield position_frame(position) if position > told_upto else KEEP_ALIVE
                    told_upto, spoken_s = position, time.monotonic()
        finally:
            self._streams[owner] -= 1

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


def suspended_frame(subscription: Subscription, reason: str, *, number: int) -> bytes:
    """That nothing more comes until the subscription is resumed."""
    document = {"type": "suspended", "subscription": subscription.id, "reason": reason}
    return frame(json.dumps(document), number=number, event="suspended")
