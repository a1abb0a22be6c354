"""Report the events of a process. Each event gets its number, wall time and stamp in one step.

Guarantees:

- no call raises or waits for the network or the disk. `Reporter.stats` counts what went wrong;
- the events of a process have the numbers 1, 2, 3 ... in the order in which they were reported, by any thread. A restart
  and a forked child are processes of their own (``shop@k2m7...``), so no number is used twice;
- a report is sent again, with the same bytes under the same batch id, until the service acknowledges it;
- an event is dropped only when it is reported while the queue is full. The newest is dropped, because messages under way
  refer to the older ones. A dropped send gives no message, so nobody receives a message whose send is not reported. A
  dropped event takes no number. An event ``ledto.dropped`` in its place counts the drops;
- a message from a peer that does not report is no cause: it becomes a local event that says so.

HAZARDS:

- tasks and threads of a process share memory, so one may cause events of another. Only lines and messages record that
  (`ledto.reporting.lines`);
- a child that ends by `os._exit`, as those of `multiprocessing` do, runs no exit handlers: close its reporter there;
- an event that is reported in the middle of another report, by a signal handler or a finalizer, is dropped.
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

from ledto.clocks import Stamp
from ledto.reporting import fork
from ledto.reporting.environment import read_settings
from ledto.reporting.headers import Message, extract, is_legal_key
from ledto.reporting.lines import Line, ProcessLines, line_fields
from ledto.reporting.post import Poster
from ledto.reporting.records import attributes_json, name_json, record_head, record_line
from ledto.reporting.sender import Pace, Sender
from ledto.reporting.spool import Spool
from ledto.reporting.stamper import Clock, Stamper, clock_maker, full_name, log, name_of_clock

T = TypeVar("T")

PEER: Final = "ledto.peer"
"""The attribute of a local event for a message whose cause is not known. It says why."""
NOT_TAKING_PART: Final = "not taking part"
NO_ANSWER: Final = "no answer"
OTHER_COMPUTATION: Final = "other computation"

DROPPED: Final = "ledto.dropped"
FORK: Final = "ledto.fork"

_exiting_since_s: list[float] = []
"""When this process began to exit, or empty. All reporters share the time to exit, since their threads work at once."""

_LINE_BYTES = 512
"""About the size of a record without its attributes. Only the queue's limit in bytes depends on it."""


class ReportedEvent(NamedTuple):
    """A reported event: its id, for questions to the service, and its stamp."""

    id: str
    stamp: Stamp | None


class Reporter:
    """A reporter of the events of one process. Thread-safe; works after `os.fork`; closes itself at exit."""

    def __init__(
        self,
        process: str | None = None,
        clock: Clock | Callable[[str], Clock] | None = None,
        endpoint: str | None = None,
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
        """Start to report, and send the batches in the spool. Raises ValueError for arguments that cannot work.

        `process`, `endpoint`, `token`: what is None is taken from the environment (`ledto.reporting.environment`).
        `clock`: a class or function that makes a clock for the name of a process; by default `LamportClock`, which never
        refuses a stamp. Or a clock: reports then have its process as it is, and you must give each start another one.
        `incarnation`: a word that no other start of the process has; random by default.
        `now`: returns the wall time in nanoseconds. `spool`: a folder for batches that cannot be sent.
        `retry_s`: the first and the longest pause after a failure.
        """
        if queue_limit < 1 or batch < 1:
            raise ValueError(f"queue_limit and batch are 1 or more, not {queue_limit} and {batch}")
        if computation and not is_legal_key(computation):
            raise ValueError(f"a computation is text of at most 275 bytes without NUL, not {computation!r:.60}")
        settings = read_settings(process, endpoint, token)
        self._name, self._computation, self._now = settings.process, computation, now
        self._endpoint, self._token, self._tls, self._timeout_s = settings.endpoint, settings.token, tls, timeout_s
        self._spool, self._spool_limit_bytes = spool, spool_limit_bytes
        self._queue_limit, self._queue_limit_bytes = queue_limit, queue_limit_bytes
        self._pace = Pace(batch, linger_s, *retry_s)
        self._exit_timeout_s = exit_timeout_s
        self._current_elsewhere: Callable[[], str | None] | None = None
        self._make_clock = clock_maker(clock)
        if self._make_clock is None:
            self._begin(name_of_clock(clock, self._name, incarnation), cast(Clock, clock))
        else:
            self._begin(full_name(self._name, incarnation), None)
        if spool is not None:
            with self._lock:
                self._get_sender()
            self._log_pending()
        fork.watch_forks(self)
        atexit.register(self._close_at_exit)

    def _begin(self, name: str, clock: Clock | None) -> None:
        """Start as a process of this name that has reported nothing. Called when made, and again in a forked child."""
        self.process = name
        self._stamper = Stamper(clock if self._make_clock is None else self._make_clock(name))
        self._head = record_head(name, self._computation)
        self._lock = threading.RLock()
        self.lines = ProcessLines()
        """The lines of this process, for integrations."""
        self._seq = 0
        self._closed = False
        self._inherited: tuple[Message, Line] | None = None
        self._fork_message: Message | None = None
        self._unreported_drops = self._unreported_refusals = 0
        self._refused_why = ""
        self._is_putting = False
        self._unlogged: list[str] = []
        """Messages to log when the lock is free: a handler of log records may report them."""
        self._counts = dict.fromkeys(
            ("dropped", "refused", "unstamped", "unanswered", "malformed", "faults", "spool_failures"), 0
        )
        self._poster = Poster(self._endpoint, token=self._token, timeout_s=self._timeout_s, tls=self._tls)
        self._sender: Sender | None = None

    def _get_sender(self) -> Sender:
        """Return the sender; make it at the first call, since most forked children report nothing. Hold the lock."""
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
            on_room=self._report_drops,
            on_refused=self._note_refusal,
        )

    def __repr__(self) -> str:
        return f"<Reporter {self.process!r}>"

    # Events.

    def report(self, name: str, /, **attributes: Any) -> ReportedEvent | None:
        """Report a local event; None if it was dropped."""
        return self._report_event("local", name, attributes)

    def sent(self, name: str, /, **attributes: Any) -> Message | None:
        """Report the send of a message; return what must travel with it. None if the event was dropped."""
        event = self._report_event("send", name, attributes)
        return None if event is None else Message(event.id, event.stamp, self._computation)

    def received(self, message: Message | None, name: str, /, **attributes: Any) -> ReportedEvent | None:
        """Report the receive of a message; None if the event was dropped.

        If `message` is None or is of another computation, its cause is not known. The event is then a local one whose
        attribute `PEER` says why.
        """
        if message is None:
            return self._report_event("local", name, {**attributes, PEER: NOT_TAKING_PART}, unstamped=True)
        if message.computation != self._computation:
            return self._report_event("local", name, {**attributes, PEER: OTHER_COMPUTATION}, unstamped=True)
        return self._report_event("receive", name, attributes, message=message)

    def unanswered(self, name: str, /, **attributes: Any) -> ReportedEvent | None:
        """Report that no answer came, as after a time-out or a lost connection. The other side is no cause of it."""
        self._count("unanswered")
        return self._report_event("local", name, {**attributes, PEER: NO_ANSWER})

    def extract(self, carrier: Mapping[str, Any] | Iterable[tuple[Any, Any]] | None) -> Message | None:
        """Read the message from headers as `ledto.reporting.extract` does; count malformed ones."""
        return extract(carrier, on_malformed=lambda: self._count("malformed"))

    # Lines.

    def line(self, name: str, /, *, apart: bool = False) -> AbstractContextManager[None]:
        """Begin a line for the statements of a ``with``, in plain and in asynchronous functions.

        Its first event follows the line around it, whose next event follows the last one of the block. With `apart`,
        neither does: for a worker that does one job after another.
        """
        return self.lines.request(name, is_started_here=False) if apart else self.lines.block(name)

    async def join(self, awaitable: Awaitable[T], /) -> T:
        """Await a task or a coroutine. The next event of this line then follows the last one of the task."""
        (result,) = await self.gather(awaitable)
        return cast(T, result)

    async def gather(self, *awaitables: Awaitable[Any], return_exceptions: bool = False) -> list[Any]:
        """Await as `asyncio.gather` does. The next event of this line then follows the last ones of the finished tasks."""
        import asyncio  # Not above: applications that do not use it need not load it.

        tasks = [asyncio.ensure_future(awaitable) for awaitable in awaitables]
        try:
            return await asyncio.gather(*tasks, return_exceptions=return_exceptions)
        finally:
            with self._lock:
                for task in tasks:
                    if task.done():
                        self.lines.join_task(task)

    def take_lines_from(self, current: Callable[[], str | None], /) -> None:
        """Put each event on the line that `current` names; where it returns None, on the line of the code as usual.

        Something else, such as OpenTelemetry, must report the start of these lines.
        """
        self._current_elsewhere = current

    # Sending.

    def flush(self, timeout_s: float = 10.0) -> bool:
        """Wait until all earlier events are acknowledged or on disk; return whether they are."""
        return self._sender is None or self._sender.flush(timeout_s)

    def close(self, timeout_s: float = 10.0) -> bool:
        """Flush and stop. The spool, if any, keeps what was not sent; return whether nothing was lost. Drop later events."""
        with self._lock:
            if not self._closed:
                self._report_drops(refusals_too=True)
                self._closed = True
            sender = self._sender
        atexit.unregister(self._close_at_exit)
        if sender is None:
            return True
        sender.close(timeout_s)
        return sender.lost == 0

    def stats(self) -> dict[str, int]:
        """Return counts since the start.

        ``reported`` events have a number. Of these, ``sent`` were acknowledged (with those that the spool kept from
        earlier starts), ``waiting`` are in memory, ``refused`` ones the service will never accept, and ``lost`` ones were
        in memory at the end. ``dropped`` events have no number. ``unstamped`` counts messages of peers that do not
        report, ``unanswered`` calls, ``malformed`` headers, ``faults`` failures of the clock or of values. ``stamping``
        is 0 after the clock refused a stamp.
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

    def _report_event(
        self,
        kind: str,
        name: str,
        attributes: Mapping[str, Any],
        *,
        message: Message | None = None,
        unstamped: bool = False,
    ) -> ReportedEvent | None:
        """Number, stamp and queue an event; None if it was dropped. Never raises."""
        try:
            # Before the lock is held: this may run code of the application, which may report.
            name_text, attributes_text = name_json(name), attributes_json(attributes)
            with self._lock:
                if unstamped:
                    self._counts["unstamped"] += 1
                if self._closed or not self._has_room(len(attributes_text) + _LINE_BYTES):
                    self._counts["dropped"] += 1
                    self._unreported_drops += 1
                    return None
                self._report_fork()
                self._report_drops(refusals_too=True)
                event = self._put(kind, name_text, attributes_text, message, unstamped)
            if self._unlogged:
                self._log_pending()
            return event
        except Exception:
            self._count("faults")
            log.debug("an event could not be reported", exc_info=True)
            return None

    def _log_pending(self) -> None:
        while self._unlogged:
            log.warning("%s: %s", self.process, self._unlogged.pop())

    def _has_room(self, size_bytes: int) -> bool:
        sender = self._get_sender()
        return not self._is_putting and not sender.runs_here() and sender.has_room(size_bytes)

    def _put(
        self,
        kind: str,
        name_text: str,
        attributes_text: str,
        message: Message | None = None,
        unstamped: bool = False,
        on: Line | None = None,
    ) -> ReportedEvent:
        """Number, stamp and queue an event, on the line `on` or else that of the calling code. Hold the lock."""
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
    ) -> ReportedEvent:
        time_ns = int(self._now())
        stamp = self._stamp(kind, message, unstamped)
        seq = self._seq + 1
        event_id = f"{self.process}:{seq}"
        on_line: str | None = None
        if on is not None:
            on_line = line_fields(on)
        elif self._current_elsewhere is not None and (elsewhere := self._current_elsewhere()) is not None:
            # The line is its own parent, because others report its start.
            on_line = f'"line":{name_json(elsewhere)},"line_parent":{name_json(elsewhere)}'
        else:
            on, on_line = self.lines.line_of_next_event()
        record = record_line(
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
        self._get_sender().put(record)
        self._seq = seq
        if on is not None:
            self.lines.mark_reported(on)
        return ReportedEvent(event_id, stamp)

    def _stamp(self, kind: str, message: Message | None, unstamped: bool) -> Stamp | None:
        was_stamping = self._stamper.is_stamping
        stamp = self._stamper.stamp(kind, message, unstamped=unstamped)
        if was_stamping and not self._stamper.is_stamping:
            self._counts["faults"] += 1
            self._unlogged.append(
                f"events have no stamps from now on, because the clock failed: {self._stamper.refusal}"
            )
        return stamp

    def _report_drops(self, *, refusals_too: bool = False) -> None:
        """Report how many events were dropped, and how many refused if `refusals_too`. Hold the lock."""
        # Refusals wait for the next event of the application: a report of them may be refused as well, and so on for ever.
        if self._closed or not (self._unreported_drops or (self._unreported_refusals and refusals_too)):
            return
        drops, refusals = self._unreported_drops, self._unreported_refusals
        attributes = {"count": drops, "refused": refusals, "why": refusals and self._refused_why}
        attributes_text = attributes_json({name: value for name, value in attributes.items() if value})
        self._put("local", f'"{DROPPED}"', attributes_text, on=self.lines.line_of_reporter)
        self._unreported_drops -= drops
        self._unreported_refusals -= refusals

    def _note_refusal(self, events: int, why: str) -> None:
        self._counts["refused"] += events
        self._unreported_refusals += events
        self._refused_why = why

    def _report_fork(self) -> None:
        """Report the receive of the fork as the first event of a forked child. Hold the lock."""
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
        except OSError as error:
            self._counts["spool_failures"] += 1
            self._unlogged.append(f"events that cannot be sent are not kept on disk: {error.strerror}")
            return None

    def _close_at_exit(self) -> None:
        if not _exiting_since_s:
            _exiting_since_s.append(time.monotonic())
        self.close(max(_exiting_since_s[0] + self._exit_timeout_s - time.monotonic(), 0.1))

    # Forks; called by `ledto.reporting.fork`.

    def before_fork(self) -> None:
        """Hold the lock until after the fork. Report the fork if there were events before it."""
        self._lock.acquire()
        self._fork_message = None
        if self._seq and not self._closed:
            self._fork_message = self.sent(FORK)

    def after_fork_in_parent(self) -> None:
        """Release the lock."""
        self._lock.release()

    def after_fork_in_child(self) -> None:
        """Start as a process of its own, without the queue, the connection and the spool, which are the parent's."""
        inherited, closed = self._fork_message, self._closed
        if self._sender is not None:
            self._sender.forget()
        self._begin(full_name(self._name, None), None)
        self._inherited = None if inherited is None else (inherited, self.lines.inherit())
        self._closed = closed
