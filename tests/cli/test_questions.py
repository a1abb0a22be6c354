from __future__ import annotations

import csv
import io
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from ledto.cli.main import cli
from ledto.cli.render import ERROR, MOVED
from ledto.history import EventNotFound, layout
from ledto.history.times import format_time, parse_time
from ledto.questions import History

sys.path.insert(0, str(Path(__file__).parents[1] / "history"))
from building import REASON, Made, draw, write_history

START = 1_700_000_000_000_000_000
Ask = Callable[..., Any]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Made]]:
    """Times are nanoseconds; the clock of p1 is far behind."""
    folder = tmp_path_factory.mktemp("questions") / "history"
    events = draw(Random(2), "", 4, 60, gaps=True)
    for event in events:
        event.causal_time = START + event.number
        event.level = 0
        event.error = True if event.number in (20, 21, 22) else None
        if event.time is not None:
            event.time = START + event.number - (1_000 if event.process == "p1" else 0)
    return folder, write_history(folder, [(events, [25])], [], unit="ns")


@pytest.fixture
def ask(made: tuple[Path, list[Made]]) -> Ask:
    """Run a question about the history; parsed JSON if asked for, else text."""

    def run(*arguments: str, code: int = 0, json_too: bool = False) -> Any:
        words = [arguments[0], str(made[0]), *arguments[1:], *(["--json"] if json_too else [])]
        done = CliRunner(env={"COLUMNS": "200"}).invoke(cli, words)
        assert done.exit_code == code, done.output
        assert "Traceback" not in done.output
        return json.loads(done.stdout) if json_too else done.output

    return run


def test_every_question_answers_in_json_what_the_library_answers(ask: Ask, made: tuple[Path, list[Made]]) -> None:
    """Scripts read this; a key that goes or a list that is cut breaks them."""
    folder, events = made
    history = History(folder)
    name, other = events[40].key, events[3].key
    assert ask("why", name, "-k", "4", json_too=True) == history.why(name, k=4).to_json()
    filtered = history.why(name, where="status > 3", processes=["p1", "p2"], names=["pay"]).to_json()
    options = ["--where", "status > 3", "--process", "p1", "--process", "p2", "--name", "pay"]
    assert ask("why", name, *options, json_too=True) == filtered
    assert ask("impact", name, json_too=True) == history.impact(name).to_json()
    assert ask("explain", other, name, json_too=True) == history.explain(other, name).to_json()
    assert ask("relation", other, name, json_too=True)["relation"] == history.relation(other, name).value
    assert ask("concurrent", name, json_too=True) == history.concurrent(name).to_json()
    assert ask("cut", name, json_too=True) == history.cut(name).to_json()
    assert ask("cut", str(START + 30), json_too=True) == history.cut(time=START + 30).to_json()
    at_start = ask("cut", "2023-11-14T22:13:20.000000030Z", json_too=True)
    assert at_start == history.cut(time=START + 30).to_json()
    assert ask("processes", json_too=True) == [each.to_json() for each in history.processes()]
    assert ask("check", json_too=True)["ledger"]["quarantined"] == 1
    assert [each["reason"] for each in ask("quarantine", json_too=True)] == [REASON]
    assert ask("sql", "SELECT count(*) AS n FROM events", json_too=True) == [{"n": 60}]
    for event in ask("why", name, json_too=True)["causes"]:
        assert {"id", "process", "seq", "name", "time"} <= set(event)


_NOTED: list[Callable[[Made], bool]] = [
    lambda event: event.process == "p1",
    lambda event: bool(event.error and event.time),
]


@pytest.fixture
def one_hour_east(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine in a zone one hour before UTC."""
    with monkeypatch.context() as there:
        there.setenv("TZ", "CET-1")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("one_hour_east")
def test_tables_show_times_errors_and_where_clocks_disagree(ask: Ask, made: tuple[Path, list[Made]]) -> None:
    """A reader who trusts wall clocks must see where they contradict what happened; and failures, without colours, too."""
    _, events = made
    event = next(
        e
        for e in events
        if e.process != "p1" and all(any(meets(o) and o.happened_before(e) for o in events) for meets in _NOTED)
    )
    shown = ask("why", event.key, "-k", "60")
    for other in events:
        if other.happened_before(event) and other.time is not None:
            (line,) = (line for line in shown.splitlines() if line.endswith(f" {other.key}"))
            marks, moment, *_ = (line if line[0] != " " else f"-{line}").split()
            assert f"2023-11-14T{moment}Z" == format_time(other.time, "ns")
            assert (MOVED in marks) == (other.process == "p1")
            assert (ERROR in marks) == bool(other.error)
    assert f"{ERROR} error; {MOVED} its clock is behind its causes\n" in shown
    assert "2023-11-14 UTC\n" in shown
    assert re.search(r"\n2023-11-14 CET\n.* 23:13:20\.", ask("why", event.key, "--local"), re.DOTALL)
    for question in (["impact", event.key], ["concurrent", event.key], ["cut", event.key], ["check"], ["quarantine"]):
        assert ask(*question).strip()
    assert "missing: " in ask("why", events[-1].key, "-k", "60")
    assert "numbers are missing" in ask("processes")
    assert "CREATE OR REPLACE VIEW events" in ask("sql")
    assert "_metadata.row_index" in ask("sql", "--dialect", "spark")


@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet"])
def test_order_writes_every_event(form: str, ask: Ask, made: tuple[Path, list[Made]], tmp_path: Path) -> None:
    """The export is the history: all of it, in order, with causes first."""
    _, events = made
    to = tmp_path / f"events.{form}"
    ask("order", "--format", form, "--to", str(to))
    if form == "jsonl":
        found = [(row["process"], row["seq"]) for row in map(json.loads, to.read_text().splitlines())]
    elif form == "csv":
        found = [(row["process"], int(row["seq"])) for row in csv.DictReader(io.StringIO(to.read_text()))]
    else:
        table = pq.read_table(to)
        found = list(zip(table["process"].to_pylist(), table["seq"].to_pylist(), strict=True))
    assert found == [(event.process, event.seq) for event in events]
    assert list(tmp_path.iterdir()) == [to]


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["why", "p9:1"], 1, "there is no process 'p9'"),
        (["why", "p0:9999"], 1, "there is no event 9999"),
        (["relation", "@0", "nothing"], 1, "PROCESS:SEQ"),
        (["why", "@3", "--where", "colour = 1"], 2, "there is no column 'colour'"),
        (["why", "@3", "--process", "p9"], 1, "there is no process 'p9'"),
        (["order", "--policy", "cbd"], 2, "ledto observe --policy"),
        (["order", "--format", "xml"], 2, "jsonl, csv, parquet"),
        (["order", "--format", "parquet"], 2, "--to"),
        (["order", "--to", "/dev/null/x"], 1, "cannot be written"),
        (["cut"], 2, "TIME or an --event"),
        (["cut", "1", "--event", "p0:1"], 2, "one of them"),
        (["sql", "SELECT nothing FROM events"], 2, "nothing"),
        (["sql", "SELECT stauts FROM events"], 2, "did you mean status?"),
        (["sql", 'SELECT * FROM events WHERE name = "order failed"'], 2, "write it in single quotes: 'order failed'"),
        (["sql", "SELECT FROM WHERE"], 2, "reserved words, in double quotes"),
        (
            ["sql", "SELECT * FROM events WHERE status >= '4'"],
            2,
            "status is a number: compare it with 4, without quotes",
        ),
        (["sql", ""], 2, "the query is empty"),
        (["sql", " ; -- nothing"], 2, "the query is empty"),
        (["sql", "--dialect", "oracle"], 2, "duckdb or spark"),
        (["sql", "SELECT 1", "--dialect", "spark"], 2, "print the views"),
        (["quarantine", "--outcome", "lost"], 2, "quarantined, duplicate or all"),
        (["why", "@3", "-k", "-1"], 2, "--k"),
        (["why"], 2, "EVENT"),
    ],
)
def test_what_cannot_be_answered_is_said_with_the_right_code(
    arguments: list[str], code: int, says: str, ask: Ask
) -> None:
    """A script tells a wrong question (2) from an event that is not there (1); a person reads what to do."""
    assert says in " ".join(ask(*arguments, code=code).split())


def test_sql_prints_json_that_every_parser_reads(ask: Ask) -> None:
    """`jq` and browsers refuse NaN; and the bytes of a blob could not be told from a text of Python."""
    values = {
        "x": "'nan'::DOUBLE",
        "y": "'-inf'::DOUBLE",
        "inside": "{'a': ['inf'::FLOAT, 1.5::FLOAT]}",
        "blob": "'\\xFF\\x00a'::BLOB",
        "map": "MAP {DATE '2026-01-31': 1}",
    }
    printed = ask("sql", f"SELECT {', '.join(f'{value} AS {name}' for name, value in values.items())}", "--json")
    (row,) = json.loads(printed, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))
    assert row == {"x": None, "y": None, "inside": {"a": [None, 1.5]}, "blob": "/wBh", "map": {"2026-01-31": 1}}


def test_sql_keeps_columns_of_one_name_apart(ask: Ask) -> None:
    """A comparison of two counts would show one of them, and nobody would know which."""
    query = "SELECT 1 AS a, 2 AS a, 3 AS a_2, 4 AS a, max(status), max(status) FROM events"
    (row,) = ask("sql", query, json_too=True)
    assert row == {"a": 1, "a_3": 2, "a_2": 3, "a_4": 4, "max(status)": 9, "max(status)_2": 9}


def test_a_pipe_is_written_to_and_not_replaced(ask: Ask, tmp_path: Path) -> None:
    """`--to /dev/null` would leave a file where the device was, for every program of the machine."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        ask("order", "--to", str(pipe))
        assert pipe.is_fifo()
        assert os.read(reader, 6) == b'{"id":'
    finally:
        os.close(reader)


@pytest.mark.parametrize(
    "arguments", [["order", "--format", "parquet"], ["report", "@3"], ["export", "--format", "csv"]]
)
@pytest.mark.parametrize("name", ["manifest.json", "new/x", "runs/x"])
def test_no_file_is_written_inside_a_history(
    arguments: list[str], name: str, ask: Ask, made: tuple[Path, list[Made]], tmp_path: Path
) -> None:
    """One slip, `--to H/manifest.json`, and the history is gone; the log it was made from may be gone already."""
    (tmp_path / "link").symlink_to(made[0])
    before = {path: path.read_bytes() for path in made[0].rglob("*") if path.is_file()}
    for folder in (made[0], tmp_path / "link"):
        assert "name a file outside of it" in ask(*arguments, "--to", str(folder / name), code=2)
    assert {path: path.read_bytes() for path in made[0].rglob("*") if path.is_file()} == before
    assert not (made[0] / "new").exists()


def test_a_manifest_of_another_program_is_no_history(ask: Ask, tmp_path: Path) -> None:
    """Browser extensions and web pages have a manifest.json: a page about an incident may be kept beside it."""
    (tmp_path / "manifest.json").write_text("{}")
    ask("report", "@3", "--to", str(tmp_path / "page.html"))
    assert (tmp_path / "page.html").exists()


def test_python_cuts_at_the_times_that_the_command_takes(ask: Ask, made: tuple[Path, list[Made]]) -> None:
    """Who copies a time from a table was told of a process of that name, or of a literal for int()."""
    history, moment = History(made[0]), START + 30
    text = format_time(moment, "ns")
    assert history.cut(time=text).to_json() == history.cut(time=moment).to_json() == ask("cut", text, json_too=True)
    with pytest.raises(EventNotFound, match=f"for a cut at a time, give time='{text}'"):
        history.cut(text)
    with pytest.raises(ValueError, match=r"a number of ns, or a text such as 2026-01-31T12:00:00.5Z, not 'noon'"):
        history.cut(time="noon")


def test_a_folder_without_history_is_said_so(tmp_path: Path) -> None:
    """The first mistake of every user."""
    done = CliRunner().invoke(cli, ["why", str(tmp_path), "a:1"])
    assert done.exit_code == 1
    assert layout.MANIFEST in done.output
    assert "ledto observe" in done.output


@pytest.mark.parametrize(
    "question",
    [
        ["check"],
        ["why", "@50", "-k", "3"],
        ["relation", "@3", "@50"],
        ["sql", "SELECT count(*) FROM events"],
        ["cut", "@9"],
    ],
    ids=" ".join,
)
def test_the_history_may_be_left_out_where_the_environment_names_it(
    question: list[str], made: tuple[Path, list[Made]], tmp_path: Path
) -> None:
    """Who asks one history all day types it once; and a history that is named still wins over the environment's."""
    command, *words = question
    named = CliRunner().invoke(cli, [command, str(made[0]), *words])
    assert named.exit_code == 0, named.output
    for variable, arguments in ((made[0], words), (tmp_path / "other", [str(made[0]), *words])):
        done = CliRunner(env={"LEDTO_HISTORY": str(variable)}).invoke(cli, [command, *arguments])
        assert done.output == named.output
    other = CliRunner(env={"LEDTO_HISTORY": str(tmp_path / "other")}).invoke(cli, question)
    assert (other.exit_code, "there is no history" in other.output) == (1, True), other.output


def test_the_environment_does_not_turn_a_simulation_into_that_of_a_history(tmp_path: Path) -> None:
    """Means over simulated messages would silently become counts of some history."""
    words = ["simulate", "--processes", "2", "--messages", "10", "--seeds", "1", "--json"]
    done = CliRunner(env={"LEDTO_HISTORY": str(tmp_path / "none")}).invoke(cli, words)
    assert json.loads(done.stdout)["parameters"]["processes"] == 2


@pytest.mark.parametrize("question", [["order"], ["order", "--format", "csv"], ["why", "@50", "--json"], ["processes"]])
def test_a_reader_who_stops_reading_is_no_error(question: list[str], made: tuple[Path, list[Made]]) -> None:
    """`ledto order | head` ends quietly."""
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "ledto.cli", question[0], str(made[0]), *question[1:]]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("text", "unit", "time"),
    [
        ("2023-11-14T22:13:20Z", "ns", START),
        ("2023-11-14 22:13:20.5", "ms", 1_700_000_000_500),
        ("2023-11-14T23:13:20.000000001+01:00", "ns", START + 1),
        ("1969-12-31T23:59:59.75Z", "us", -250_000),
        ("2023-11-14", "s", 1_699_920_000),
        ("-17", "ticks", -17),
        ("2023-11-14", "ticks", None),
        ("2023-13-14", "s", None),
        ("shop:42", "ns", None),
    ],
)
def test_times_are_read_to_the_last_digit(text: str, unit: str, time: int | None) -> None:
    """Events lie nanoseconds apart; a rounded time cuts on the wrong side of one."""
    assert parse_time(text, unit) == time
    if time is not None:
        assert parse_time(format_time(time, unit), unit) == time
