"""The shape that all commands share: help, the history as first argument, JSON with a schema, completion."""

from __future__ import annotations

import io
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from rich.cells import cell_len
from rich.console import Console
from typer.testing import CliRunner

from ledto import __version__
from ledto.cli.grid import Grid
from ledto.cli.main import COMMANDS, cli
from ledto.cli.schema import make_schemas
from ledto.history.times import ShortTimes

READ_NO_HISTORY = {"observe", "map", "serve", "simulate", "reproduce", "schema"}
"""Commands that make a history, or need none. `simulate` takes one, which may be left out."""
LOG = """
{"process": "web", "seq": 1, "time": 1700000000000000000, "arrival": 1700000000010000000, "sends": "m1", "name": "checkout"}
{"process": "pay", "seq": 1, "time": 1700000000005000000, "arrival": 1700000000010000000, "receives": "m1", "name": "charge"}
{"process": "pay", "seq": 2, "time": 1700000000006000000, "sends": "m2", "name": "refused", "level": "error", "status": 402}
{"process": "web", "seq": 2, "time": 1700000000004000000, "receives": "m2", "name": "show error"}
{"process": "mail", "seq": 2, "time": 1700000000007000000, "name": "newsletter"}
{"process": "mail"
""".lstrip()


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_a_short_help_json_and_the_history_first(command: str) -> None:
    """What is learnt of one command would not hold for the next, and the option looked for would be screens away."""
    shown = CliRunner(env={"COLUMNS": "80"}).invoke(cli, [command, "-h"])
    assert shown.exit_code == 0, shown.output
    assert shown.output == CliRunner(env={"COLUMNS": "80"}).invoke(cli, [command, "--help"]).output
    assert "  --json" in shown.output
    assert len(shown.output.splitlines()) <= 60
    usage = shown.output.splitlines()[0].partition("[OPTIONS]")[2]
    assert usage.startswith(" HISTORY") == (command not in READ_NO_HISTORY), usage


@pytest.mark.parametrize("module", ["ledto", "ledto.cli"])
def test_python_runs_the_command_line(module: str) -> None:
    """Where pip put the command is often not on the path."""
    done = subprocess.run([sys.executable, "-m", module, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"ledto {__version__}\n"


@pytest.mark.parametrize(("words", "found"), [("ledto quar", "quarantine"), ("ledto why --wh", "--where")])
def test_shells_complete_commands_and_options(words: str, found: str) -> None:
    """Names of options would have to be remembered, or looked up."""
    environment = {"_LEDTO_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    start = "import sys; sys.argv = ['ledto']; from ledto.cli import app; app()"
    done = subprocess.run(
        [sys.executable, "-c", start], env=os.environ | environment, capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == [found], done.stderr


def test_every_command_has_a_schema() -> None:
    """A program could not know what a new command gives."""
    assert [*make_schemas()] == [*COMMANDS]
    for schema in make_schemas().values():
        Draft202012Validator.check_schema(schema)


@pytest.fixture(scope="module")
def observed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """A history with an error, a hole and a bad line; and what `ledto observe --json` printed."""
    folder = tmp_path_factory.mktemp("schemas")
    (folder / "log.jsonl").write_text(LOG)
    words = ["observe", str(folder / "log.jsonl"), "--to", str(folder / "h"), "--engine", "inline", "--json"]
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 0, done.output
    return folder / "h", json.loads(done.stdout)


@pytest.mark.parametrize(
    "command",
    [
        "find {h}",
        "map {log}",
        "why {h} web:2",
        "why {h} web:2 --where 'status > 1' --times corrected",
        "impact {h} web:1",
        "relation {h} web:1 web:2",
        "relation {h} mail:2 web:2",
        "explain {h} web:1 web:2",
        "concurrent {h} mail:2",
        "cut {h} pay:1",
        "order {h}",
        "order {h} --policy exact",
        "processes {h}",
        "check {h}",
        "check {h} --files",
        "clocks {h}",
        "quarantine {h}",
        "sql {h} 'SELECT id, status FROM events'",
        "export {h} --format dot --to {to}",
        "export {h} --format shiviz --to {to}",
        "report {h} web:2 --to {to}",
        "simulate {h}",
        "simulate --processes 2 --messages 20 --seeds 2",
        "simulate --processes 2 --messages 20 --seeds 1",
        "schema why",
    ],
)
def test_what_a_command_prints_is_what_its_schema_says(
    command: str, observed: tuple[Path, Any], tmp_path: Path
) -> None:
    """A program that is made from the schema would fail on an answer, or never read a part of it."""
    log = tmp_path / "app.log"
    log.write_text("".join(f"2026-01-31 12:00:0{at} ERROR pay.cards - declined\n" for at in range(9)))
    words = shlex.split(command.format(h=observed[0], to=tmp_path / "file", log=log))
    done = CliRunner().invoke(cli, [*words, "--json"])
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines() if words[0] == "order" else [done.stdout]
    assert lines
    for line in lines:
        Draft202012Validator(make_schemas()[words[0]]).validate(json.loads(line))


def test_what_observe_prints_is_what_its_schema_says(observed: tuple[Path, Any]) -> None:
    """A pipeline that checks the counts of a run reads them from there."""
    Draft202012Validator(make_schemas()["observe"]).validate(observed[1])
    assert not Draft202012Validator(make_schemas()["observe"]).is_valid({**observed[1], "unheard": 1})


def test_rows_fit_80_columns_and_ids_are_whole(tmp_path: Path) -> None:
    """An id that is cut or wrapped cannot be copied into the next question; and a log of CI is 80 columns wide."""
    long = "f" * 70
    names = ("checkout of the shopping cart " * 4, "charge", "x")
    lines = [
        {"process": f"some-service-with-a-long-name-{at}", "seq": 1, "time": at, "name": name, "id": which}
        for at, (name, which) in enumerate(zip(names, ("a1", long, "b2"), strict=True), start=1)
    ]
    lines[0]["sends"] = lines[1]["receives"] = "m" * 60
    lines[1]["line"], lines[0]["error"] = "l" * 50, True
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    to = str(tmp_path / "h")
    done = CliRunner().invoke(cli, ["observe", str(tmp_path / "log.jsonl"), "--to", to, "--engine", "inline"])
    assert done.exit_code == 0, done.output
    for words in (["why", to, long], ["explain", to, "a1", long], ["cut", to, long], ["processes", to]):
        done = CliRunner(env={"COLUMNS": ""}).invoke(cli, words)
        assert done.exit_code == 0, done.output
        table = done.output.partition("─\n")[2].splitlines()
        rows = [row for row in table if "some-s" in row]
        assert rows
        for row in rows:
            assert len(row) <= 80 or row.endswith(f"  {long}"), row
        assert words[0] == "processes" or any(row.endswith(f"  {long}") for row in rows)
        assert "\x1b" not in done.output
    shown = CliRunner(env={"COLUMNS": ""}).invoke(cli, ["why", to, long]).output
    assert "* the event asked about; ! error" in shown
    wide = CliRunner(env={"COLUMNS": "400"}).invoke(cli, ["why", to, long]).output
    assert names[0].strip() in wide, "COLUMNS asks for more"


def test_a_narrow_terminal_gets_whole_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal wraps a long line and copies it whole; what we wrap is copied with blanks and line ends in it."""
    shown = io.StringIO()
    terminal = Console(file=shown, force_terminal=True, color_system=None, width=40)
    monkeypatch.setattr("ledto.cli.grid.console", lambda: terminal)
    grid = Grid(["name", "id"], shrink=["name"])
    grid.add(["checkout " * 20, "f" * 60])
    grid.add(["[red]日本日本日本日本日本日本日本日本日本", "web:1"], style="bold")
    grid.print()
    _, _, long, short = shown.getvalue().splitlines()
    assert long.endswith(f"…  {'f' * 60}")
    assert cell_len(short) <= 40
    assert short.startswith("[red]日本")
    assert short.endswith("  web:1")


@pytest.mark.parametrize(
    ("times", "unit", "heading", "shown"),
    [
        ([0, 20_000_000], "ns", "1970-01-01 UTC", ["00:00:00.000", "00:00:00.020"]),
        ([0, 20_000], "ns", "1970-01-01 UTC", ["00:00:00.000000", "00:00:00.000020"]),
        ([7, 8], "ns", "1970-01-01 UTC", ["00:00:00.000000007", "00:00:00.000000008"]),
        ([5, 5, None], "ns", "1970-01-01 UTC", ["00:00:00.000", "00:00:00.000", ""]),
        ([-1, 86_400_000], "ms", "UTC", ["1969-12-31 23:59:59.999", "1970-01-02 00:00:00.000"]),
        ([3], "s", "1970-01-01 UTC", ["00:00:03"]),
        ([3, 10**40], "tick", "", ["3", str(10**40)]),
    ],
)
def test_times_are_as_long_as_it_takes_to_tell_them_apart(
    times: list[int | None], unit: str, heading: str, shown: list[str]
) -> None:
    """Two events that seem simultaneous are not; and nine digits of each take the place of its name."""
    short = ShortTimes(times, unit)
    assert short.heading == heading
    assert [short.show(time) for time in times] == shown
