"""How the demo talks: in colour on a terminal, plainly into a pipe, and to nobody once the reader has gone.

A reader that closes the pipe early, as ``head`` does, has read enough: the demo ends with success and without a word.
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
    """Says things, and runs commands after showing them."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._console = _Console(file=out, highlight=False, width=None if out.isatty() else PIPED_COLUMNS)
        self._acts = 0

    def act(self, title: str) -> None:
        """Begin a part, with its number."""
        self._acts += 1
        self._say(Text(f"\n{self._acts}. {title}", style="bold"))

    def say(self, text: str = "") -> None:
        """A sentence or more."""
        self._say(Text(text))

    def row(self, text: str, *, style: str = "") -> None:
        """A line of its own, indented, never wrapped into the next."""
        self._say(Text(f"  {text}", style=style, no_wrap=True, overflow="ellipsis"))

    def check(self, claim: str, holds: bool) -> None:
        """Say that a claim holds; end the demo with failure where it does not."""
        if not holds:
            self._say(Text(f"  ✗ {claim}", style="bold red"))
            raise DemoFailed(f"the answer contradicts what is known of the shop: {claim}")
        self._say(Text.assemble(("  ✓ ", "bold green"), claim))

    def show_command(self, command: str) -> None:
        """Show a command as it could be typed."""
        self._say(Text.assemble("\n", ("$ ", "bold cyan"), (command, "cyan")), wrap=False)

    def run(self, command: Sequence[str]) -> None:
        """Show a command, then run it with its output here."""
        self.show_command(typed(command))
        if self._out.isatty():
            status = subprocess.run(command, stdin=subprocess.DEVNULL, check=False).returncode
        else:
            status = self._relay(command)
        if status:
            raise DemoFailed(f"{typed(command)} ended with status {status}", status=status)

    def _relay(self, command: Sequence[str]) -> int:
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
        """Let `performed` see it; as inherited, this would end the process with failure."""
        raise BrokenPipeError


class DemoFailed(Exception):
    """A command failed, or an answer is not the truth."""

    def __init__(self, why: str, *, status: int = 1) -> None:
        super().__init__(why)
        self.status = status


def typed(command: Sequence[str]) -> str:
    """A command for a shell, with double quotes around single ones where that is easier to read."""
    return " ".join(
        f'"{word}"' if "'" in word and not set(word) & set('"$`\\!') else shlex.quote(word) for word in command
    )


def whence_command() -> list[str]:
    """The command as a reader can type it here: by name where the shell finds this very one, else by its path."""
    beside = Path(sys.executable).with_name("whence")
    if not beside.exists():
        return [sys.executable, "-m", "whence.cli"]
    found = shutil.which("whence")
    if found is not None and Path(found) == beside:
        return ["whence"]
    return [os.path.relpath(beside) if beside.is_relative_to(Path.cwd()) else str(beside)]


def performed(play: Callable[[Stage], None]) -> NoReturn:
    """Play to standard output and leave the process with the status that says how it ended."""
    try:
        play(Stage(sys.stdout))
        sys.stdout.flush()
    except BrokenPipeError:
        # What is still buffered would raise again when the interpreter closes standard output.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except DemoFailed as failed:
        sys.stderr.write(f"{failed}\n")
        sys.exit(failed.status)
    sys.exit(0)
