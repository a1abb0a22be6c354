"""The thread that sends: a bounded queue of lines goes out in batches, oldest first, until each is settled.

A batch is *settled* when the service has acknowledged it, when it is on disk, or when the service will never take it.
Until then it is sent again, the same bytes under the same id, with growing pauses or the ones the service asks for. While
the service cannot be reached, lines go to the spool where there is one; where there is none, or it is full, they stay in
memory, and the queue fills.

HAZARD: the queue is guarded by `lock`, which is the caller's own. Nothing holds it during I/O or while it logs: a handler
of log records may be what reports.
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

from whence.reporting.posting import Answer, Poster, Verdict
from whence.reporting.spool import Batch, Spool
from whence.reporting.stamping import log

BATCH_BYTES = 512 << 10
"""A batch is closed before it grows beyond this."""

SILENCE_S = 60.0
"""A service that cannot take reports is logged this often at most."""
MOST_DISK_S = 30.0
"""For the disk to take the last batches; beyond it, whoever waits goes on."""

Step = Literal["send", "send spooled", "keep", "end"]

_NEVER = float("inf")


@dataclass(frozen=True, slots=True)
class Pace:
    """How much goes out at once, and how patiently."""

    batch: int = 100
    """Events in a batch, at most."""
    linger_s: float = 0.05
    """How long an event may wait for others to travel with."""
    retry_first_s: float = 0.2
    retry_most_s: float = 30.0
    """Pauses after failures double from the first to the longest; a random part of up to a half is taken off each."""

    def pause_s(self, failures: int, draw: Callable[[], float]) -> float:
        """The pause after so many failures in a row; `draw` gives a number from 0 to 1."""
        doubled = self.retry_first_s * 2.0 ** min(failures - 1, 40)
        return min(doubled, self.retry_most_s) * (1.0 - draw() / 2)


class Sender:
    """A queue of lines and the daemon thread that empties it."""

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
        """`on_room` and `on_refused` (events, why) are called by the thread, with the lock held."""
        self._poster, self._spool, self._pace = poster, spool, pace
        self._limit_events, self._limit_bytes = limit_events, limit_bytes
        self._on_room, self._on_refused = on_room, on_refused
        self._changed = threading.Condition(lock)
        self._lines: deque[bytes] = deque()
        self._held: Batch | None = None
        """The batch in memory that is being settled; its lines are out of the queue."""
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
        """Events in memory that are not settled. The caller holds the lock."""
        return len(self._lines) + self._held_events

    @property
    def spooled_bytes(self) -> int:
        """Bytes on disk that are not sent."""
        return 0 if self._spool is None else self._spool.bytes_kept

    def has_room(self, size_bytes: int) -> bool:
        """Whether a line of about this size may be put. The caller holds the lock."""
        return self.waiting < self._limit_events and self._bytes + size_bytes <= self._limit_bytes

    def put(self, line: bytes) -> None:
        """Queue a line; whether there is room is the caller's business. The caller holds the lock."""
        if self._thread is None and not self._is_over:
            self._start()
        if not self._lines:
            self._first_at = time.monotonic()
        self._lines.append(line)
        self._bytes += len(line)
        self._accepted += 1
        if len(self._lines) in (1, self._pace.batch):
            self._changed.notify_all()

    def runs_here(self) -> bool:
        """Whether the caller is the sending thread itself."""
        return self._thread is not None and self._thread.ident == threading.get_ident()

    def flush(self, timeout_s: float) -> bool:
        """Wait until all that was put before is settled; whether it is."""
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
        """Send what is left, or keep it on disk, or count it as lost: one of these has happened after `timeout_s`."""
        with self._changed:
            if self._close_at is None:
                self._close_at = time.monotonic() + timeout_s
                self._retry_at = self._asked_until
            self._changed.notify_all()
            if self._thread is not None:
                self._changed.wait_for(lambda: self._is_over, timeout_s)
        self._end()

    def forget(self) -> None:
        """In a forked child: let go of what is the parent's."""
        self._poster.close()
        if self._spool is not None:
            self._spool.forget()

    def _start(self) -> None:
        thread = threading.Thread(target=self._run, name="whence-reporting", daemon=True)
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
                self._take(step, within_s)
            except Exception:
                # Whatever it was: the thread must live, and must not spin.
                log.exception("reports are kept, because of a fault")
                with self._changed:
                    self._fail(0.0)
        self._end()
        self._poster.close()

    def _take(self, step: Step, within_s: float | None) -> None:
        if step == "keep":
            self._keep()
            return
        batch = self._held if step == "send" or self._spool is None else self._spool.oldest()
        if batch is not None:
            self._conclude(batch, *self._send(batch, within_s))

    def _await_step(self) -> Step:
        """Wait until there is something to do. The lock is held, and let go of while waiting."""
        while True:
            now = time.monotonic()
            if self._is_over or (self._close_at is not None and (now >= self._close_at or not self.waiting)):
                return "end"
            lines_at = self._lines_due_at(now)
            if self._held is None and now >= lines_at:
                self._held = self._make_batch()
                lines_at = self._lines_due_at(now)
            spool = self._spool
            if self._held is not None and self._failures and spool is not None and not self._spool_is_stuck:
                return "keep"
            if not self._failures or now >= self._retry_at:
                # Batches of the disk and of memory take turns: neither an old backlog nor new events may wait for ever.
                if spool is not None and len(spool) and (self._held is None or self._is_spools_turn or self._failures):
                    self._is_spools_turn = False
                    return "send spooled"
                if self._held is not None:
                    self._is_spools_turn = True
                    return "send"
            times = [lines_at] if self._held is None else []
            if self._failures and (self._held is not None or (spool is not None and len(spool))):
                times.append(self._retry_at)
            if self._close_at is not None:
                times.append(self._close_at)
            soonest = min(times, default=_NEVER)
            self._changed.wait(None if soonest == _NEVER else max(soonest - now, 0.0))

    def _lines_due_at(self, now: float) -> float:
        if not self._lines:
            return _NEVER
        at_once = len(self._lines) >= self._pace.batch or self._in_a_hurry or self._close_at is not None
        return now if at_once else self._first_at + self._pace.linger_s

    def _make_batch(self) -> Batch:
        taken = [self._lines.popleft()]
        size = len(taken[0])
        while self._lines and len(taken) < self._pace.batch and size + len(self._lines[0]) <= BATCH_BYTES:
            taken.append(self._lines.popleft())
            size += len(taken[-1])
        self._first_at = time.monotonic()
        self._held_events = len(taken)
        self._batches += 1
        return Batch(f"{self._id_prefix}-{self._batches}", b"".join(taken))

    def _keep(self) -> None:
        batch, spool = self._held, self._spool
        assert batch is not None
        assert spool is not None
        kept = spool.put(batch)
        with self._changed:
            self._spool_is_stuck = not kept
            if kept:
                self._settle(batch)

    def _send(self, batch: Batch, within_s: float | None) -> tuple[Answer, int]:
        """What became of a batch, and how many of its events the service will never take."""
        answer = self._poster.post(batch.body, batch.id, within_s=within_s)
        if answer.verdict is Verdict.REFUSED:
            return answer, batch.events
        if answer.verdict is not Verdict.SPLIT:
            return answer, 0
        lines = batch.body.splitlines(keepends=True)
        if len(lines) == 1:
            return Answer(Verdict.REFUSED, reason=answer.reason), 1
        refused = 0
        for mark, part in (("a", lines[: len(lines) // 2]), ("b", lines[len(lines) // 2 :])):
            half, refused_here = self._send(Batch(batch.id + mark, b"".join(part)), within_s)
            if half.verdict is Verdict.RETRY:
                return half, 0
            refused += refused_here
        return Answer(Verdict.ACCEPTED, reason=answer.reason), refused

    def _conclude(self, batch: Batch, answer: Answer, refused: int) -> None:
        if answer.verdict is Verdict.RETRY:
            if time.monotonic() >= self._silent_until:
                self._silent_until = time.monotonic() + SILENCE_S
                log.warning("reports are kept, because the service cannot take them: %s", answer.reason)
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
                # Whoever closed had waited long enough, and had counted it as lost.
                self.lost -= batch.events
        if batch.path is not None and self._spool is not None:
            self._spool.remove(batch.path)

    def _fail(self, asked_s: float) -> None:
        """Pause before the next attempt, at least as long as the service asked for. The lock is held."""
        self.retries += 1
        self._failures += 1
        self._asked_until = time.monotonic() + asked_s
        self._retry_at = max(time.monotonic() + self._pace.pause_s(self._failures, self._draw), self._asked_until)

    def _settle(self, batch: Batch) -> None:
        """The held batch need not be held any more. The lock is held."""
        if batch is not self._held:
            return
        self._settled += self._held_events
        self._bytes -= len(batch.body)
        self._held, self._held_events = None, 0
        self._on_room()
        self._changed.notify_all()

    def _end(self) -> None:
        """Keep or lose what is in memory; the thread does this, or who waited for it in vain, and the other waits."""
        with self._changed:
            if self._is_over:
                self._changed.wait_for(lambda: self._is_settled_for_good, MOST_DISK_S)
                return
            self._is_over = True
            left = [] if self._held is None else [self._held]
            while self._lines:
                left.append(self._make_batch())
            self._held, self._held_events = None, 0
        lost = sum(batch.events for batch in left if self._spool is None or not self._spool.put(batch))
        if self._spool is not None:
            self._spool.close()
        if lost:
            log.warning("%d reports were lost: the service did not take them in time, and no spool keeps them", lost)
        with self._changed:
            self.lost += lost
            self._settled = self._accepted - lost
            self._is_settled_for_good = True
            self._changed.notify_all()
