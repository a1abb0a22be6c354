"""``ledto observe`` as a user runs it: a process that may be killed."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

import ledto
from ledto.batch.join import EpsTooSmall
from ledto.cli.main import cli
from ledto.cli.observe import _doubt_of_unit
from ledto.simulation.raw_logs import RawLog


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "ledto.cli", *(str(each) for each in arguments)]


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*arguments), capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.slow
def test_a_killed_run_leaves_the_old_history_and_the_next_one_works(tmp_path: Path) -> None:
    """A user whose machine reboots in mid-run would lose his history, or read half of the new one."""
    log, history = tmp_path / "old.jsonl", tmp_path / "h"
    log.write_text(
        '{"process": "a", "time": 5, "kind": "send", "message": "m", "name": "cause"}\n'
        '{"process": "b", "time": 3, "kind": "receive", "message": "m", "name": "effect"}\n'
        "no event\n"
    )
    made = run("observe", log, "--to", history, "--json")
    assert made.returncode == 0, made.stderr
    ledger = json.loads(made.stdout)["ledger"]
    assert (ledger["reports"], ledger["delivered"], ledger["quarantined"]) == (3, 2, 1)

    RawLog(processes=6, events=40_000, seed=1).write_parquet(tmp_path / "new")
    driver = subprocess.Popen(
        command("observe", tmp_path / "new", "--to", history, "--epoch-rows", 1_000),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    deadline = time.monotonic() + 200
    while not list(history.glob("runs/*/skeleton-00003-*")) and driver.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    assert driver.poll() is None, "the run ended before it could be killed"
    os.killpg(driver.pid, signal.SIGKILL)
    driver.wait()

    answer = ledto.open(history).why("b:1")
    assert [event.name for event in answer.causes] == ["cause"]
    again = run("observe", log, "--to", history, "--json")
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["ledger"] == ledger
    assert len(list(history.glob("runs/*"))) == 1, "what the killed run left is still there"


@pytest.mark.parametrize("engine", ["inline", pytest.param("spark", marks=pytest.mark.slow)])
def test_garbage_ends_in_a_sentence(tmp_path: Path, engine: str) -> None:
    """A user who names the wrong file would be shown trace-backs."""
    (tmp_path / "photo.jsonl").write_bytes(bytes(range(256)) * 40)
    said = run("observe", tmp_path / "photo.jsonl", "--to", tmp_path / "h", "--engine", engine)
    assert said.returncode == 1
    assert "photo.jsonl" in said.stderr
    assert "Traceback" not in said.stderr + said.stdout
    assert not (tmp_path / "h" / "manifest.json").exists()
    missing = run("observe", tmp_path / "nowhere.jsonl", "--to", tmp_path / "h", "--engine", engine)
    assert missing.returncode == 1
    assert "nowhere.jsonl" in missing.stderr
    assert "Traceback" not in missing.stderr


def test_times_in_the_wrong_unit_are_asked_about() -> None:
    """Milliseconds read as nanoseconds are half an hour of 1970: waits and offsets would be a millionth of what they are."""
    noon_ms = 1_714_564_800_000
    assert _doubt_of_unit(noon_ms, "ns") == ["  the last event is in the 1970s by --unit ns: are the times in ms?"]
    assert not any(
        _doubt_of_unit(*times) for times in ((noon_ms * 10**6, "ns"), (5, "ns"), (noon_ms, "tick"), (0, "s"))
    )


def test_terms_that_do_not_fit_are_told_in_a_sentence(tmp_path: Path) -> None:
    """A number that is out of range would end in a trace-back of fifty lines."""
    (tmp_path / "log.jsonl").write_text('{"process": "a", "time": 1}\n{"process": "a", "time": 2}\n')
    ledto.observe(tmp_path / "log.jsonl", tmp_path / "h")
    refused = CliRunner().invoke(cli, ["simulate", str(tmp_path / "h"), "--elements", "0"])
    assert (refused.exit_code, refused.output.count("\n")) == (1, 1)
    assert "elements is a whole number" in refused.output


def test_from_python_a_bound_is_written_as_on_the_command_line(tmp_path: Path) -> None:
    """`eps="20ms"`, which every page of the documentation writes, ended in a TypeError."""
    (tmp_path / "log.jsonl").write_text('{"process": "p", "time": 5}\n{"process": "q", "time": 7}\n')
    history = ledto.observe(tmp_path / "log.jsonl", tmp_path / "h", eps="20ms", policies="exact")
    assert history.run.manifest.eps == 20_000_000
    with pytest.raises(ValueError, match="such as 250ms"):
        ledto.observe(tmp_path / "log.jsonl", tmp_path / "h", eps="20 fortnights")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--eps", "99999999999999999999999s"], "--eps: at most 2305843009s, not '99999999999999999999999s'"),
        (["--delta", "100m"], "--delta: at most 73m, not '100m'"),
        (["--delta", "100m", "--eps", "1ns"], "--delta: at most 73m, not '100m'"),
    ],
)
def test_a_bound_that_is_too_long_is_answered_with_the_longest(tmp_path: Path, arguments: list[str], says: str) -> None:
    """It ended in a trace-back, or told a limit in ticks, which nobody had typed."""
    (tmp_path / "log.jsonl").write_text('{"process": "p", "time": 5}\n{"process": "q", "time": 7}\n')
    command = ["observe", str(tmp_path / "log.jsonl"), "--to", str(tmp_path / "h"), "--engine", "inline"]
    done = CliRunner(env={"COLUMNS": "400"}).invoke(cli, [*command, *arguments])
    assert done.exit_code == 2, done.output
    assert says in " ".join(done.output.split())
    assert not (tmp_path / "h").exists()


@pytest.mark.parametrize("eps", [10**23, -1, "99999999999999999999999s"])
def test_from_python_a_bound_that_is_too_long_is_a_value_error(tmp_path: Path, eps: int | str) -> None:
    """An OverflowError out of NumPy names neither the argument nor what it may be."""
    (tmp_path / "log.jsonl").write_text('{"process": "p", "time": 5}\n')
    with pytest.raises(ValueError, match=r"from 0 to 2305843009213693952, not|at most 2305843009s"):
        ledto.observe(tmp_path / "log.jsonl", tmp_path / "h", eps=eps)


def test_the_help_fits_one_screen() -> None:
    """Who wants to read a log would have to look for the option among those of researchers."""
    shown = CliRunner(env={"COLUMNS": "80"}).invoke(cli, ["observe", "--help"]).output
    assert len(shown.splitlines()) <= 50


def test_the_version_is_told() -> None:
    """A bug report without it is half a bug report."""
    assert CliRunner().invoke(cli, ["--version"]).stdout == f"ledto {ledto.__version__}\n"


def test_a_history_that_would_be_a_file_is_refused_in_words(tmp_path: Path) -> None:
    """`--to` with the log's own name told of listing a directory, and of errno 20."""
    (tmp_path / "log.jsonl").write_text('{"process": "p", "time": 5}\n')
    place = str(tmp_path / "log.jsonl")
    done = CliRunner().invoke(cli, ["observe", place, "--to", place, "--engine", "inline"])
    assert (done.exit_code, done.stderr) == (
        1,
        f"{place} cannot be written: it is, or is below, a file where a folder is needed\n",
    )
    assert (tmp_path / "log.jsonl").read_text().startswith('{"process"')


def test_an_eps_too_small_is_refused_with_one_to_type(tmp_path: Path) -> None:
    """A user would count the digits of nanoseconds; and a script would not tell a wrong option (2) from a failed run (1)."""
    log, history = tmp_path / "shop.jsonl", tmp_path / "h"
    log.write_text(
        '{"process": "a", "time": "2026-01-31T12:00:00.030000001Z", "kind": "send", "message": "m"}\n'
        '{"process": "b", "time": "2026-01-31T11:59:59.950Z", "kind": "receive", "message": "m"}\n'
    )
    words = ["observe", str(log), "--to", str(history), "--engine", "inline", "--eps"]
    refused = CliRunner().invoke(cli, [*words, "1ms"])
    assert refused.exit_code == 2
    assert refused.stderr == (
        f"an eps of 1 ms is too small for these clocks: the event of 'b' at 2026-01-31T11:59:59.950Z ({log}, 2) has a "
        "time 80 ms before one of its causes; use --eps 81ms or more\n"
    )
    assert CliRunner().invoke(cli, [*words, "81ms"]).exit_code == 0
    assert CliRunner().invoke(cli, [*words, "80ms"]).exit_code == 2


def test_an_eps_too_small_comes_back_from_a_task_as_it_was() -> None:
    """Spark pickles what a task returns: the run of a small log would end with an error of Python's."""
    refused = EpsTooSmall(1, 12_345, "an event", "us")
    again = pickle.loads(pickle.dumps(refused))
    assert (type(again), str(again), again.least) == (EpsTooSmall, str(refused), 12_345)
    assert str(refused).endswith("12.35 ms before one of its causes; use --eps 13ms or more")


@pytest.mark.parametrize(
    ("arrivals", "options", "told"),
    [
        ((None, None), [], (None, "cannot be known: no report has an arrival time")),
        ((None, 12), [], (7, "the longest delay of a report")),
        ((None, None), ["--delta", "9"], (9, "given")),
    ],
)
def test_a_delta_that_nobody_knows_is_null(
    arrivals: tuple[int | None, ...], options: list[str], told: tuple[int | None, str], tmp_path: Path
) -> None:
    """A program would take 0 for a measurement, and run a live history in which every report is late."""
    log, history = tmp_path / "log.jsonl", str(tmp_path / "h")
    reports = [{"process": "a", "time": 5, "kind": "local", "arrival": arrival} for arrival in arrivals]
    log.write_text("".join(f"{json.dumps(report)}\n" for report in reports))
    words = ["observe", str(log), "--to", history, "--engine", "inline", *options]
    assert CliRunner().invoke(cli, words).exit_code == 0
    policy = json.loads(CliRunner().invoke(cli, ["check", history, "--json"]).stdout)["policies"]["exact"]
    assert (policy["delta"], policy["delta_from"]) == told


def test_one_of_a_kind_is_told_in_the_singular(tmp_path: Path) -> None:
    """Sentences that do not count what they tell of make a reader doubt the numbers."""
    log, history = tmp_path / "log.jsonl", str(tmp_path / "h")
    words = ["observe", str(log), "--to", history, "--format", "ledto", "--engine", "inline"]
    log.write_text('{"process": "a", "name": "cut\n')
    refused = CliRunner().invoke(cli, words).stderr
    assert refused.startswith(
        f"the one report cannot be used; it is {log}, 1: not-json: Unterminated string starting at "
    )
    assert "at at" not in refused
    log.write_text('{"process": "a", "time": 5, "kind": "local"}\n')
    plan = CliRunner().invoke(cli, [*words, "--explain"]).stdout.splitlines()
    assert plan[:2] == ["1 report in 1 file; not readable: 0", "1 computation; larger than an epoch: 0"]
    assert plan[2].startswith("1 epoch, each read")
    assert CliRunner().invoke(cli, words).exit_code == 0
    assert CliRunner().invoke(cli, ["cut", history, "a:1"]).stdout.endswith("\nno message is under way\n")
