from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ledto.cli.main import cli


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("simulate --phi 1.5", "from 0 to 1"),
        ("observe x --to h --format foo", "one of ledto, otlp"),
        ("observe --engine inline --follow in --to h", "leave out --follow and --master"),
        ("clocks", "Missing argument 'HISTORY'"),
        ("why a:1 --history h", "No such option --history: the history comes first, as in `ledto why HISTORY EVENT`"),
        ("sql --history=h x", "the history comes first, as in `ledto sql HISTORY [QUERY]`"),
        ("simulate --history h", "the history comes first, as in `ledto simulate [HISTORY]`"),
        ("clocks h --plot c.png", "ends in .svg"),
        ("export h --format foo --to x", "shiviz"),
        ("simulate --phi much", "from 0 to 1"),
        ("simulate --eps -1", "from 1 to"),
        ("simulate --processes 1", "from 2 to"),
        ("simulate --rate 0", "above 0"),
        ("simulate --loss 1", "below 1"),
        ("simulate --messages 0", "from 1 to"),
        ("simulate --elements 0", "from 1 to 10"),
        ("simulate --elements 11", "from 1 to 10"),
        ("simulate --policy dpc1 --elements 2", "leave out --elements"),
        ("simulate --policy exact --phi 0.5", "leave out --phi"),
        ("simulate --policy fifo", "physical-and-c, dpc1, dpc2"),
        ("simulate --delay 5", "MEAN,SD"),
        ("simulate --delay 50,1", "from 0 to delta"),
        ("simulate --preset best", "closest, literal"),
        ("simulate --seeds 0", "at least 1"),
        ("simulate --seed -1", "2**64 - 1"),
        ("simulate --rate 1e-9 --messages 1000", "raise --rate"),
        ("simulate --loss 0.9999999999", "--loss"),
        ("simulate --processes 1000000000", "lower --processes"),
        ("simulate --processes 1000000000 --messages 1", "lower --processes"),
        ("simulate --eps 1000000000", "--eps"),
        ("simulate --delta 2000000000", "--delta"),
        ("simulate --policy cbd --policy exact", "one policy at a time"),
        ("simulate --delta 2s", "whole number of ticks"),
        ("simulate --as-known", "needs a HISTORY"),
        ("simulate --tick 1", "needs a HISTORY"),
        ("simulate --to copy", "needs a HISTORY"),
        ("simulate h --seeds 3", "leave out HISTORY"),
        ("simulate h --rate 0.1", "leave out HISTORY"),
        ("observe x --to h --policy cbd", "write cbd:0.6"),
        ("observe x --to h --policy dpc1:0.5", "ledto simulate takes dpc1; here it is called physical-only"),
        ("find h order failed again --last 3", "quote a text of several words, as in 'order failed again'"),
        ("observe x --to h --phi 0.5", "No such option --phi: use `ledto simulate HISTORY`"),
        ("observe x --to h --elements 2", "No such option --elements: use `ledto simulate HISTORY`"),
        ("observe x --to h --tick=1", "No such option --tick: use `ledto simulate HISTORY`"),
        ("observe x --to h --as-known", "No such option --as-known: use `ledto simulate HISTORY`"),
        ("reproduce everything --to out", "observer, hcg, rpc, autonomous and all"),
        ("reproduce observer --to out --only fig8", "fig2, fig3, fig4"),
        ("reproduce all --to out --only fig6", "name the paper"),
        ("reproduce observer --to out --seeds 0", "from 1 to"),
        ("reproduce observer --to {file}", "is a file"),
        ("reproduce observer --to {file}/out", "cannot be made or written to"),
        ("reproduce observer --to /dev/null/out", "Not a directory"),
        ("reproduce observer --to out --master bogus", "local[N]"),
        ("reproduce observer --to out --master local[0]", "local[N]"),
        ("reproduce observer", "--to"),
    ],
)
def test_a_wrong_argument_is_answered_with_what_is_allowed(
    arguments: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A trace-back, or a sweep of nonsense, would cost the user a search through the source."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    done = CliRunner(env={"COLUMNS": "400"}).invoke(cli, arguments.replace("{file}", "file").split())
    assert done.exit_code == 2
    assert says in " ".join(done.output.split())
    assert "Traceback" not in done.output
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(
    ("command", "option", "default"),
    [
        ("simulate", "--phi", "1"),
        ("simulate", "--elements", "all"),
        ("reproduce", "--seeds", "10; quick: 2"),
        ("reproduce", "--messages", "20000; quick: 1000"),
    ],
)
def test_help_states_defaults_that_depend_on_other_options(command: str, option: str, default: str) -> None:
    """Without it, the user of a long sweep would not know its size."""
    shown = CliRunner(env={"COLUMNS": "400"}).invoke(cli, [command, "--help"]).output
    (line,) = (line for line in shown.splitlines() if f" {option} " in line)
    assert re.search(rf"\[default: \(?{re.escape(default)}\)?\]", line)


def test_bytes_that_are_no_text_are_refused_in_a_sentence() -> None:
    """A name in Latin-1 ended each command in another trace-back."""
    command = [sys.executable, "-m", "ledto", "why", "h", os.fsdecode(b"\xff")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "not UTF-8" in done.stderr


def test_a_mapping_that_is_no_mapping_is_refused(tmp_path: Path) -> None:
    """A device never ends, and brackets within each other end Python."""
    (tmp_path / "log").write_text('{"a": 1}\n')
    (tmp_path / "deep.toml").write_text(f"a = {'[' * 5000}{']' * 5000}")
    for mapping, why in (("/dev/zero", "no file"), (str(tmp_path / "deep.toml"), "brackets")):
        words = [
            "observe",
            str(tmp_path / "log"),
            "--mapping",
            mapping,
            "--engine",
            "inline",
            "--to",
            str(tmp_path / "h"),
        ]
        refused = CliRunner().invoke(cli, words)
        assert refused.exit_code == 1, refused.output
        assert why in refused.output


def test_programs_that_run_at_once_are_lines_and_times_with_zones_are_shown(tmp_path: Path) -> None:
    """One login was called a recorded cause of the next; and the first query about times ended in a trace-back."""
    (tmp_path / "auth.log").write_text(
        "".join(f"<13>1 2026-01-01T00:00:0{at}Z h sshd {at} - - login {at}\n" for at in (1, 2))
    )
    history = str(tmp_path / "h")
    made = CliRunner().invoke(cli, ["observe", str(tmp_path / "auth.log"), "--engine", "inline", "--to", history])
    assert made.exit_code == 0, made.output
    assert CliRunner().invoke(cli, ["relation", history, "h/sshd:1", "h/sshd:2"]).output.startswith("possible: ")
    asked = CliRunner().invoke(cli, ["sql", history, "SELECT to_timestamp(time / 1e9) AS t FROM events LIMIT 1"])
    assert asked.exit_code == 0, asked.output
    assert "2026-01-01 00:00:01" in asked.output
