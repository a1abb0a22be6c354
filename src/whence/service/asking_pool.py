"""Runs questions in threads: so many at once, so long each, and no more."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol, TypeVar

from whence.history.errors import HistoryReplaced
from whence.history.questions.history import History
from whence.service.answer_bounds import bounded
from whence.service.limits import RETRY_AFTER_S, Refused

Answer = TypeVar("Answer")
ATTEMPTS = 4
"""Times that a question is asked when the history is replaced under it."""


class HistorySource(Protocol):
    """Where the newest history comes from: `whence.history.live.LiveHistory`."""

    def current(self) -> History:
        """The newest committed version. Raises `NoHistory` before the first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionLimits:
    """Bounds of questions."""

    at_once: int = 8
    """Questions that are worked on; one more is refused with 503 at once, because waiting ones would only pile up."""
    question_s: float = 20.0
    """After which the asker is told to ask for less. A sweep of ``why`` stops then; other questions keep their place
    until they are done, and nobody waits for them."""
    answer_bytes: int = 8 << 20
    """Text of the events that an answer shows; longer ones are cut."""
    bytes_held: int = 128 << 20
    """Answers that are on their way to those who asked: while they are more, questions are refused with 503."""


class Deadline:
    """When a question must be done; asked now and then by whatever can stop."""

    def __init__(self, limits: QuestionLimits) -> None:
        self._limits = limits
        self._end = time.monotonic() + limits.question_s

    def check(self, *_: object) -> None:
        """Raise `Refused` if it is over."""
        if time.monotonic() > self._end:
            raise too_long(self._limits)


class Asker:
    """Asks the newest history, in a thread of its own pool. Belongs to one event loop."""

    def __init__(self, live: HistorySource, limits: QuestionLimits) -> None:
        self.limits = limits
        self._live = live
        self._pool = ThreadPoolExecutor(limits.at_once, thread_name_prefix="question")
        self._running = 0
        self.held_bytes = 0
        """Of answers that are still to be sent."""

    async def ask(self, question: Callable[[History, Deadline], Answer]) -> Answer:
        """The answer of the newest history, its events bounded. Raises `Refused`, and what the question raises."""
        if self._running >= self.limits.at_once or self.held_bytes >= self.limits.bytes_held:
            raise Refused(503, "busy", "too many questions at once: ask again", retry_after_s=RETRY_AFTER_S)
        self._running += 1
        loop = asyncio.get_running_loop()
        deadline = Deadline(self.limits)

        def answered(history: History) -> Answer:
            return question(bounded(history, self.limits.answer_bytes, deadline.check), deadline)

        asked = self._pool.submit(lambda: newest(self._live, answered))
        asked.add_done_callback(lambda _: self._tell(loop))
        try:
            async with asyncio.timeout(self.limits.question_s):
                return await asyncio.wrap_future(asked)
        except TimeoutError:
            raise too_long(self.limits) from None

    def _tell(self, loop: asyncio.AbstractEventLoop) -> None:
        # A question may outlive the loop that it was asked in.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(self._done)

    def _done(self) -> None:
        self._running -= 1

    def close(self) -> None:
        """Take no more questions."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def newest(live: HistorySource, question: Callable[[History], Answer]) -> Answer:
    """The answer of the newest history, asked again when it is replaced meanwhile."""
    for _ in range(ATTEMPTS - 1):
        try:
            return question(live.current())
        except HistoryReplaced:
            continue
    return question(live.current())


def too_long(limits: QuestionLimits) -> Refused:
    """The refusal of a question that takes too long."""
    told = f"the question takes longer than {limits.question_s:g} s: ask for less, or ask with the command line"
    return Refused(503, "too-long", told, retry_after_s=60)
