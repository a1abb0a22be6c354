"""Runs the examples of one page of documentation, top to bottom, as a reader would: ``python run_page.py PAGE``.

With ``--inline`` before PAGE, ``ledto observe`` runs without Java where the line does not say otherwise: both engines leave
the same bytes (tests/spark/test_engines.py), and a page takes a second or two.

- ``python`` blocks of a page share one namespace.
- ``sh`` blocks run as one bash script each, which stops at the first failure. In ``console`` blocks, lines that start
  with ``$`` are the commands and the rest is their output.
- Output that the page shows, in a console block or in a ``text`` block directly after any example, must be what the
  example prints on stdout.
- ``git clone`` is not run, and neither is ``make``, whose targets must exist.
- ``<!-- not run: reason -->`` directly before a block leaves it out.

The current folder should be a scratch copy of the repository: examples may write to it.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^(?P<indent> *)(?P<ticks>`{3,})(?P<language>\w*)")
PATH = [str(Path(sys.executable).parent)]
"""Where commands are looked for first."""
NOT_RUN = re.compile(r"^ *<!-- not run\b(?P<reason>.*)-->\s*$")
ON_SPARK = re.compile(r"^ *<!-- on Spark\b.*-->\s*$")
"""A mark of blocks that need Java, on a page whose others do not: they are left out with ``--inline``."""


INLINE = """#!/bin/sh
case " $* " in
    " observe "*" --follow "* | " observe "*" --engine "* | " observe "*" --master "*) ;;
    " observe "*) set -- "$@" --engine inline ;;
esac
exec {python} -m ledto.cli "$@"
"""
"""A line that names an engine, or follows a source, runs as it is written."""


class PageError(Exception):
    """An example that does not do what the page says."""


@dataclass(frozen=True)
class Block:
    language: str
    body: str
    first_line: int
    follows: int
    """How many lines of prose stand between the block before and this one."""
    not_run: bool
    on_spark: bool


def blocks(page: str) -> Iterator[Block]:
    """The page's fenced blocks, in order."""
    lines = iter(enumerate(page.splitlines(), start=1))
    prose, not_run, on_spark = 1, False, False
    for number, line in lines:
        if opening := FENCE.match(line):
            closing = re.compile(rf"^ *{opening['ticks']}`*\s*$")
            body: list[str] = []
            for _, inside in lines:
                if closing.match(inside):
                    break
                body.append(inside)
            else:
                raise PageError(f"line {number}: this block is never closed")
            text = textwrap.dedent("\n".join(body))
            yield Block(opening["language"], text, number + 1, prose, not_run, on_spark)
            prose, not_run, on_spark = 0, False, False
        elif mark := NOT_RUN.match(line):
            if not mark["reason"].strip(": "):
                raise PageError(f"line {number}: say why: <!-- not run: reason -->")
            not_run = True
        elif ON_SPARK.match(line):
            on_spark = True
        elif line.strip():
            prose, not_run, on_spark = prose + 1, False, False


def make_targets() -> set[str]:
    """The targets that the Makefile names."""
    return set(re.findall(r"^([a-z][\w-]*):(?!=)", (ROOT / "Makefile").read_text(), re.MULTILINE))


def runnable(command: str) -> str:
    """The command line, with a stand-in for each part that must not run here."""
    return "&&".join(_stand_in(part) for part in command.split("&&"))


def _stand_in(part: str) -> str:
    if re.match(r"\s*make\b", part):
        wanted = [word for word in shlex.split(part, comments=True)[1:] if "=" not in word and not word.startswith("-")]
        if unknown := sorted(set(wanted) - make_targets()):
            raise PageError(f"the Makefile has no target {unknown[0]!r}; it has {', '.join(sorted(make_targets()))}")
        return " true "
    if re.match(r"\s*git clone\b", part):
        words = shlex.split(part, comments=True)
        folder = Path(words[-1]).name.removesuffix(".git")
        return f" mkdir -p {shlex.quote(folder)} "
    return part


def run_shell(commands: str) -> str:
    """What the commands print on stdout."""
    script = "\n".join(runnable(line) for line in commands.splitlines())
    done = subprocess.run(
        ["bash", "-euxo", "pipefail", "-c", script],
        env=os.environ | {"PATH": os.pathsep.join([*PATH, os.environ.get("PATH", "")])},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise PageError(f"exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def run_console(session: str) -> None:
    """Each command with the output shown below it, if any is."""
    for entry in re.split(r"^\$ ", session, flags=re.MULTILINE)[1:]:
        command, *shown = entry.splitlines()
        while command.endswith("\\") and shown:
            command += "\n" + shown.pop(0)
        printed = run_shell(command)
        if any(shown):
            compare("\n".join(shown), printed)


def run_python(block: Block, namespace: dict[str, object], page: str) -> str:
    """What the block prints; its errors name the page's own line."""
    printed = io.StringIO()
    padding = "\n" * (block.first_line - 1)
    with contextlib.redirect_stdout(printed):
        exec(compile(padding + block.body, page, "exec"), namespace)
    return printed.getvalue()


def compare(shown: str, printed: str) -> None:
    if shown.rstrip("\n") != printed.rstrip("\n"):
        raise PageError(f"the page shows\n{shown.rstrip()}\nand the example prints\n{printed.rstrip()}")


def run_page(page: Path, *, inline: bool = False) -> int:
    """Run every example, without those on Spark if `inline`; returns how many ran."""
    namespace: dict[str, object] = {"__name__": "__main__"}
    printed: str | None = None
    ran = 0
    for block in blocks(page.read_text()):
        language = None if block.not_run or (inline and block.on_spark) else block.language
        try:
            if language == "text" and printed is not None and block.follows == 0:
                compare(block.body, printed)
            printed = None
            if language == "python":
                printed = run_python(block, namespace, str(page))
            elif language == "sh":
                printed = run_shell(block.body)
            elif language == "console":
                run_console(block.body)
            else:
                continue
            ran += 1
        except PageError as error:
            raise PageError(f"{page.name}, line {block.first_line}: {error}") from None
    return ran


def write_inline_command(command: Path) -> None:
    """Make a program that is ``ledto``, with an engine that needs no Java."""
    command.write_text(INLINE.format(python=shlex.quote(sys.executable)))
    command.chmod(0o755)


@contextlib.contextmanager
def inline_engine() -> Iterator[None]:
    """Let examples find that program before the real one."""
    with TemporaryDirectory() as folder:
        write_inline_command(Path(folder) / "ledto")
        PATH.insert(0, folder)
        yield
        PATH.remove(folder)


if __name__ == "__main__":
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--inline", action="store_true")
    arguments.add_argument("page", type=Path)
    given = arguments.parse_args()
    try:
        with inline_engine() if given.inline else contextlib.nullcontext():
            print(f"{run_page(given.page, inline=given.inline)} examples ran")
    except PageError as error:
        sys.exit(str(error))
