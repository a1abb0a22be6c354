"""Wakes those who wait for deliveries."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from whence.history.errors import HistoryError
from whence.history.storage import StorageError
from whence.service.subscribing_steps import LiveLog

log = logging.getLogger("whence.service")
Value = TypeVar("Value")


class Watch:
    """Looks at a live history now and then, in a thread, and counts its changes. Belongs to one event loop."""

    def __init__(self, live: LiveLog, *, poll_s: float, threads: int) -> None:
        self.changes = 0
        """Taken before a look at the log and given to `changed` after it, no change between the two is missed."""
        self._live = live
        self._poll_s = poll_s
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="subscription")
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Look until cancelled."""
        seen: tuple[int, int] | None = None
        while True:
            found = seen
            try:
                found = await self.in_thread(self._look)
            except (HistoryError, StorageError, OSError) as fault:
                log.warning("the live history cannot be read (%s); looking again", type(fault).__name__)
            if found != seen:
                seen = found
                self.wake()
            await asyncio.sleep(self._poll_s)

    def wake(self) -> None:
        """Have everybody look."""
        self.changes += 1
        self._changed.set()
        self._changed = asyncio.Event()

    async def changed(self, seen: int, *, timeout_s: float) -> bool:
        """Wait for a change after the count was `seen`; whether there was one in time."""
        if self.changes != seen:
            return True
        try:
            async with asyncio.timeout(timeout_s):
                await self._changed.wait()
        except TimeoutError:
            return False
        return True

    async def in_thread(self, work: Callable[[], Value]) -> Value:
        """Run what blocks."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    def close(self) -> None:
        """Start no more threads."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _look(self) -> tuple[int, int]:
        return self._live.version, self._live.last_delivery()
