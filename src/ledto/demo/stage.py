"""Print the demo: in colour on a terminal, plain into a pipe.

If the reader closes the pipe early, as ``head`` does, the demo ends silently and with success.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn, TextIO

from rich.console import Console
from rich.text import Text

INTERRUPTED = 130
PIPED_COLUMNS = 120


class Stage:
    """Prints texts, and runs commands after printing them."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._console = _Console(file=out, highlight=False, width=None if out.isatty() else PIPED_COLUMNS)
        self._acts = 0

    def act(self, title: str) -> None:
        """Print the number and title of a new part."""
        self._acts += 1
        self._say(Text(f"\n{self._acts}. {title}", style="bold"))

    def say(self, text: str = "") -> None:
        """Print one or more sentences."""
        self._say(Text(text))

    def row(self, text: str, *, style: str = "") -> None:
        """Print an indented line, which is cut rather than wrapped."""
        self._say(Text(f"  {text}", style=style, no_wrap=True, overflow="ellipsis"))

    def check(self, claim: str, holds: bool) -> None:
        """Print that a claim holds. Raises `DemoFailed` if it does not."""
        if not holds:
            self._say(Text(f"  ✗ {claim}", style="bold red"))
            raise DemoFailed(f"the answer contradicts what is known of the shop: {claim}")
        self._say(Text.assemble(("  ✓ ", "bold green"), claim))

    def show_command(self, command: str) -> None:
        """Print a command as a user would type it."""
        self._say(Text.assemble("\n", ("$ ", "bold cyan"), (command, "cyan")), wrap=False)

    def run(self, command: Sequence[str]) -> None:
        """Print a command, then run it and print its output. Raises `DemoFailed` if it fails."""
        self.show_command(format_command(command))
        if self._out.isatty():
            status = subprocess.run(command, stdin=subprocess.DEVNULL, check=False).returncode
        else:
            status = self._relay(command)
        if status:
            raise DemoFailed(f"{format_command(command)} ended with status {status}", status=status)

    def _relay(self, command: Sequence[str]) -> int:
        """Run a command, copy its output line by line, and return its status."""
        with subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            env={**os.environ, "COLUMNS": str(PIPED_COLUMNS)},
            encoding="utf-8",
            errors="replace",
        ) as child:
            assert child.stdout is not None
            try:
                for line in child.stdout:
                    self._out.write(line)
                    self._out.flush()
            except BaseException:
                child.terminate()
                raise
        return child.returncode

    def _say(self, text: Text, *, wrap: bool = True) -> None:
        self._console.print(text, soft_wrap=not wrap)
        self._out.flush()


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Raise, so that `perform` handles it; the inherited method ends the process with failure."""
        raise BrokenPipeError


class DemoFailed(Exception):
    """A command failed, or an answer contradicts the truth."""

    def __init__(self, why: str, *, status: int = 1) -> None:
        super().__init__(why)
        self.status = status


def format_command(command: Sequence[str]) -> str:
    """Quote a command for a shell; use double quotes around single ones where that is easier to read."""
    return " ".join(
        f'"{word}"' if "'" in word and not set(word) & set('"$`\\!') else shlex.quote(word) for word in command
    )


def ledto_command() -> list[str]:
    """Return the command as a user can type it here: its name if the shell finds the same program, else its path."""
    beside = Path(sys.executable).with_name("ledto")
    if not beside.exists():
        return [sys.executable, "-m", "ledto.cli"]
    on_path = shutil.which("ledto")
    if on_path is not None and Path(on_path) == beside:
        return ["ledto"]
    return [os.path.relpath(beside) if beside.is_relative_to(Path.cwd()) else str(beside)]


def perform(play: Callable[[Stage], None]) -> NoReturn:
    """Play to standard output, and exit the process with the status of the result."""
    try:
        play(Stage(sys.stdout))
        sys.stdout.flush()
    except BrokenPipeError:
        # Otherwise the interpreter would raise again when it flushes standard output at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except DemoFailed as failed:
        sys.stderr.write(f"{failed}\n")
        sys.exit(failed.status)
    sys.exit(0)
