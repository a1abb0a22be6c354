"""Keep child processes running, and end them with their parent.

A child that ends is started again, with growing pauses between starts. One that fails soon after each start has probably
a lasting problem: it is started less and less often, and `Supervised.problem` has its last output. A child is asked to
end by SIGTERM, and killed with its process group if it does not. On Linux the kernel ends it when its parent dies in any
way. Elsewhere the next start finds its pid in a file and ends it.

HAZARD: the kernel watches the thread that started the child. Start it from a thread that lives as long as the service.
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

log = logging.getLogger("ledto.service")

_PR_SET_PDEATHSIG: Final = 1
_FIRST_WAIT_S: Final = 0.1
_LONGEST_WAIT_S: Final = 10.0
_LONG_LIFE_S: Final = 30.0
"""If a child has lived longer, the pauses begin anew."""
_FIRST_FAILING_WAIT_S: Final = 1.0
_LONGEST_FAILING_WAIT_S: Final = 60.0
_FAILING_AFTER: Final = 2
"""So many errors in a row, each soon after the start, count as a lasting problem."""
_KEPT_LINES: Final = 3
_KEPT_CHARACTERS: Final = 400
_LINE_BYTES: Final = 64 << 10
_PATHS_AND_URLS: Final = re.compile(r"(?<![\w.:/])(?:[a-z]+://|~?/)[^\s'\"<>|]*[\w/]")
"""Removed from a child's output, because anybody may ask whether the service is ready."""
_PROC: Final = Path("/proc/self/cmdline")
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


def _end_with_parent() -> None:
    # Runs between fork and exec: nothing here may take a lock or import.
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


@dataclass(frozen=True, slots=True)
class Command:
    """A command to start."""

    arguments: Sequence[str]
    """HAZARD: every user of the machine can read them. Put secrets into files or `environment`."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables that are added to our own environment."""


class Supervised:
    """One child process. Belongs to one event loop.

    `command` is called before each start. `marker` is a part of its command line; it identifies a child that an earlier
    parent left running.
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
        self._forwarding: asyncio.Task[None] | None = None
        self._last_lines: deque[str] = deque(maxlen=_KEPT_LINES)
        self._started_s = 0.0
        self._failures = 0
        """Errors in a row, each soon after the start."""
        self._status = 0
        self._last_output = ""
        self.restarts = 0

    @property
    def pid(self) -> int | None:
        """The child's process id while it runs."""
        process = self._process
        return process.pid if process is not None and process.returncode is None else None

    @property
    def problem(self) -> str | None:
        """Why the child does not stay alive, without paths and URLs; None if it does, or has failed only once."""
        if self._failures < _FAILING_AFTER or (self.pid is not None and self._lived_s > _LONG_LIFE_S):
            return None
        output = f": {self._last_output}" if self._last_output else ""
        return f"{self.name} ended {self._failures} times soon after its start, with status {self._status}{output}"

    @property
    def _lived_s(self) -> float:
        return time.monotonic() - self._started_s

    async def end_leftover(self) -> None:
        """End a child of an earlier parent that still runs."""
        await asyncio.to_thread(end_leftover, self._pid_file, self._marker, grace_s=self._grace_s)

    async def start(self) -> None:
        """Start the child, and keep it running. Raises `OSError` if the first start fails."""
        await self.end_leftover()
        await self._spawn()
        self._keeper = asyncio.create_task(self._keep(), name=f"keeper of {self.name}")

    async def stop(self) -> None:
        """End the child and wait for it. Does nothing if it does not run."""
        if self._keeper is not None:
            self._keeper.cancel()
            with suppress(asyncio.CancelledError):
                await self._keeper
            self._keeper = None
        process, self._process = self._process, None
        if process is not None:
            await self._end(process)
        await self._finish_output()
        self._pid_file.unlink(missing_ok=True)

    def replace(self) -> None:
        """Kill a child that runs and does not work; it is then started again."""
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
            # Its own session, so that an interrupt from the terminal reaches only us: we end our children in order.
            start_new_session=True,
        )
        self._started_s = time.monotonic()
        self._last_lines.clear()
        assert self._process.stdout is not None
        self._forwarding = asyncio.create_task(self._forward(self._process.stdout))
        self._write_pid(self._process.pid)

    async def _forward(self, output: asyncio.StreamReader) -> None:
        """Copy the child's output to our own standard error, and keep its last lines."""
        while part := await output.read(_LINE_BYTES):
            if _has_descriptor(sys.stderr):
                with suppress(OSError):
                    os.write(sys.stderr.fileno(), part)
            self._last_lines.extend(line for line in part.decode(errors="replace").splitlines() if line.strip())

    def _write_pid(self, pid: int) -> None:
        temporary = self._pid_file.with_name(f".{self._pid_file.name}")
        try:
            # Replaced atomically: the file always has a whole number.
            temporary.write_text(f"{pid}\n")
            temporary.replace(self._pid_file)
        except OSError as fault:
            # On a full disk, let the child run without a pid file.
            log.warning("the pid of %s cannot be written: %s", self.name, type(fault).__name__)

    async def _keep(self) -> None:
        wait_s = _FIRST_WAIT_S
        while True:
            try:
                if self._process is not None:
                    status = await self._process.wait()
                    lived_s = self._lived_s
                    _kill_group(self._process.pid)
                    await self._finish_output()
                    self._record_end(status, lived_s)
                if self._failures:
                    wait_s = failing_wait_s(self._failures)
                elif self._lived_s > _LONG_LIFE_S:
                    wait_s = _FIRST_WAIT_S
                # The pause is between two starts: the time that the child lived is part of it.
                await asyncio.sleep(max(wait_s - self._lived_s, _FIRST_WAIT_S))
                wait_s = min(2 * wait_s, _LONGEST_WAIT_S)
                self.restarts += 1
                await self._spawn()
            except OSError as fault:
                self._process = None
                self._started_s = time.monotonic()
                log.error("%s cannot be started: %s", self.name, type(fault).__name__)

    async def _finish_output(self) -> None:
        """Read the rest of an ended child's output, for up to a second: its own children may keep the pipe open."""
        if self._forwarding is not None:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._forwarding, timeout=1.0)
            self._forwarding = None

    def _record_end(self, status: int, lived_s: float) -> None:
        # A negative status is a signal: a child that was killed did not fail by itself.
        self._failures = self._failures + 1 if status > 0 and lived_s <= _LONG_LIFE_S else 0
        self._status = status
        output = " ".join(line.strip() for line in self._last_lines)
        self._last_output = _PATHS_AND_URLS.sub("...", output)[-_KEPT_CHARACTERS:]
        if self.problem is not None:
            log.error("%s; it is tried again from time to time", self.problem)
        else:
            log.warning("%s ended with status %d and is started again", self.name, status)


def failing_wait_s(failures: int) -> float:
    """Return the least time between two starts of a child that has failed so often."""
    return min(_FIRST_FAILING_WAIT_S * 4.0 ** min(failures - 1, 20), _LONGEST_FAILING_WAIT_S)


def end_leftover(pid_file: Path, marker: str, *, grace_s: float) -> None:
    """End the process whose pid is in a file, if it still runs and its command line contains the marker. Blocks."""
    try:
        pid = int(pid_file.read_text())
    except (OSError, ValueError):
        return
    if pid > 1 and marker in _command_line(pid):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGTERM)
        if not _wait_for_end(pid, marker, grace_s):
            _kill_group(pid)
            _wait_for_end(pid, marker, grace_s)
    pid_file.unlink(missing_ok=True)


def _wait_for_end(pid: int, marker: str, timeout_s: float) -> bool:
    """Wait until a process has ended; return False if that takes longer than `timeout_s`."""
    end = time.monotonic() + timeout_s
    while marker in _command_line(pid):
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def _command_line(pid: int) -> str:
    """Read the command line of a process; empty if it does not run."""
    if _PROC.exists():
        try:
            return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            return ""
    result = subprocess.run(["ps", "-p", str(pid), "-o", "command="], capture_output=True, text=True, check=False)
    return result.stdout


def _kill_group(pid: int) -> None:
    """Kill a child and everything that it started: it leads its own process group."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _has_descriptor(stream: object) -> bool:
    try:
        stream.fileno()  # type: ignore[attr-defined]
    except (AttributeError, OSError, ValueError):
        return False
    return True
