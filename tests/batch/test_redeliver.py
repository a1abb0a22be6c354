"""A history delivered again: as a stream delivered the same reports, and as a naive count finds it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace
from typer.testing import CliRunner

from ledto.batch.observe import Delivering
from ledto.batch.redeliver import measure, redeliver, survey
from ledto.cli.main import cli
from ledto.events.schema import REPORTS
from ledto.history.damage import check_files
from ledto.history.manifest import to_json
from ledto.history.store import Store
from ledto.live import LiveHistory, LiveWriter
from ledto.questions.history import History, open_history
from tests.live.streams import DELTA, EPS, HOUR, MS, hard_stream, kind_stream, terms
from tests.spark.running import observe

POLICIES = ("exact", "cbd:0.5")


@dataclass(frozen=True)
class Made:
    """The same reports as a history of several segments, made at once under `exact` alone, and as a live one."""

    batch: Path
    live: Path
    messages: list[tuple[str, str]]
    """The ids of the events that sent and received each message."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("redeliver")
    drawn, table = kind_stream(Random(11), processes=5, events=400)
    (folder / "log.jsonl").write_text("".join(map(_line, table.to_pylist())))
    observe(None, [str(folder / "log.jsonl")], folder / "batch", eps=EPS, epoch_rows=90)
    with LiveWriter(str(folder / "live"), terms(policies=POLICIES, close_rows=90)) as writer:
        writer.step(table, now=table["arrival"][-1].as_py(), positions={"rows": len(table)})
        writer.step(REPORTS.empty_table(), now=writer.now + HOUR)
    sender = {event.sends: f"{event.process}-{event.number}" for event in drawn if event.sends}
    messages = [(sender[key], f"{event.process}-{event.number}") for event in drawn for key in event.receives]
    return Made(folder / "batch", folder / "live", messages)


def _line(row: dict[str, Any]) -> str:
    names = ("process", "seq", "time", "arrival", "kind", "sends", "id", "name")
    receives = [row["receives"], *(row["receives_more"] or [])] if row["receives"] else []
    return json.dumps({**{name: row[name] for name in names if row[name] is not None}, "receives": receives}) + "\n"


def order(history: History, policy: str) -> list[str]:
    return [event.id for event in history.order(policy=policy)]


def test_a_history_is_delivered_as_its_stream_was(made: Made, tmp_path: Path) -> None:
    """A user finds out on yesterday's history what a policy would have cost live; the history itself stays as it is."""
    batch, live = open_history(made.batch), LiveHistory(made.live).current()
    assert len(batch.run.segments) > 1
    before = order(batch, "exact")
    redeliver(batch.run, tmp_path / "copy", Delivering(POLICIES, delta=DELTA, as_known=True), eps=EPS)
    copy = open_history(tmp_path / "copy")
    for policy in ("exact", "cbd-0.5"):
        assert order(copy, policy) == order(live, policy)
    assert order(open_history(made.batch), "exact") == before
    assert not check_files(Store(tmp_path / "copy")).damaged
    assert copy.clocks().to_json() == batch.clocks().to_json()


def test_what_is_measured_is_what_is_kept_and_what_a_count_finds(made: Made, tmp_path: Path) -> None:
    """A table of violations that the deliveries do not have would send its reader to the wrong policy."""
    run = open_history(made.batch).run
    delivering = Delivering(("cbd", "physical-only:0"), phi="0.6", delta=DELTA, elements=2, tick=7 * MS)
    measured = measure(run, survey(run), delivering, eps=EPS)
    kept = redeliver(run, tmp_path / "copy", delivering, eps=EPS)
    copy = open_history(tmp_path / "copy")
    wrong = []
    for name, found in measured.policies.items():
        place = {event: number for number, event in enumerate(order(copy, name))}
        wrong.append(sum(place[received] < place[sent] for sent, received in made.messages))
        assert found.violations["messages_inverted"] == wrong[-1]
        assert (found.files, found.tick) == ((), 7 * MS)
        assert replace(kept.policies[name], files=()) == found
    assert 0 < wrong[0] < wrong[1]
    assert replace(kept.wall_clock, between_clocks=None) == measured.wall_clock


def test_a_live_history_is_delivered_again(made: Made, tmp_path: Path) -> None:
    """Who serves one need not make another history to find a better policy."""
    command = ["simulate", str(made.live), "--as-known", "--delta", "500ms", "--policy", "cbd:0.5"]
    done = CliRunner().invoke(cli, [*command, "--json"])
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)["policies"]["cbd-0.5"]
    own = to_json(LiveHistory(made.live).current().run.manifest.policies)["cbd-0.5"]
    assert (told["violations"], told["delays"]) == (own["violations"], own["delays"])
    assert told["violations"]["messages_inverted"] > 0
    kept = CliRunner().invoke(cli, [*command, "--to", str(tmp_path / "copy")])
    assert kept.exit_code == 0, kept.output
    assert order(open_history(tmp_path / "copy"), "cbd-0.5") == order(LiveHistory(made.live).current(), "cbd-0.5")


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        (["--policy", "fifo"], 2, "there are exact, dapw, cbd, physical-only, physical-and-c, dpc1, dpc2"),
        (["--phi", "2"], 2, "--phi: phi is a fraction of the full wait from 0 to 1"),
        (["--policy", "exact", "--phi", "50%"], 2, "--phi: exact takes none: it always waits in full"),
        (["--policy", "exact", "--policy", "cbd:0.3", "--phi", "50%"], 2, "--phi: exact, cbd:0.3 takes none"),
        (["--policy", "exact:0.5"], 2, "--policy: policy exact always waits"),
        (["--delta", "2 parsecs"], 2, "such as 250ms"),
        (["--tick", "0"], 2, "1 or more, not 0"),
        (["--eps", "99999999999999999999999s"], 2, "--eps: at most 2305843009s, not '99999999999999999999999s'"),
        (["--delta", "99999999999999999999999"], 2, "--delta: at most 2305843009213693952ns"),
        (["--tick", "99999999999999999999999s"], 2, "--tick: at most 2305843009s"),
        (["--delta", "2h", "--tick", "1ns"], 2, "--delta: at most 1h, not '2h'"),
        (["--delta", "80m", "--tick", "1ns"], 2, "--delta: at most 73m, not '80m'"),
        (["--eps", "80m", "--tick", "1ns"], 2, "--eps: at most 73m, not '80m'"),
        (["--elements", "99"], 1, "from 1 to 17"),
        (["--to", "{file}"], 1, "a file where a folder is needed"),
    ],
)
def test_what_cannot_be_delivered_is_said(made: Made, tmp_path: Path, options: list[str], code: int, says: str) -> None:
    """A number that is out of range would end in a trace-back of fifty lines."""
    (tmp_path / "file").touch()
    words = [option.replace("{file}", str(tmp_path / "file")) for option in options]
    done = CliRunner(env={"COLUMNS": "400"}).invoke(cli, ["simulate", str(made.batch), *words])
    assert (done.exit_code, "Traceback" in done.output) == (code, False)
    assert says in " ".join(done.output.split())


def test_a_policy_is_found_by_the_name_that_was_typed(made: Made, tmp_path: Path) -> None:
    """`--policy cbd:0.1` makes deliveries of another name, cbd-0.1: nobody should have to guess it."""
    copy = tmp_path / "copy"
    named = {"cbd:0.1": "cbd-0.1", "cbd:70%": "cbd-0.7", "dpc1": "physical-only-1", "dapw:0.50": "dapw-0.5"}
    policies = [word for typed in named for word in ("--policy", typed)]
    done = CliRunner().invoke(cli, ["simulate", str(made.batch), *policies, "--to", str(copy)])
    assert done.exit_code == 0, done.output
    history = open_history(copy)
    orders = {typed: order(history, typed) for typed in named}
    assert orders == {typed: order(history, name) for typed, name in named.items()}
    assert orders["cbd:0.1"] != orders["dpc1"]
    listed = CliRunner().invoke(cli, ["order", str(copy), "--policy", "cbd:0.1"])
    assert [json.loads(line)["id"] for line in listed.stdout.splitlines()] == orders["cbd:0.1"]
    refused = CliRunner().invoke(cli, ["order", str(copy), "--policy", "cbd:0.2"])
    assert refused.exit_code == 2
    assert "ledto simulate H --to COPY" in refused.output


@pytest.mark.parametrize(
    ("typed", "code", "says"),
    [
        ("{history}", 2, "the copy needs another folder"),
        ("{link}", 2, "the copy needs another folder"),
        ("file://{history}", 2, "the copy needs another folder"),
        ("{history}/new", 1, "is inside the history"),
        ("{link}/deep/er", 1, "is inside the history"),
    ],
)
def test_a_history_is_not_its_own_copy_and_has_none_inside(
    made: Made, tmp_path: Path, typed: str, code: int, says: str
) -> None:
    """The deliveries that the history was made with would be replaced, and the log may be gone; a copy inside would go
    wherever the history goes."""
    (tmp_path / "link").symlink_to(made.batch)
    to = typed.replace("{history}", str(made.batch)).replace("{link}", str(tmp_path / "link"))
    before = {path: path.read_bytes() for path in made.batch.rglob("*") if path.is_file()}
    command = ["simulate", str(made.batch), "--policy", "cbd:0.3", "--to", to]
    done = CliRunner(env={"COLUMNS": "400"}).invoke(cli, command)
    assert (done.exit_code, says in done.output) == (code, True), done.output
    assert {path: path.read_bytes() for path in made.batch.rglob("*") if path.is_file()} == before


def test_a_live_history_whose_clocks_broke_eps_is_delivered_with_one_that_they_keep(tmp_path: Path) -> None:
    """One late report would keep the user from comparing policies; and a bound that is not so must not be used silently."""
    _, table = hard_stream(Random(9), off=(0,))
    with LiveWriter(str(tmp_path / "live"), terms()) as writer:
        writer.step(table, now=table["arrival"][-1].as_py(), positions={"rows": len(table)})
    blocks = survey(LiveHistory(tmp_path / "live").current().run)
    assert blocks.largest_lag.max() > EPS
    done = CliRunner().invoke(cli, ["simulate", str(tmp_path / "live"), "--json"])
    assert done.exit_code == 0, done.output
    assert "more than the history's eps of 60 ms" in done.stderr
    assert json.loads(done.stdout)["policies"]["cbd-1"]["eps"] == blocks.largest_lag.max()


def test_an_eps_that_the_clocks_break_is_answered_with_one_that_they_keep(tmp_path: Path) -> None:
    """Who is told to make the history again would do so for nothing: another option is enough."""
    (tmp_path / "log.jsonl").write_text(
        '{"process": "a", "time": 20, "sends": "m"}\n{"process": "b", "time": 5, "receives": "m"}\n'
    )
    observe(None, [str(tmp_path / "log.jsonl")], tmp_path / "h")
    command = ["simulate", str(tmp_path / "h"), "--eps"]
    refused = CliRunner(env={"COLUMNS": "400"}).invoke(cli, [*command, "14ns"])
    assert refused.exit_code == 2
    assert "an event has a time 15 ns before one of its causes: give 15ns or more" in refused.output
    assert CliRunner().invoke(cli, [*command, "15ns"]).exit_code == 0
