"""``ledto export``, as it is typed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import pyarrow.parquet as pq
import pytest
import typer
from typer.testing import CliRunner

from ledto.cli.export import export
from ledto.export.names import DELIMITER, REGEX
from tests.history.building import Made, draw, write_history

app = typer.Typer(pretty_exceptions_enable=False)
app.command()(export)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Made]]:
    folder = tmp_path_factory.mktemp("history") / "h"
    large, small = draw(Random(3), "big", 4, 60), draw(Random(4), "small", 2, 8)
    for event in large:
        if event.process == "p1" and event.time is not None:
            event.time -= 500
    return folder, write_history(folder, [(large, [30])], [[small]], unit="ns")


def run(made: tuple[Path, list[Made]], *arguments: str, code: int = 0) -> Any:
    done = CliRunner(env={"COLUMNS": "200"}).invoke(app, [str(made[0]), *arguments])
    assert done.exit_code == code, done.output
    assert "Traceback" not in done.output
    return done


@pytest.mark.parametrize("form", ["shiviz", "govector", "perfetto", "otlp", "csv", "parquet", "dot"])
def test_a_file_is_there_when_it_is_whole(form: str, made: tuple[Path, list[Made]], tmp_path: Path) -> None:
    """Whatever reads the folder meanwhile sees the old file or the new one; stdout gets the same bytes."""
    to = tmp_path / "new" / "file"
    summary = json.loads(run(made, "--format", form, "--to", str(to), "--json").stdout)
    assert (summary["file"], summary["events"], summary["computations"]) == (str(to), 68, 2)
    assert list(to.parent.iterdir()) == [to]
    assert "68 events of" in run(made, "--format", form, "--to", str(to)).stdout
    piped = run(made, "--format", form)
    assert piped.stdout_bytes == to.read_bytes()
    if form == "parquet":
        assert pq.read_table(to).num_rows == 68
    else:
        assert to.read_bytes().endswith(b"\n")


def test_how_to_read_a_log_is_said_beside_it(made: tuple[Path, list[Made]]) -> None:
    """ShiViz asks for an expression and a delimiter; whoever pipes the log still sees them."""
    done = run(made, "--format", "shiviz")
    assert REGEX in done.stderr
    assert DELIMITER in done.stderr
    assert REGEX not in done.stdout
    summary = json.loads(run(made, "--format", "shiviz", "--json").stderr)
    assert (summary["regex"], summary["delimiter"]) == (REGEX, DELIMITER)
    alone = run(made, "--format", "shiviz", "--computation", "big")
    assert DELIMITER not in alone.stderr
    assert "===" not in alone.stdout


def test_arrows_left_out_are_counted(made: tuple[Path, list[Made]]) -> None:
    """The clock of p1 is far behind: a diagram that hides what the wall clocks contradict must say so."""
    _, events = made
    summary = json.loads(run(made, "--format", "perfetto", "--times", "wall", "--json", "--to", "/dev/null").stdout)
    assert summary["arrows"] + summary["arrows_left_out"] == sum(len(event.causes) for event in events)
    assert summary["arrows_left_out"] > 1
    said = run(made, "--format", "perfetto", "--times", "wall").stderr
    assert f"{summary['arrows_left_out']} arrows are left out" in said
    assert "left out" not in run(made, "--format", "perfetto").stderr
    assert not Path("/dev/null").is_file()


def test_parts_are_chosen(made: tuple[Path, list[Made]], tmp_path: Path) -> None:
    """What fits on a screen: an event and its last causes, some processes, one computation."""
    _, events = made
    focus = next(event for event in reversed(events) if event.computation == "big")
    past = [event for event in events if event.happened_before(focus)]
    to = str(tmp_path / "part")

    def positions(*arguments: str) -> list[int]:
        run(made, "--format", "parquet", "--to", to, *arguments)
        return list(pq.read_table(to)["position"].to_pylist())

    around = ["--around", focus.key, "--computation", "big"]
    assert positions(*around, "-k", "5") == [event.position for event in (*past[-5:], focus)]
    of_p1 = [event for event in past if event.process == "p1"]
    assert positions(*around, "--process", "p1", "-k", "3") == [event.position for event in (*of_p1[-3:], focus)]
    assert positions("--process", "p0", "--process", "p3") == [e.position for e in events if e.process in ("p0", "p3")]
    assert positions("--process", "p0", "--computation", "small") == [
        event.position for event in events if event.process == "p0" and event.computation == "small"
    ]


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["--format", "xml"], 2, "shiviz, govector, perfetto, otlp, csv, parquet, dot, not 'xml'"),
        (["--format", "csv", "--times", "true"], 2, "corrected or wall, not 'true'"),
        (["--format", "csv", "--computation", "bag"], 1, "there is no computation 'bag'"),
        (["--format", "csv", "--process", "p9"], 1, "there is no process 'p9'"),
        (["--format", "csv", "--process", "p3", "--computation", "small"], 1, "there is no process 'p3'"),
        (["--format", "csv", "--around", "p0:1"], 1, "--computation"),
        (["--format", "csv", "--around", "@1", "-k", "-1"], 2, "--k"),
        (["--format", "csv", "-k", "3"], 2, "it needs --around"),
        (["--format", "csv", "--to", "/dev/null/x"], 1, "/dev/null/x cannot be written"),
        (["--format", "csv", "--to", "/"], 1, "/ cannot be written"),
        ([], 2, "--format"),
    ],
)
def test_what_cannot_be_done_is_said_with_the_right_code(
    arguments: list[str], code: int, says: str, made: tuple[Path, list[Made]]
) -> None:
    """A script tells a wrong command (2) from something that is not there (1); a person reads what to do."""
    assert says in " ".join(run(made, *arguments, code=code).output.split())


def test_a_file_that_cannot_be_finished_is_not_left_behind(made: tuple[Path, list[Made]], tmp_path: Path) -> None:
    """A torn trace looks like a whole one to many tools; the file of the last export stays."""
    to = tmp_path / "graph.dot"
    to.write_text("old")
    broken = tmp_path / "broken"
    folder, _ = made
    subprocess.run(["cp", "-r", folder, broken], check=True)
    for file in broken.glob("runs/*/events-00001-*.parquet"):
        file.write_bytes(b"PAR1")
    done = CliRunner().invoke(app, [str(broken), "--format", "dot", "--to", str(to)])
    assert done.exit_code == 1
    assert "make the history again" in done.output
    assert to.read_text() == "old"
    assert {file.name for file in tmp_path.iterdir()} == {"graph.dot", "broken"}


@pytest.mark.parametrize("form", ["shiviz", "csv", "parquet", "perfetto"])
def test_a_reader_who_stops_reading_is_no_error(form: str, made: tuple[Path, list[Made]]) -> None:
    """`ledto export ... | head` ends quietly."""
    read, write = os.pipe()
    os.close(read)
    start = "import typer; from ledto.cli.export import export; typer.run(export)"
    command = [sys.executable, "-c", start, str(made[0]), "--format", form]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)
    assert (done.returncode, done.stderr) == (0, "")
