"""Send notifications to webhooks: in order, each until it is accepted, and across restarts of the service.

Each one is sent at least once: if the service is killed right after a receiver accepted a delivery, it is sent again with
the same `Ledto-Delivery`. A delivery that is not accepted is sent again with growing pauses, and later ones wait for it.
After `failing_after_s` of failures a webhook is shown as failing. After `most_age_s` it is suspended; it keeps its
position, and continues there when it is resumed. After an unexpected fault, `Webhooks._follow` logs it and starts again
after a pause.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from random import Random

from ledto.service.http.limits import RequestRefused
from ledto.service.subscriptions.notifications import Notification, Notifier
from ledto.service.subscriptions.store import Progress, Subscription, SubscriptionStore, add_failure, advance
from ledto.service.subscriptions.wake import CommitWatch
from ledto.service.webhooks.client import NotAccepted, WebhookHosts, WebhookTarget, send
from ledto.service.webhooks.signatures import DELIVERY_HEADER, SIGNATURE_HEADER, TIMESTAMP_HEADER, sign_body

log = logging.getLogger("ledto.service")
NS = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookLimits:
    """Time limits and pauses of webhooks."""

    answer_s: float = 10.0
    """The longest time for a receiver to answer."""
    first_retry_s: float = 1.0
    """The pause before the second attempt. It doubles each time, and each is shortened at random by up to half."""
    most_retry_s: float = 300.0
    """The longest pause between two attempts."""
    failing_after_s: float = 600.0
    most_age_s: float = 3 * 86_400.0
    """How long a delivery is tried after its first failure; only time in which the service runs counts."""
    save_s: float = 5.0
    """The least time between two saves of the position while nothing in the log matches."""

    def pause_s(self, attempts: int, random: Random) -> float:
        """Return the pause before the next attempt, after so many."""
        whole = min(self.most_retry_s, self.first_retry_s * 2.0 ** min(max(0, attempts - 1), 40))
        return whole * (1 - random.random() / 2)

    def state(self, progress: Progress) -> str:
        """Return the state of a webhook: ok, retrying, failing or suspended."""
        if progress.suspended:
            return "suspended"
        if progress.failing_since is None:
            return "ok"
        return "failing" if progress.failing_ns > self.failing_after_s * NS else "retrying"


class Webhooks:
    """The webhooks of all subscriptions, one task for each. Belongs to one event loop."""

    def __init__(
        self,
        store: SubscriptionStore,
        notifier: Notifier,
        watch: CommitWatch,
        hosts: WebhookHosts,
        *,
        limits: WebhookLimits,
        random: Random,
        now_ns: Callable[[], int] = time.time_ns,
        elapsed_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self.limits = limits
        self._store = store
        self._notifier = notifier
        self._watch = watch
        self._hosts = hosts
        self._random = random
        self._now_ns = now_ns
        self._elapsed_ns = elapsed_ns
        self._failed_at: dict[str, int] = {}
        """By subscription: when its last attempt failed, by the monotonic clock."""
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def start(self, subscription: Subscription) -> None:
        """Start to send a subscription's notifications from its position on; do nothing without a webhook."""
        running = self._tasks.get(subscription.id)
        if subscription.webhook is not None and (running is None or running.done()):
            self._tasks[subscription.id] = asyncio.create_task(self._follow(subscription))

    async def stop(self, name: str) -> None:
        """Stop sending a subscription's notifications."""
        self._failed_at.pop(name, None)
        task = self._tasks.pop(name, None)
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def close(self) -> None:
        """Stop all webhooks. Their positions are stored already."""
        for name in list(self._tasks):
            await self.stop(name)

    async def _follow(self, subscription: Subscription) -> None:
        faults = 0
        while True:
            try:
                await self._follow_until_suspended(subscription)
            except RequestRefused:
                # The service was started with other hosts than when the subscription was made.
                await self._change(
                    subscription, self._after_failure(subscription.id, "host not allowed", for_good=True)
                )
            except Exception as fault:
                faults += 1
                log.error("webhook of subscription %s: unexpected %s", subscription.id, type(fault).__name__)
                await asyncio.sleep(self.limits.pause_s(faults, self._random))
                continue
            return

    async def _follow_until_suspended(self, subscription: Subscription) -> None:
        assert subscription.webhook is not None
        target = self._hosts.parse_target(subscription.webhook.url)
        saved_s = time.monotonic()
        progress = self._store.progress(subscription.id)
        if progress is None or progress.suspended or subscription.suspended is not None:
            return
        position = progress.position
        while True:
            seen = self._watch.changes
            after = position
            page = await self._watch.in_thread(partial(self._notifier.read_page, subscription, after))
            if page.suspended is not None:
                await self._watch.in_thread(partial(self._store.suspend, subscription.id, page.suspended))
                return
            for notification in page.notifications:
                if not await self._send_until_accepted(subscription, target, notification):
                    return
                position, saved_s = notification.number, time.monotonic()
            position = max(position, page.upto)
            if position > after and time.monotonic() - saved_s > self.limits.save_s:
                saved_s = time.monotonic()
                if await self._advance(subscription, position) is None:
                    return
            if page.at_end:
                await self._watch.changed(seen, timeout_s=60.0)

    async def _send_until_accepted(
        self, subscription: Subscription, target: WebhookTarget, notification: Notification
    ) -> bool:
        """Send until the receiver accepts; return False if the subscription was suspended or deleted instead."""
        while True:
            try:
                await self._send(subscription, target, notification)
            except NotAccepted as fault:
                progress = await self._change(subscription, self._after_failure(subscription.id, str(fault)))
                if progress is None or progress.suspended:
                    return False
                await asyncio.sleep(self.limits.pause_s(progress.attempts, self._random))
                continue
            return await self._advance(subscription, notification.number) is not None

    async def _send(self, subscription: Subscription, target: WebhookTarget, notification: Notification) -> None:
        assert subscription.webhook is not None
        body = notification.text.encode()
        timestamp = self._now_ns() // NS
        # A delivery with this number may have been sent before. The receiver must not take this for a repetition.
        number = f"trimmed-{notification.number}" if notification.kind == "trimmed" else str(notification.number)
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "ledto",
            DELIVERY_HEADER: f"{subscription.id}/{number}",
            TIMESTAMP_HEADER: str(timestamp),
            SIGNATURE_HEADER: sign_body(subscription.webhook.secret, timestamp, body),
        }
        await send(target, body, headers, timeout_s=self.limits.answer_s)

    def _after_failure(self, name: str, error: str, *, for_good: bool = False) -> Callable[[Progress], Progress]:
        now, elapsed = self._now_ns(), self._elapsed_ns()
        passed = elapsed - self._failed_at.get(name, elapsed)
        self._failed_at[name] = elapsed

        def change(progress: Progress) -> Progress:
            after = add_failure(progress, error, now, passed_ns=passed)
            return replace(after, suspended=for_good or after.failing_ns > self.limits.most_age_s * NS)

        return change

    async def _advance(self, subscription: Subscription, position: int) -> Progress | None:
        return await self._change(subscription, lambda progress: advance(progress, position))

    async def _change(self, subscription: Subscription, change: Callable[[Progress], Progress]) -> Progress | None:
        return await self._watch.in_thread(lambda: self._store.save_progress(subscription.id, change))
