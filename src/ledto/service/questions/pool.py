"""Run questions in threads: a bounded number at once, each for a bounded time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol, TypeVar

from ledto.history.errors import HistoryReplaced
from ledto.questions.history import History
from ledto.service.http.limits import RETRY_AFTER_S, RequestRefused
from ledto.service.questions.bounds import bound_answers

Answer = TypeVar("Answer")
ATTEMPTS = 4
"""How often a question is asked if the history is replaced each time."""


class HistorySource(Protocol):
    """What gives the newest history: `ledto.live.LiveHistory`."""

    def current(self) -> History:
        """Return the newest committed version. Raises `NoHistory` before the first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionLimits:
    """Bounds of questions."""

    at_once: int = 8
    """The most questions that run at once. One more is refused with 503 at once: a queue would only grow."""
    question_s: float = 20.0
    """Seconds after which a question is refused. A sweep of ``why`` stops then. Other questions run on, count in
    `at_once` until they end, and their answers are dropped."""
    answer_bytes: int = 8 << 20
    """The most text of the events in one answer; the longest texts are cut to fit."""
    bytes_held: int = 128 << 20
    """The most bytes of answers that are being sent. While there are more, questions are refused with 503."""


class Deadline:
    """When a question must be done. Work that can stop calls `check` now and then."""

    def __init__(self, limits: QuestionLimits) -> None:
        self._limits = limits
        self._end = time.monotonic() + limits.question_s

    def check(self, *_: object) -> None:
        """Raise `RequestRefused` if the time is over."""
        if time.monotonic() > self._end:
            raise too_long(self._limits)


class Asker:
    """Asks the newest history, in threads. Belongs to one event loop."""

    def __init__(self, live: HistorySource, limits: QuestionLimits) -> None:
        self.limits = limits
        self._live = live
        self._pool = ThreadPoolExecutor(limits.at_once, thread_name_prefix="question")
        self._running = 0
        self.held_bytes = 0
        """Bytes of answers that are being sent."""

    async def ask(self, question: Callable[[History, Deadline], Answer]) -> Answer:
        """Ask the newest history, with bounded events. Raises `RequestRefused`, and what the question raises."""
        if self._running >= self.limits.at_once or self.held_bytes >= self.limits.bytes_held:
            raise RequestRefused(503, "busy", "too many questions at once: ask again", retry_after_s=RETRY_AFTER_S)
        self._running += 1
        loop = asyncio.get_running_loop()
        deadline = Deadline(self.limits)

        def ask_bounded(history: History) -> Answer:
            return question(bound_answers(history, self.limits.answer_bytes, deadline.check), deadline)

        future = self._pool.submit(lambda: ask_newest(self._live, ask_bounded))
        future.add_done_callback(lambda _: self._notify_done(loop))
        try:
            async with asyncio.timeout(self.limits.question_s):
                return await asyncio.wrap_future(future)
        except TimeoutError:
            raise too_long(self.limits) from None

    def _notify_done(self, loop: asyncio.AbstractEventLoop) -> None:
        # A question may end after its event loop has closed.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(self._count_done)

    def _count_done(self) -> None:
        self._running -= 1

    def close(self) -> None:
        """Accept no more questions; do not wait for those that run."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def ask_newest(live: HistorySource, question: Callable[[History], Answer]) -> Answer:
    """Ask the newest history; ask again if it is replaced meanwhile. Raises `HistoryReplaced` after `ATTEMPTS`."""
    for _ in range(ATTEMPTS - 1):
        try:
            return question(live.current())
        except HistoryReplaced:
            continue
    return question(live.current())


def too_long(limits: QuestionLimits) -> RequestRefused:
    """Make the refusal of a question that takes too long."""
    message = f"the question takes longer than {limits.question_s:g} s: ask for less, or ask with the command line"
    return RequestRefused(503, "too-long", message, retry_after_s=60)
