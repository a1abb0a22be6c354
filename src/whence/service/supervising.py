"""Child processes that are kept running, and never outlive the one that started them.

A child that ends is started again: at once, or so that its starts are apart by a time that grows. It is told to end by
SIGTERM and killed, with all its group, when it does not. On Linux the kernel ends it when its parent dies, however that
happens; elsewhere the next start finds the pid it left and ends it.

HAZARD: the kernel watches the thread that started the child. Start from a thread that lives as long as the service does.
"""

from __future__ import annotations

import asyncio
import ctypes
import logging
import os
import signal
import subprocess
import sys
import time
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
        self.restarts = 0

    @property
    def pid(self) -> int | None:
        """Of the child, while it runs."""
        process = self._process
        return process.pid if process is not None and process.returncode is None else None

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
            stdout=sys.stderr.fileno() if _has_descriptor(sys.stderr) else subprocess.DEVNULL,
            preexec_fn=_end_with_parent,
            # An interrupt from the terminal is for us: we end our children in order.
            start_new_session=True,
        )
        self._note_pid(self._process.pid)

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
            started = time.monotonic()
            try:
                if self._process is not None:
                    status = await self._process.wait()
                    log.warning("%s ended with status %d and is started again", self.name, status)
                    _kill_group(self._process.pid)
                lived_s = time.monotonic() - started
                if lived_s > _LONG_LIFE_S:
                    wait_s = _FIRST_WAIT_S
                # What counts is how often it is started: one that takes long to start has waited enough.
                await asyncio.sleep(max(wait_s - lived_s, _FIRST_WAIT_S))
                wait_s = min(2 * wait_s, _LONGEST_WAIT_S)
                self.restarts += 1
                await self._spawn()
            except OSError as fault:
                self._process = None
                log.error("%s cannot be started: %s", self.name, type(fault).__name__)


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
