"""Child processes that are kept running, and never outlive the one that started them.

A child that ends is started again: at once, or so that its starts are apart by a time that grows. One that ends by itself
soon after each start, with an error, is likely to do so for a lasting reason: it is started ever more seldom, and
`Supervised.problem` says what it said last. A child is told to end by SIGTERM and killed, with all its group, when it does
not. On Linux the kernel ends it when its parent dies, however that happens; elsewhere the next start finds the pid it left
and ends it.

HAZARD: the kernel watches the thread that started the child. Start from a thread that lives as long as the service does.
"""

from __future__ import annotations

import asyncio
import ctypes
import logging
import os
import re
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

log = logging.getLogger("whence.service")

_PR_SET_PDEATHSIG: Final = 1
_FIRST_WAIT_S: Final = 0.1
_LONGEST_WAIT_S: Final = 10.0
_LONG_LIFE_S: Final = 30.0
"""After a child that lived so long, back-off begins anew."""
_FIRST_FAILING_WAIT_S: Final = 1.0
_LONGEST_FAILING_WAIT_S: Final = 60.0
_FAILING_AFTER: Final = 2
"""Errors in a row, each soon after the start, that are taken for a lasting reason."""
_SAID_LINES: Final = 3
_SAID_CHARACTERS: Final = 400
_LINE_BYTES: Final = 64 << 10
_PLACES: Final = re.compile(r"(?<![\w.:/])(?:[a-z]+://|~?/)[^\s'\"<>|]*[\w/]")
"""Paths and URLs, which are nobody's business who may only ask whether the service is ready."""
_PROC: Final = Path("/proc/self/cmdline")
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


def _end_with_parent() -> None:
    # Runs between fork and exec: nothing here may take a lock or import.
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


@dataclass(frozen=True, slots=True)
class Command:
    """What to start."""

    arguments: Sequence[str]
    """HAZARD: every user of the machine can read them. Secrets go into files or `environment`."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Added to our own."""


class Supervised:
    """One child. `command` is asked for each time it is started; `marker` is a part of its command line, by which a
    process left over from an earlier parent is known.
    """

    def __init__(
        self, name: str, command: Callable[[], Command], *, pid_file: Path, marker: str, grace_s: float = 10.0
    ) -> None:
        self.name = name
        self._command = command
        self._pid_file = pid_file
        self._marker = marker
        self._grace_s = grace_s
        self._process: asyncio.subprocess.Process | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._passing_on: asyncio.Task[None] | None = None
        self._said: deque[str] = deque(maxlen=_SAID_LINES)
        self._started_s = 0.0
        self._failures = 0
        """Errors in a row, each soon after the start."""
        self._status = 0
        self._last_words = ""
        self.restarts = 0

    @property
    def pid(self) -> int | None:
        """Of the child, while it runs."""
        process = self._process
        return process.pid if process is not None and process.returncode is None else None

    @property
    def problem(self) -> str | None:
        """Why the child does not stay alive, for anybody to read; None while it does, or has not been given up."""
        if self._failures < _FAILING_AFTER or (self.pid is not None and self._lived_s > _LONG_LIFE_S):
            return None
        words = f": {self._last_words}" if self._last_words else ""
        return f"{self.name} ended {self._failures} times soon after its start, with status {self._status}{words}"

    @property
    def _lived_s(self) -> float:
        return time.monotonic() - self._started_s

    async def end_leftover(self) -> None:
        """End the child of an earlier parent, if it still runs."""
        await asyncio.to_thread(end_leftover, self._pid_file, self._marker, grace_s=self._grace_s)

    async def start(self) -> None:
        """Start the child, and keep it running. Raises `OSError` where it cannot be started at all."""
        await self.end_leftover()
        await self._spawn()
        self._keeper = asyncio.create_task(self._keep(), name=f"keeper of {self.name}")

    async def stop(self) -> None:
        """End the child and wait for it; harmless when it does not run."""
        if self._keeper is not None:
            self._keeper.cancel()
            with suppress(asyncio.CancelledError):
                await self._keeper
            self._keeper = None
        process, self._process = self._process, None
        if process is not None:
            await self._end(process)
        await self._hear_out()
        self._pid_file.unlink(missing_ok=True)

    def replace(self) -> None:
        """Kill the child, which is then started again: for one that runs and does not work."""
        if self.pid is not None:
            _kill_group(self.pid)

    async def _end(self, process: asyncio.subprocess.Process) -> None:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.terminate()
            try:
                async with asyncio.timeout(self._grace_s):
                    await process.wait()
            except TimeoutError:
                log.warning("%s did not end within %g s and is killed", self.name, self._grace_s)
        _kill_group(process.pid)
        await process.wait()

    async def _spawn(self) -> None:
        command = self._command()
        self._process = await asyncio.create_subprocess_exec(
            *command.arguments,
            env={**os.environ, **command.environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            limit=_LINE_BYTES,
            preexec_fn=_end_with_parent,
            # An interrupt from the terminal is for us: we end our children in order.
            start_new_session=True,
        )
        self._started_s = time.monotonic()
        self._said.clear()
        assert self._process.stdout is not None
        self._passing_on = asyncio.create_task(self._pass_on(self._process.stdout))
        self._note_pid(self._process.pid)

    async def _pass_on(self, output: asyncio.StreamReader) -> None:
        """Write what the child says to our own standard error, and keep the last of it."""
        while part := await output.read(_LINE_BYTES):
            if _has_descriptor(sys.stderr):
                with suppress(OSError):
                    os.write(sys.stderr.fileno(), part)
            self._said.extend(line for line in part.decode(errors="replace").splitlines() if line.strip())

    def _note_pid(self, pid: int) -> None:
        temporary = self._pid_file.with_name(f".{self._pid_file.name}")
        try:
            # Replaced at once: whoever reads the file finds a whole number in it.
            temporary.write_text(f"{pid}\n")
            temporary.replace(self._pid_file)
        except OSError as fault:
            # On a full disk, a child that runs is worth more than a note of it.
            log.warning("the pid of %s cannot be noted: %s", self.name, type(fault).__name__)

    async def _keep(self) -> None:
        wait_s = _FIRST_WAIT_S
        while True:
            try:
                if self._process is not None:
                    status = await self._process.wait()
                    lived_s = self._lived_s
                    _kill_group(self._process.pid)
                    await self._hear_out()
                    self._note_end(status, lived_s)
                if self._failures:
                    wait_s = failing_wait_s(self._failures)
                elif self._lived_s > _LONG_LIFE_S:
                    wait_s = _FIRST_WAIT_S
                # What counts is how often it is started: one that takes long to start has waited enough.
                await asyncio.sleep(max(wait_s - self._lived_s, _FIRST_WAIT_S))
                wait_s = min(2 * wait_s, _LONGEST_WAIT_S)
                self.restarts += 1
                await self._spawn()
            except OSError as fault:
                self._process = None
                self._started_s = time.monotonic()
                log.error("%s cannot be started: %s", self.name, type(fault).__name__)

    async def _hear_out(self) -> None:
        """Take in what an ended child said, for a moment: something that it started may hold its output open."""
        if self._passing_on is not None:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._passing_on, timeout=1.0)
            self._passing_on = None

    def _note_end(self, status: int, lived_s: float) -> None:
        # One that was killed did not fail for a reason of its own.
        self._failures = self._failures + 1 if status > 0 and lived_s <= _LONG_LIFE_S else 0
        self._status = status
        self._last_words = _PLACES.sub("...", " ".join(line.strip() for line in self._said))[-_SAID_CHARACTERS:]
        if self.problem is not None:
            log.error("%s; it is tried again from time to time", self.problem)
        else:
            log.warning("%s ended with status %d and is started again", self.name, status)


def failing_wait_s(failures: int) -> float:
    """How long after its start a child that failed so often is started again, at the earliest."""
    return min(_FIRST_FAILING_WAIT_S * 4.0 ** min(failures - 1, 20), _LONGEST_FAILING_WAIT_S)


def end_leftover(pid_file: Path, marker: str, *, grace_s: float) -> None:
    """End the process whose pid stands in a file, if it still runs and its command line has the marker."""
    try:
        pid = int(pid_file.read_text())
    except (OSError, ValueError):
        return
    if pid > 1 and marker in _command_line(pid):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGTERM)
        if not _has_ended(pid, marker, grace_s):
            _kill_group(pid)
            _has_ended(pid, marker, grace_s)
    pid_file.unlink(missing_ok=True)


def _has_ended(pid: int, marker: str, within_s: float) -> bool:
    end = time.monotonic() + within_s
    while marker in _command_line(pid):
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def _command_line(pid: int) -> str:
    if _PROC.exists():
        try:
            return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            return ""
    found = subprocess.run(["ps", "-p", str(pid), "-o", "command="], capture_output=True, text=True, check=False)
    return found.stdout


def _kill_group(pid: int) -> None:
    """Kill what the child may have left running; it leads a group of its own."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _has_descriptor(stream: object) -> bool:
    try:
        stream.fileno()  # type: ignore[attr-defined]
    except (AttributeError, OSError, ValueError):
        return False
    return True
