"""What an application reports with: every event gets its number, its wall time and its stamp in one step.

Guarantees:

- no call raises or waits for the network or the disk; what goes wrong is counted in `Reporter.stats`;
- numbers of a process are 1, 2, 3 ... in the order in which its events were reported, by whichever thread; a restart and
  a forked child are processes of their own (``shop@k2m7...``), so that a number is never used twice;
- a report is sent again with the same bytes under the same batch id until it is acknowledged;
- an event is dropped in one place only: at the door, when the queue is full. The newest is dropped, because messages
  that are under way refer to those already in the queue. A send that is dropped gives no message, so nobody receives what
  nobody reported. A drop takes no number; how many there were stands in an event ``whence.dropped`` at their place;
- a message from a peer that does not take part is no cause: it is reported as a local event that says so.

HAZARDS:

- what one task or thread did may be a cause of what another one of the process did later: they share memory. Only along
  a line, and by messages, is it recorded (`whence.reporting.lines`);
- a child that ends by `os._exit`, as those of `multiprocessing` do, runs no exit handlers: close its reporter there;
- what is reported in the middle of a report (by a signal's handler, or by an object that goes away just then) is dropped.
"""

from __future__ import annotations

import atexit
import secrets
import ssl
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from os import PathLike
from typing import Any, Final, NamedTuple, TypeVar, cast

from whence.clocks import Stamp
from whence.reporting import forking
from whence.reporting.carriers import Message, check_key, extract
from whence.reporting.lines import Line, Lines, fields_of
from whence.reporting.posting import Poster
from whence.reporting.records import attributes_json, line, line_head, name_json
from whence.reporting.sender import Pace, Sender
from whence.reporting.spool import Spool
from whence.reporting.stamping import Clock, Stamper, clock_maker, full_name, log, name_of

T = TypeVar("T")

PEER: Final = "whence.peer"
"""The attribute of a local event that stands where a receive would, had the peer said what caused the message."""
NOT_TAKING_PART: Final = "not taking part"
NO_ANSWER: Final = "no answer"
OTHER_COMPUTATION: Final = "other computation"

DROPPED: Final = "whence.dropped"
FORK: Final = "whence.fork"

_exiting_since_s: list[float] = []
"""When this process began to exit: its reporters, whose threads all work meanwhile, share the time for it."""

_LINE_BYTES = 512
"""What a line takes besides its attributes, roughly; only the queue's limit in bytes depends on it."""


class Event(NamedTuple):
    """An event that was reported: what to ask about, and its stamp."""

    id: str
    stamp: Stamp | None


class Reporter:
    """Reports the events of one process. Thread-safe; survives `os.fork`; closes itself at exit."""

    def __init__(
        self,
        process: str,
        clock: Clock | Callable[[str], Clock] | None = None,
        endpoint: str = "http://127.0.0.1:4318",
        *,
        token: str | None = None,
        computation: str = "",
        incarnation: str | None = None,
        now: Callable[[], int] = time.time_ns,
        spool: str | PathLike[str] | None = None,
        spool_limit_bytes: int = 64 << 20,
        queue_limit: int = 10_000,
        queue_limit_bytes: int = 16 << 20,
        batch: int = 100,
        linger_s: float = 0.05,
        timeout_s: float = 15.0,
        retry_s: tuple[float, float] = (0.2, 30.0),
        tls: ssl.SSLContext | None = None,
        exit_timeout_s: float = 2.0,
    ) -> None:
        """Raises ValueError for arguments that cannot work. What the spool holds is sent at once.

        `clock`: a clock class or function that makes the clock of the process it is given the name of; a `LamportClock`
        unless you say otherwise: it never refuses. Or a clock that you made: its process is then the process of the
        reports, as it stands, and you see to it that no other start carries the same.
        `incarnation`: what tells this start of the process from every other; random unless given.
        `now`: wall time in nanoseconds. `spool`: a folder that keeps what cannot be sent.
        `retry_s`: the first and the longest pause after a failure.
        """
        if queue_limit < 1 or batch < 1:
            raise ValueError(f"queue_limit and batch are 1 or more, not {queue_limit} and {batch}")
        if computation and not check_key(computation):
            raise ValueError(f"a computation is text of at most 275 bytes without NUL, not {computation!r:.60}")
        self._name, self._computation, self._now = process, computation, now
        self._endpoint, self._token, self._tls, self._timeout_s = endpoint, token, tls, timeout_s
        self._spool, self._spool_limit_bytes = spool, spool_limit_bytes
        self._queue_limit, self._queue_limit_bytes = queue_limit, queue_limit_bytes
        self._pace = Pace(batch, linger_s, *retry_s)
        self._exit_timeout_s = exit_timeout_s
        self._line_elsewhere: Callable[[], str | None] | None = None
        self._make_clock = clock_maker(clock)
        if self._make_clock is None:
            self._begin(name_of(clock, process, incarnation), cast(Clock, clock))
        else:
            self._begin(full_name(process, incarnation), None)
        if spool is not None:
            with self._lock:
                self._sending()
            self._log()
        forking.watch(self)
        atexit.register(self._close_at_exit)

    def _begin(self, name: str, clock: Clock | None) -> None:
        """Start as a process of this name, with nothing reported: when made, and again in a forked child."""
        self.process = name
        self._stamper = Stamper(clock if self._make_clock is None else self._make_clock(name))
        self._head = line_head(name, self._computation)
        self._lock = threading.RLock()
        self.lines = Lines()
        """The lines of this process; for integrations."""
        self._seq = 0
        self._closed = False
        self._inherited: tuple[Message, Line] | None = None
        self._fork_message: Message | None = None
        self._unsaid_drops = self._unsaid_refusals = 0
        self._refused_why = ""
        self._is_putting = False
        self._unlogged: list[str] = []
        """What is to be logged when the lock is free: a handler of log records may be what reports."""
        self._counts = dict.fromkeys(
            ("dropped", "refused", "unstamped", "unanswered", "malformed", "faults", "spool_failures"), 0
        )
        self._poster = Poster(self._endpoint, token=self._token, timeout_s=self._timeout_s, tls=self._tls)
        self._sender: Sender | None = None

    def _sending(self) -> Sender:
        """The sender, made when it is first needed: most forked children report nothing. The lock is held."""
        if self._sender is None:
            self._sender = self._make_sender()
        return self._sender

    def _make_sender(self) -> Sender:
        return Sender(
            self._poster,
            lock=self._lock,
            spool=self._open_spool(),
            pace=self._pace,
            limit_events=self._queue_limit,
            limit_bytes=self._queue_limit_bytes,
            on_room=self._say_drops,
            on_refused=self._note_refusal,
        )

    def __repr__(self) -> str:
        return f"<Reporter {self.process!r}>"

    # What happens.

    def report(self, name: str, /, **attributes: Any) -> Event | None:
        """Report a local event. None says that it was dropped."""
        return self._event("local", name, attributes)

    def sent(self, name: str, /, **attributes: Any) -> Message | None:
        """Report that a message is being sent; the result travels with it. None says that it was dropped."""
        event = self._event("send", name, attributes)
        return None if event is None else Message(event.id, event.stamp, self._computation)

    def received(self, message: Message | None, name: str, /, **attributes: Any) -> Event | None:
        """Report that a message was received.

        None, or a message of another computation, tells nothing of its causes: the event is then reported as a local
        one whose attribute `PEER` says why.
        """
        if message is None:
            return self._event("local", name, {**attributes, PEER: NOT_TAKING_PART}, unstamped=True)
        if message.computation != self._computation:
            return self._event("local", name, {**attributes, PEER: OTHER_COMPUTATION}, unstamped=True)
        return self._event("receive", name, attributes, message=message)

    def unanswered(self, name: str, /, **attributes: Any) -> Event | None:
        """Report that no answer came: a time-out, a lost connection. It tells nothing of the other side."""
        self._count("unanswered")
        return self._event("local", name, {**attributes, PEER: NO_ANSWER})

    def extract(self, carrier: Mapping[str, Any] | Iterable[tuple[Any, Any]] | None) -> Message | None:
        """`whence.reporting.extract`, with what is no message counted."""
        return extract(carrier, on_malformed=lambda: self._count("malformed"))

    # Which line it is on.

    def line(self, name: str, /, *, apart: bool = False) -> AbstractContextManager[None]:
        """A line for the statements of a ``with``, in plain and in asynchronous functions.

        It is started from the line around it, whose next event then follows the last one of the block. `apart`: neither, for
        a worker that takes up one job after another.
        """
        return self.lines.request(name, is_started_here=False) if apart else self.lines.block(name)

    async def join(self, awaitable: Awaitable[T], /) -> T:
        """Await a task, or what can be made one; the next event of this line then follows the last one of the task."""
        (result,) = await self.gather(awaitable)
        return cast(T, result)

    async def gather(self, *awaitables: Awaitable[Any], return_exceptions: bool = False) -> list[Any]:
        """`asyncio.gather`; the next event of this line then follows the last ones of the tasks that are done."""
        import asyncio  # Here it is loaded already; applications without it need not load it.

        tasks = [asyncio.ensure_future(each) for each in awaitables]
        try:
            return await asyncio.gather(*tasks, return_exceptions=return_exceptions)
        finally:
            with self._lock:
                for task in tasks:
                    if task.done():
                        self.lines.join_task(task)

    def take_lines_from(self, current: Callable[[], str | None], /) -> None:
        """Let `current` name the line of every event for which it gives a name: something else starts that line."""
        self._line_elsewhere = current

    # What becomes of it.

    def flush(self, timeout_s: float = 10.0) -> bool:
        """Wait until all that was reported before is acknowledged by the service, or is on disk; whether it is."""
        return self._sender is None or self._sender.flush(timeout_s)

    def close(self, timeout_s: float = 10.0) -> bool:
        """Flush and stop; later events are dropped. Whether nothing was lost: what is left goes to the spool, if any."""
        with self._lock:
            if not self._closed:
                self._say_drops(refusals_too=True)
                self._closed = True
            sender = self._sender
        atexit.unregister(self._close_at_exit)
        if sender is None:
            return True
        sender.close(timeout_s)
        return sender.lost == 0

    def stats(self) -> dict[str, int]:
        """Counts since the start.

        ``reported`` events got a number; of these, ``sent`` were acknowledged (and those of earlier starts that the spool
        held), ``waiting`` are in memory, ``refused`` the service will never take, ``lost`` were in memory at the end.
        ``dropped`` events got none. ``unstamped``: messages of peers that do not take part; ``unanswered`` calls;
        ``malformed`` headers; ``faults`` of the clock or of values; ``stamping`` is 0 once the clock has refused a cause.
        """
        with self._lock:
            sender = self._sender
            return {
                "reported": self._seq,
                "sent": sender.sent if sender else 0,
                "waiting": sender.waiting if sender else 0,
                "spooled_bytes": sender.spooled_bytes if sender else 0,
                "retries": sender.retries if sender else 0,
                "lost": sender.lost if sender else 0,
                **self._counts,
                "stamping": int(self._stamper.is_stamping),
            }

    def __enter__(self) -> Reporter:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _event(
        self,
        kind: str,
        name: str,
        attributes: Mapping[str, Any],
        *,
        message: Message | None = None,
        unstamped: bool = False,
    ) -> Event | None:
        try:
            # Before the lock is taken: the application's own code may run in here, and may report.
            name_text, attributes_text = name_json(name), attributes_json(attributes)
            with self._lock:
                if unstamped:
                    self._counts["unstamped"] += 1
                if self._closed or not self._has_room(len(attributes_text) + _LINE_BYTES):
                    self._counts["dropped"] += 1
                    self._unsaid_drops += 1
                    return None
                self._say_inherited()
                self._say_drops(refusals_too=True)
                event = self._put(kind, name_text, attributes_text, message, unstamped)
            if self._unlogged:
                self._log()
            return event
        except Exception:
            self._count("faults")
            log.debug("an event could not be reported", exc_info=True)
            return None

    def _log(self) -> None:
        while self._unlogged:
            log.warning("%s: %s", self.process, self._unlogged.pop())

    def _has_room(self, size_bytes: int) -> bool:
        sender = self._sending()
        return not self._is_putting and not sender.runs_here() and sender.has_room(size_bytes)

    def _put(
        self,
        kind: str,
        name_text: str,
        attributes_text: str,
        message: Message | None = None,
        unstamped: bool = False,
        on: Line | None = None,
    ) -> Event:
        """Number, stamp and queue an event, on the line of who reports it unless `on` is another. The lock is held."""
        self._is_putting = True
        try:
            return self._put_alone(kind, name_text, attributes_text, message, unstamped, on)
        finally:
            self._is_putting = False

    def _put_alone(
        self,
        kind: str,
        name_text: str,
        attributes_text: str,
        message: Message | None,
        unstamped: bool,
        on: Line | None,
    ) -> Event:
        time_ns = int(self._now())
        stamp = self._stamp(kind, message, unstamped)
        seq = self._seq + 1
        event_id = f"{self.process}:{seq}"
        on_line: str | None = None
        if on is not None:
            on_line = fields_of(on)
        elif self._line_elsewhere is not None and (elsewhere := self._line_elsewhere()) is not None:
            # Its own parent: what starts the line is reported by others.
            on_line = f'"line":{name_json(elsewhere)},"line_parent":{name_json(elsewhere)}'
        else:
            on, on_line = self.lines.go_on()
        text = line(
            self._head,
            seq,
            time_ns,
            kind,
            name_text,
            attributes_text,
            on_line=on_line,
            sends=event_id if kind == "send" else None,
            receives=None if message is None else message.key,
            stamp=stamp,
        )
        self._sending().put(text)
        self._seq = seq
        if on is not None:
            self.lines.was_reported(on)
        return Event(event_id, stamp)

    def _stamp(self, kind: str, message: Message | None, unstamped: bool) -> Stamp | None:
        was_stamping = self._stamper.is_stamping
        stamp = self._stamper.stamp(kind, message, unstamped=unstamped)
        if was_stamping and not self._stamper.is_stamping:
            self._counts["faults"] += 1
            self._unlogged.append(f"events get no stamps any more: {self._stamper.refusal}")
        return stamp

    def _say_drops(self, *, refusals_too: bool = False) -> None:
        """Report what was dropped, at its place; refusals only with the next event, or they would never end."""
        if self._closed or not (self._unsaid_drops or (self._unsaid_refusals and refusals_too)):
            return
        drops, refusals = self._unsaid_drops, self._unsaid_refusals
        attributes = {"count": drops, "refused": refusals, "why": refusals and self._refused_why}
        said = attributes_json({key: each for key, each in attributes.items() if each})
        self._put("local", f'"{DROPPED}"', said, on=self.lines.own)
        self._unsaid_drops -= drops
        self._unsaid_refusals -= refusals

    def _note_refusal(self, events: int, why: str) -> None:
        self._counts["refused"] += events
        self._unsaid_refusals += events
        self._refused_why = why

    def _say_inherited(self) -> None:
        """In a forked child: its first event is caused by the fork."""
        if self._inherited is not None:
            (inherited, line), self._inherited = self._inherited, None
            self._put("receive", f'"{FORK}"', "{}", inherited, on=line)

    def _count(self, what: str) -> None:
        with self._lock:
            self._counts[what] += 1

    def _open_spool(self) -> Spool | None:
        if self._spool is None:
            return None
        try:
            return Spool(self._spool, secrets.token_hex(8), limit_bytes=self._spool_limit_bytes)
        except OSError as fault:
            self._counts["spool_failures"] += 1
            self._unlogged.append(f"events are not spooled: {fault.strerror}")
            return None

    def _close_at_exit(self) -> None:
        if not _exiting_since_s:
            _exiting_since_s.append(time.monotonic())
        self.close(max(_exiting_since_s[0] + self._exit_timeout_s - time.monotonic(), 0.1))

    # Forks; called by `whence.reporting.forking`.

    def before_fork(self) -> None:
        """Hold still, and report the fork if there is a past to inherit."""
        self._lock.acquire()
        self._fork_message = None
        if self._seq and not self._closed:
            self._fork_message = self.sent(FORK)

    def after_fork_in_parent(self) -> None:
        """Go on."""
        self._lock.release()

    def after_fork_in_child(self) -> None:
        """Become a process of its own: the queue, the connection and the spool are the parent's."""
        inherited, closed = self._fork_message, self._closed
        if self._sender is not None:
            self._sender.forget()
        self._begin(full_name(self._name, None), None)
        self._inherited = None if inherited is None else (inherited, self.lines.inherit())
        self._closed = closed
