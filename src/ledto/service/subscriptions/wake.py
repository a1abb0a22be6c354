"""Wake streams and webhooks when a live history has changed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from ledto.history.errors import HistoryError
from ledto.history.store import StorageError
from ledto.service.subscriptions.notifications import LiveLog

log = logging.getLogger("ledto.service")
Value = TypeVar("Value")


class CommitWatch:
    """Polls a live history in a thread, and counts its changes. Belongs to one event loop."""

    def __init__(self, live: LiveLog, *, poll_s: float, threads: int) -> None:
        self.changes = 0
        """The count. Read it before reading the log, and pass it to `changed` afterwards, to miss no change between."""
        self._live = live
        self._poll_s = poll_s
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="subscription")
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Poll until cancelled."""
        last: tuple[int, int] | None = None
        while True:
            current = last
            try:
                current = await self.in_thread(self._poll)
            except (HistoryError, StorageError, OSError) as fault:
                log.warning("the live history cannot be read (%s); trying again", type(fault).__name__)
            if current != last:
                last = current
                self.wake()
            await asyncio.sleep(self._poll_s)

    def wake(self) -> None:
        """Wake everybody who waits."""
        self.changes += 1
        self._changed.set()
        self._changed = asyncio.Event()

    async def changed(self, seen: int, *, timeout_s: float) -> bool:
        """Wait until the count is not `seen`; return False if that takes longer than `timeout_s`."""
        if self.changes != seen:
            return True
        try:
            async with asyncio.timeout(timeout_s):
                await self._changed.wait()
        except TimeoutError:
            return False
        return True

    async def in_thread(self, work: Callable[[], Value]) -> Value:
        """Run blocking work in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    def close(self) -> None:
        """Accept no more work; do not wait for what runs."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _poll(self) -> tuple[int, int]:
        return self._live.version, self._live.last_delivery()
