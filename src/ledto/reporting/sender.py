"""Send records from a bounded queue in batches, oldest first, by a thread, until each batch is settled.

A batch is *settled* when the service has acknowledged it, when it is on disk, or when the service will never accept it.
Until then it is sent again, the same bytes under the same id, with growing pauses or those that the service asks for.
While the service cannot be reached, batches go to the spool. If there is no spool, or it is full, they stay in memory and
the queue fills.

HAZARD: the queue is guarded by `lock`, which belongs to the caller. The thread does not hold it during I/O, nor while it
logs: a handler of log records may report them.
"""

from __future__ import annotations

import random
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from ledto.reporting.post import Poster, PostResult, PostVerdict
from ledto.reporting.spool import Batch, Spool
from ledto.reporting.stamper import log

BATCH_BYTES = 512 << 10
"""The size of a batch at most, unless one record is larger."""

SILENCE_S = 60.0
"""The time at least between two log messages about a service that cannot be reached."""
MOST_DISK_S = 30.0
"""How long `Sender.close` waits at most for another thread to write the last batches to disk."""

Step = Literal["send", "send spooled", "keep", "end"]

_NEVER = float("inf")


@dataclass(frozen=True, slots=True)
class Pace:
    """How many events to send at once, and how long to wait before and between attempts."""

    batch: int = 100
    """Events in a batch, at most."""
    linger_s: float = 0.05
    """How long an event may wait for others, to be sent with them."""
    retry_first_s: float = 0.2
    retry_most_s: float = 30.0
    """Pauses after failures double from the first to the longest. Each is shortened at random by up to a half."""

    def pause_s(self, failures: int, draw: Callable[[], float]) -> float:
        """Return the pause after so many failures in a row. `draw` returns a random number from 0 to 1."""
        doubled = self.retry_first_s * 2.0 ** min(failures - 1, 40)
        return min(doubled, self.retry_most_s) * (1.0 - draw() / 2)


class Sender:
    """A queue of records, and the daemon thread that sends them."""

    def __init__(
        self,
        poster: Poster,
        *,
        lock: threading.RLock,
        spool: Spool | None,
        pace: Pace,
        limit_events: int,
        limit_bytes: int,
        on_room: Callable[[], None],
        on_refused: Callable[[int, str], None],
    ) -> None:
        """Start the thread if the spool has batches. It holds the lock when it calls `on_room` and `on_refused`."""
        self._poster, self._spool, self._pace = poster, spool, pace
        self._limit_events, self._limit_bytes = limit_events, limit_bytes
        self._on_room, self._on_refused = on_room, on_refused
        self._changed = threading.Condition(lock)
        self._queue: deque[bytes] = deque()
        self._held: Batch | None = None
        """The batch in memory that is being sent. Its records are no longer in the queue."""
        self._held_events = 0
        self._bytes = 0
        self._first_at = 0.0
        self._accepted = self._settled = 0
        self._failures = 0
        self._retry_at = self._asked_until = self._silent_until = 0.0
        self._spool_is_stuck = False
        self._is_spools_turn = False
        self._in_a_hurry = 0
        self._close_at: float | None = None
        self._is_over = self._is_settled_for_good = False
        self._thread: threading.Thread | None = None
        self._id_prefix, self._batches = secrets.token_hex(8), 0
        self._draw = random.Random(self._id_prefix).random
        self.sent = self.retries = self.lost = 0
        if spool is not None and len(spool):
            self._start()

    @property
    def waiting(self) -> int:
        """Count the events in memory that are not settled. Hold the lock."""
        return len(self._queue) + self._held_events

    @property
    def spooled_bytes(self) -> int:
        """Count the bytes on disk that are not sent."""
        return 0 if self._spool is None else self._spool.bytes_kept

    def has_room(self, size_bytes: int) -> bool:
        """Return whether the queue has room for a record of about this size. Hold the lock."""
        return self.waiting < self._limit_events and self._bytes + size_bytes <= self._limit_bytes

    def put(self, record: bytes) -> None:
        """Queue a record. Does not check `has_room`. Hold the lock."""
        if self._thread is None and not self._is_over:
            self._start()
        if not self._queue:
            self._first_at = time.monotonic()
        self._queue.append(record)
        self._bytes += len(record)
        self._accepted += 1
        if len(self._queue) in (1, self._pace.batch):
            self._changed.notify_all()

    def runs_here(self) -> bool:
        """Return whether the calling code runs in the sending thread."""
        return self._thread is not None and self._thread.ident == threading.get_ident()

    def flush(self, timeout_s: float) -> bool:
        """Wait until all earlier records are settled; return whether they are."""
        until = time.monotonic() + timeout_s
        with self._changed:
            target = self._accepted
            self._in_a_hurry += 1
            self._changed.notify_all()
            self._changed.wait_for(
                lambda: self._settled >= target or self._is_settled_for_good, until - time.monotonic()
            )
            self._in_a_hurry -= 1
            return self._settled >= target

    def close(self, timeout_s: float) -> None:
        """Send the rest within `timeout_s`; then write it to the spool, or count it as lost."""
        with self._changed:
            if self._close_at is None:
                self._close_at = time.monotonic() + timeout_s
                self._retry_at = self._asked_until
            self._changed.notify_all()
            if self._thread is not None:
                self._changed.wait_for(lambda: self._is_over, timeout_s)
        self._end()

    def forget(self) -> None:
        """Close the connection and the spool's lock in a forked child. Both belong to the parent."""
        self._poster.close()
        if self._spool is not None:
            self._spool.forget()

    def _start(self) -> None:
        thread = threading.Thread(target=self._run, name="ledto-reporting", daemon=True)
        thread.start()
        self._thread = thread

    def _run(self) -> None:
        while True:
            with self._changed:
                step = self._await_step()
                within_s = None if self._close_at is None else self._close_at - time.monotonic()
            if step == "end":
                break
            try:
                self._do(step, within_s)
            except Exception:
                # The thread must continue after any error, and must pause before the next attempt.
                log.exception("sending reports failed; they are kept, and sent again later")
                with self._changed:
                    self._fail(0.0)
        self._end()
        self._poster.close()

    def _do(self, step: Step, within_s: float | None) -> None:
        if step == "keep":
            self._keep()
            return
        batch = self._held if step == "send" or self._spool is None else self._spool.oldest()
        if batch is not None:
            self._conclude(batch, *self._send(batch, within_s))

    def _await_step(self) -> Step:
        """Wait until there is something to do. Hold the lock; it is released during the wait."""
        while True:
            now = time.monotonic()
            if self._is_over or (self._close_at is not None and (now >= self._close_at or not self.waiting)):
                return "end"
            queue_due_at = self._queue_due_at(now)
            if self._held is None and now >= queue_due_at:
                self._held = self._make_batch()
                queue_due_at = self._queue_due_at(now)
            spool = self._spool
            if self._held is not None and self._failures and spool is not None and not self._spool_is_stuck:
                return "keep"
            if not self._failures or now >= self._retry_at:
                # Batches on disk and in memory take turns, so that neither wait for ever.
                if spool is not None and len(spool) and (self._held is None or self._is_spools_turn or self._failures):
                    self._is_spools_turn = False
                    return "send spooled"
                if self._held is not None:
                    self._is_spools_turn = True
                    return "send"
            times = [queue_due_at] if self._held is None else []
            if self._failures and (self._held is not None or (spool is not None and len(spool))):
                times.append(self._retry_at)
            if self._close_at is not None:
                times.append(self._close_at)
            soonest = min(times, default=_NEVER)
            self._changed.wait(None if soonest == _NEVER else max(soonest - now, 0.0))

    def _queue_due_at(self, now: float) -> float:
        if not self._queue:
            return _NEVER
        at_once = len(self._queue) >= self._pace.batch or self._in_a_hurry or self._close_at is not None
        return now if at_once else self._first_at + self._pace.linger_s

    def _make_batch(self) -> Batch:
        """Move the oldest records from the queue into a batch. Hold the lock; the queue is not empty."""
        records = [self._queue.popleft()]
        size = len(records[0])
        while self._queue and len(records) < self._pace.batch and size + len(self._queue[0]) <= BATCH_BYTES:
            records.append(self._queue.popleft())
            size += len(records[-1])
        self._first_at = time.monotonic()
        self._held_events = len(records)
        self._batches += 1
        return Batch(f"{self._id_prefix}-{self._batches}", b"".join(records))

    def _keep(self) -> None:
        """Write the held batch to the spool."""
        batch, spool = self._held, self._spool
        assert batch is not None
        assert spool is not None
        is_on_disk = spool.put(batch)
        with self._changed:
            self._spool_is_stuck = not is_on_disk
            if is_on_disk:
                self._settle(batch)

    def _send(self, batch: Batch, within_s: float | None) -> tuple[PostResult, int]:
        """Send a batch, in halves if it is too large; return the answer and how many events were refused for good."""
        answer = self._poster.post(batch.body, batch.id, within_s=within_s)
        if answer.verdict is PostVerdict.REFUSED:
            return answer, batch.events
        if answer.verdict is not PostVerdict.SPLIT:
            return answer, 0
        lines = batch.body.splitlines(keepends=True)
        if len(lines) == 1:
            return PostResult(PostVerdict.REFUSED, reason=answer.reason), 1
        refused = 0
        for mark, part in (("a", lines[: len(lines) // 2]), ("b", lines[len(lines) // 2 :])):
            half, refused_in_half = self._send(Batch(batch.id + mark, b"".join(part)), within_s)
            if half.verdict is PostVerdict.RETRY:
                return half, 0
            refused += refused_in_half
        return PostResult(PostVerdict.ACCEPTED, reason=answer.reason), refused

    def _conclude(self, batch: Batch, answer: PostResult, refused: int) -> None:
        """Settle the batch, or note that it must be sent again."""
        if answer.verdict is PostVerdict.RETRY:
            if time.monotonic() >= self._silent_until:
                self._silent_until = time.monotonic() + SILENCE_S
                log.warning(
                    "reports are kept and sent again later, because the service cannot take them: %s", answer.reason
                )
            with self._changed:
                self._fail(answer.retry_after_s)
            return
        if refused:
            log.warning("%d reports were refused: %s", refused, answer.reason)
        with self._changed:
            self._failures = 0
            self._spool_is_stuck = False
            self.sent += batch.events - refused
            if refused:
                self._on_refused(refused, answer.reason)
            if batch is self._held:
                self._settle(batch)
            elif batch.path is None:
                # `close` ran out of time meanwhile, and counted the batch as lost.
                self.lost -= batch.events
        if batch.path is not None and self._spool is not None:
            self._spool.remove(batch.path)

    def _fail(self, asked_s: float) -> None:
        """Set the pause before the next attempt, at least as long as the service asked for. Hold the lock."""
        self.retries += 1
        self._failures += 1
        self._asked_until = time.monotonic() + asked_s
        self._retry_at = max(time.monotonic() + self._pace.pause_s(self._failures, self._draw), self._asked_until)

    def _settle(self, batch: Batch) -> None:
        """Release the held batch, if it is this one. Hold the lock."""
        if batch is not self._held:
            return
        self._settled += self._held_events
        self._bytes -= len(batch.body)
        self._held, self._held_events = None, 0
        self._on_room()
        self._changed.notify_all()

    def _end(self) -> None:
        """Write what is in memory to the spool, or count it as lost.

        Both the thread and `close` call this: the first does the work, and the other waits for it.
        """
        with self._changed:
            if self._is_over:
                self._changed.wait_for(lambda: self._is_settled_for_good, MOST_DISK_S)
                return
            self._is_over = True
            remaining = [] if self._held is None else [self._held]
            while self._queue:
                remaining.append(self._make_batch())
            self._held, self._held_events = None, 0
        lost = sum(batch.events for batch in remaining if self._spool is None or not self._spool.put(batch))
        if self._spool is not None:
            self._spool.close()
        if lost:
            were = "report was" if lost == 1 else "reports were"
            log.warning("%d %s lost: the service did not take them in time, and no spool keeps them", lost, were)
        with self._changed:
            self.lost += lost
            self._settled = self._accepted - lost
            self._is_settled_for_good = True
            self._changed.notify_all()
