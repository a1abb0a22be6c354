"""What people run in containers: no home, no network, no name for the user, nothing that can be written."""

from __future__ import annotations

import json
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

import ledto
from ledto.batch.inline import InlineEngine
from ledto.batch.observe import RunSettings, observe
from ledto.sources.inputs import find_inputs
from tests.deploy.confinement import UNKNOWN_USER, run_confined
from tests.spark.test_java import install_fake_java

LOG = """\
{"process": "web", "seq": 1, "time": 1000, "kind": "send", "message": "m1", "name": "order placed"}
{"process": "pay", "seq": 1, "time": 2000, "kind": "receive", "message": "m1", "name": "charge"}
{"process": "pay", "seq": 2, "time": 3000, "kind": "send", "message": "m2", "name": "refused"}
{"process": "web", "seq": 2, "time": 4000, "kind": "receive", "message": "m2", "name": "order failed"}
{"process": "web", "seq": 3, "time": 5000, "kind": "sent"}
"""
ABOUT_A_HISTORY = (
    ["why", "web:2", "--where", "name = 'charge'"],
    ["impact", "web:1"],
    ["relation", "web:1", "web:2"],
    ["explain", "web:1", "web:2"],
    ["concurrent", "pay:1"],
    ["cut", "--event", "pay:2"],
    ["order"],
    ["processes"],
    ["check"],
    ["clocks"],
    ["quarantine"],
    ["sql", "SELECT count(*) AS events FROM events"],
    ["export", "--format", "dot"],
    ["simulate", "--policy", "cbd:0.5"],
)
"""All commands that only read a history, and what else they are given."""
RUN_ALL = """
import json, os, resource, sys
from typer.testing import CliRunner
from ledto.cli.main import cli

answers = {}
for words in json.loads(sys.argv[1]):
    done = CliRunner().invoke(cli, words)
    failure = "" if isinstance(done.exception, SystemExit | None) else repr(done.exception)
    answers[" ".join(words)] = [done.exit_code, done.output, failure]
print(json.dumps({
    "answers": answers,
    "user": os.getuid(),
    "bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
}))
"""
"""Runs the commands in one process, for the sake of time."""


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("history")
    (folder / "log.jsonl").write_text(LOG)
    ledto.observe(folder / "log.jsonl", folder / "h")
    return folder / "h"


def commands_about(history: Path) -> list[list[str]]:
    return [[name, str(history), *rest] for name, *rest in ABOUT_A_HISTORY]


def run_all(commands: list[list[str]], **surroundings: Any) -> dict[str, Any]:
    script = '"$@" || exit; [ -z "$TMPDIR" ] || ls -A "$TMPDIR"'
    done = run_confined(["sh", "-c", script, "sh", sys.executable, "-c", RUN_ALL, json.dumps(commands)], **surroundings)
    assert done.returncode == 0, done.stderr
    told, *left = done.stdout.splitlines()
    return {**json.loads(told), "left": left}


def test_the_surroundings_are_what_they_claim(tmp_path: Path) -> None:
    """If the file system could be written after all, the tests below would show nothing."""
    folders = [*ledto.__path__, tmp_path, tempfile.gettempdir(), Path.home()]
    script = "\n".join(f"touch {folder}/written" for folder in folders)
    script += """
getent passwd "$(id -u)"
getent ahosts "$(hostname)"
echo user $(id -u), $(ulimit -n) files
"""
    done = run_confined(["sh", "-c", script], environment={"LC_ALL": "C"})
    assert done.stdout == f"user {UNKNOWN_USER}, 256 files\n"
    assert done.stderr.count("Read-only file system") == len(folders)


@pytest.mark.parametrize("home", [None, "/nonexistent", "/root"])
def test_every_question_is_answered_where_nothing_can_be_written(history: Path, home: str | None) -> None:
    """Each of these ended with one sentence that asked for a folder which no container gives."""
    to = history.parent / "new"
    commands = [*commands_about(history), ["observe", f"{history.parent}/log.jsonl", "--engine=inline", f"--to={to}"]]
    found = run_all(commands, environment={} if home is None else {"HOME": home})
    *_, (status, said, failure) = found["answers"].values()
    assert (status, failure) == (1, "")
    assert said.startswith(f"{to} cannot be written: ")
    failed = {name: answer for name, answer in found["answers"].items() if answer[0] != 0 or answer[2]}
    assert len(failed) == 1, "besides observe, which has to write"
    assert found["user"] == UNKNOWN_USER
    assert found["bytes"] < 512 << 20, "a container for asking has 512 MB"
    alone = run_confined([sys.executable, "-m", "ledto.cli", "processes", history])
    assert (alone.returncode, alone.stderr) == (0, ""), "and as the command that is typed"


@pytest.mark.parametrize("has_temporary_files", [True, False])
def test_a_history_is_made_and_asked_with_one_folder_to_write_to(
    history: Path, tmp_path: Path, has_temporary_files: bool
) -> None:
    """A job in a container has one folder to write to, perhaps one for temporary files, and few file descriptors."""
    made, temporary = tmp_path / "made", tmp_path / "temporary"
    made.mkdir()
    temporary.mkdir()
    commands = [
        ["observe", f"{history.parent}/log.jsonl", "--engine", "inline", "--to", f"{made}/h"],
        *commands_about(made / "h"),
        ["report", f"{made}/h", "web:2", "--to", f"{made}/page.html"],
        ["export", f"{made}/h", "--format", "parquet", "--to", f"{made}/h.parquet"],
        ["simulate", f"{made}/h", "--policy", "exact", "--to", f"{made}/again"],
    ]
    writable = [made, temporary] if has_temporary_files else [made]
    found = run_all(commands, writable=writable, environment={"TMPDIR": str(temporary)})
    assert {name: answer for name, answer in found["answers"].items() if answer[0] != 0 or answer[2]} == {}
    assert found["left"] in ([], [f"ledto-compiled-{UNKNOWN_USER}"]), "nothing else is left behind"
    assert found["bytes"] < 512 << 20, "a container for asking has 512 MB"


def test_many_segments_need_few_files(tmp_path: Path) -> None:
    """A history of many epochs has more files than a process may open; one that kept them open would fail here alone."""
    log = tmp_path / "log.jsonl"
    lines = ({"process": f"p{number % 7}", "time": number * 1_000_000} for number in range(30_000))
    log.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    observe(InlineEngine(), find_inputs([str(log)]), tmp_path / "h", RunSettings(epoch_rows=100))
    assert len(ledto.open(tmp_path / "h").run.segments) > 256
    found = run_all(
        [
            ["sql", f"{tmp_path}/h", "SELECT count(*) AS events, count(DISTINCT process) AS processes FROM events"],
            ["why", f"{tmp_path}/h", "p0:4000", "-k", "3000", "--json"],
            ["check", f"{tmp_path}/h"],
            ["export", f"{tmp_path}/h", "--format", "csv"],
        ]
    )
    assert {name: answer for name, answer in found["answers"].items() if answer[0] != 0 or answer[2]} == {}
    counted, why, _, exported = [answer[1] for answer in found["answers"].values()]
    assert counted.split()[-2:] == ["30000", "7"]
    assert len(json.loads(why)["causes"]) == 3_000
    assert exported.count("\n") == 30_001
    assert found["bytes"] < 512 << 20, "a container for asking has 512 MB"


def test_a_figure_is_drawn_without_a_word(tmp_path: Path) -> None:
    """Each run made a list of fonts anew, and warned of it in four lines."""
    made, temporary = tmp_path / "made", tmp_path / "temporary"
    made.mkdir()
    temporary.mkdir()
    draw = "from ledto.papers.artefacts import Artefact; from pathlib import Path; import sys; "
    draw += "Artefact('f', ('x',), [[1]], lambda figure: figure.subplots().plot([1, 2])).write(Path(sys.argv[1]))"
    script = '"$@" && ls -A "$TMPDIR"'
    command = ["sh", "-c", script, "sh", sys.executable, "-c", draw, made]
    done = run_confined(command, writable=[made, temporary], environment={"TMPDIR": str(temporary)})
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == [f"ledto-fonts-{UNKNOWN_USER}"]


def test_a_start_script_that_may_not_be_run_is_said(tmp_path: Path) -> None:
    """Docker's own tmpfs is noexec: Spark ended with "Java gateway process exited" and nothing else."""
    bare = tmp_path / "bare"
    install_fake_java(bare, "25.0.2", has_vector_module=False)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    environment = {"JAVA_HOME": str(bare), "LEDTO_JAVA_DIRS": "", "TMPDIR": str(temporary)}
    no_other = "import os, sys; os.environ['PATH'] = ''; from ledto.spark.session.java import main; sys.exit(main())"
    find = [sys.executable, "-c", no_other]
    done = run_confined(find, writable=[temporary], environment=environment, size="8m,noexec")
    assert f"files in {temporary}/ledto-java-{UNKNOWN_USER} cannot be run (it is mounted noexec)" in done.stderr
    done = run_confined(find, writable=[temporary], environment=environment, size="8m")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_file_that_may_not_be_read_is_not_called_damaged(history: Path, tmp_path: Path) -> None:
    """A volume of another user: the advice was to restore the file from a copy, or to make the history again."""
    copied = Path(shutil.copytree(history, tmp_path / "h"))
    for file in copied.glob("runs/*/events-*"):
        file.chmod(0)
    done = run_confined([sys.executable, "-m", "ledto.cli", "why", copied, "web:2"])
    assert done.returncode == 1
    assert re.fullmatch(
        r"\S+/events-\S+ cannot be read: Permission denied\. Run this as a user who may .*\n", done.stderr
    )


@pytest.mark.slow
def test_spark_needs_neither_network_nor_home_nor_a_name_for_the_user(history: Path, tmp_path: Path) -> None:
    """Java ends with "invalid null input: name" for a user without a name, and with UnknownHostException for the host."""
    made, temporary = tmp_path / "made", tmp_path / "temporary"
    made.mkdir()
    temporary.mkdir()
    script = f"""
    {sys.executable} -m ledto.cli observe {history.parent}/log.jsonl --to {made}/h
    {sys.executable} -m ledto.cli sql {made}/h 'SELECT count(*) AS events FROM events' --json
    mkdir {made}/incoming && cp {history.parent}/log.jsonl {made}/incoming
    {sys.executable} -m ledto.cli observe --follow --once {made}/incoming --to {made}/live
    {sys.executable} -m ledto.cli sql {made}/live 'SELECT count(*) AS events FROM events' --json
    """
    done = run_confined(
        ["sh", "-exc", script],
        writable=[made, temporary],
        environment={"TMPDIR": str(temporary), "LEDTO_JAVA_ARCHIVE": "off"},
        loopback=True,
        files=4096,
        size="512m",
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count('"events": 4') == 2
    assert "Exception" not in done.stderr, "nothing that looks like a failure"


@pytest.mark.slow
def test_spark_without_a_folder_for_temporary_files_says_what_to_set(history: Path, tmp_path: Path) -> None:
    """The user read that "No usable temporary directory" was found, and not which variable names one."""
    tmp_path.joinpath("made").mkdir()
    done = run_confined(
        [sys.executable, "-m", "ledto.cli", "observe", f"{history.parent}/log.jsonl", "--to", f"{tmp_path}/made/h"],
        writable=[tmp_path / "made"],
    )
    assert done.returncode == 1
    assert "set TMPDIR" in done.stderr
    assert "Traceback" not in done.stderr
