from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile

import pytest
import typer

from ledto.cli.main import cli
from tests.conftest import QUICK_START
from tests.docs.run_page import blocks

ROOT = Path(__file__).parents[2]
RUNNER = Path(__file__).with_name("run_page.py")
PAGES = [
    page for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md") if (page := ROOT / name).exists()
] + sorted(page for page in (ROOT / "docs").rglob("*.md") if "decisions" not in page.parts)


ON_SPARK = {"follow.md", "reproduce.md", "serve.md", "subscribe.md"}
"""Pages that start Spark or the service, which no engine can do for them."""
AS_WRITTEN = ON_SPARK | {"README.md", "observe.md", "sources.md"}
"""Those, one that has such a part, and two that stand for all pages on which ``ledto observe`` takes the engine that a
reader gets."""
COMMAND = re.compile(
    r"""(?:\$\ )?(?:[A-Z_]+=\S+\ )*ledto\ (?P<arguments>(?:[^'"\\|&;<>()]|\\.|'[^']*'|"(?:[^"\\]|\\.)*")*)""",
    re.VERBOSE,
)
"""A line that runs ``ledto``, and its arguments: up to what the shell takes for a pipe, a redirection or an end."""
NO_JAVA = {"JAVA_HOME": "/nowhere", "LEDTO_JAVA_DIRS": ""}


def named(pages: list[Path]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("page", pages, ids=[str(page.relative_to(ROOT)) for page in pages])


def run(page: Path, folder: Path, *options: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """The page's examples, in a folder that looks like the repository and may be written to."""
    for entry in ROOT.iterdir():
        if entry.name not in (".git", ".venv"):
            (folder / entry.name).symlink_to(entry)
    command = [sys.executable, RUNNER, *options, page]
    env = {**os.environ, **environment}
    # Files, not pipes: a service that a page leaves running would keep a pipe open.
    with TemporaryFile("w+") as out, TemporaryFile("w+") as errors:
        running = subprocess.Popen(command, cwd=folder, stdout=out, stderr=errors, env=env, start_new_session=True)
        try:
            running.wait()
        finally:
            # What a page starts it ends, unless it fails before.
            with suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGTERM)
        out.seek(0)
        errors.seek(0)
        return subprocess.CompletedProcess(command, running.returncode, out.read(), errors.read())


def commands(page: Path) -> Iterator[tuple[bool, list[str]]]:
    """The arguments of each ``ledto`` on the page, also where it is not run; and whether its block names the history."""
    for block in blocks(page.read_text()):
        if block.language not in ("sh", "console"):
            continue
        for line in block.body.replace("\\\n", " ").splitlines():
            if command := COMMAND.match(line):
                yield "export LEDTO_HISTORY=" in block.body, shlex.split(command["arguments"], comments=True)


@named([page for page in PAGES if page.name not in ON_SPARK])
def test_the_examples_of_a_page_run(page: Path, tmp_path: Path) -> None:
    """A reader who types what the page says gets what the page shows; here without Java, which starts slowly."""
    done = run(page, tmp_path, "--inline", environment=NO_JAVA)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@named([page for page in PAGES if page.name in AS_WRITTEN])
def test_the_examples_of_a_page_run_as_they_are_written(page: Path, tmp_path: Path) -> None:
    """The same on Spark."""
    # Pages start Spark a dozen times, for moments: compiling well would take longer than running.
    done = run(page, tmp_path, environment={"JAVA_TOOL_OPTIONS": QUICK_START})
    assert done.returncode == 0, done.stdout + done.stderr


@named([page for page in PAGES if any(commands(page))])
def test_every_command_on_a_page_has_arguments_that_ledto_takes(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader would be refused an option that was renamed; also on pages, and in blocks, that do not run here."""
    group = typer.main.get_command(cli)
    for names_history, (name, *arguments) in commands(page):
        monkeypatch.setenv("LEDTO_HISTORY", "shop.history" if names_history else "")
        command = group.get_command(None, name)  # type: ignore[attr-defined, arg-type]
        assert command is not None, f"{page.name}: there is no command {name!r}"
        command.make_context(name, arguments)


PYTHON = "```python\n{}\n```\n"


@pytest.mark.parametrize(
    ("page", "complaint"),
    [
        (PYTHON.format("a = 1") + "prose\n" + PYTHON.format("print(a)") + "```text\n1\n```\n", None),
        (PYTHON.format("print(1)") + "```text\n2\n```\n", "the page shows\n2\nand the example prints\n1"),
        (PYTHON.format("print(1)") + "prose\n```text\n2\n```\n", None),
        ("x\n" + PYTHON.format("\n1 / 0"), "line 4"),
        ("<!-- not run: it fails -->\n" + PYTHON.format("1 / 0"), None),
        ("<!-- not run: it fails -->\nprose\n" + PYTHON.format("1 / 0"), "ZeroDivisionError"),
        ("<!-- on Spark: it starts it -->\n" + PYTHON.format("1 / 0"), "ZeroDivisionError"),
        ("<!-- not run -->\n" + PYTHON.format("1 / 0"), "line 1: say why"),
        ("- item\n  ```python\n  if True:\n      print(1)\n  ```\n  ```text\n  1\n  ```\n", None),
        ("```python\n1\n", "line 1: this block is never closed"),
        ("```sh\necho a > f\ncat f\n```\n```text\na\n```\n", None),
        ("```sh\nfalse\ntrue\n```\n", "exit code 1"),
        ("```sh\nfalse | true\n```\n", "exit code 1"),
        ("```sh\ngit clone https://host/ledto.git && cd ledto\nmake test  # all\n```\n", None),
        ("```sh\nmake everything-right\n```\n", "no target 'everything-right'"),
        ("```console\n$ echo 1\n1\n$ false || echo \\\n  2\n2\n```\n", None),
        ("```console\n$ echo 1\n2\n```\n", "the page shows\n2\nand the example prints\n1"),
        ("```console\n$ false\n```\n", "exit code 1"),
        ("```json\n{]\n```\n", None),
    ],
)
def test_a_page_that_lies_is_caught(page: str, complaint: str | None, tmp_path: Path) -> None:
    """Without this the test above could pass on a page whose examples fail."""
    written = tmp_path / "page.md"
    written.write_text(page)
    folder = tmp_path / "folder"
    folder.mkdir()
    done = run(written, folder, environment={})
    if complaint is None:
        assert done.returncode == 0, done.stderr
    else:
        assert done.returncode != 0
        assert complaint in done.stderr
