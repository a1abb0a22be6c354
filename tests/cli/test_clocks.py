"""``ledto clocks`` and what ``ledto check`` says of wall clocks, on a history whose clocks are known."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pyarrow as pa
import pytest
import typer
from msgspec.structs import replace
from typer.testing import CliRunner

from ledto.cli.check import check
from ledto.cli.clocks import clocks, describe_clocks
from ledto.events.schema import REPORTS
from ledto.history.clocks.measure import add_clocks, measure_segment
from ledto.history.clocks.tables import between_clocks, store_clocks
from ledto.history.run import open_run
from ledto.questions import History
from ledto.questions.clocks import ClockReport, Clocks
from ledto.skew.offsets import estimate_offsets
from ledto.skew.pairs import count_pairs
from tests.history.computations import observe_cut
from tests.history.manifests import rewrite

START = 1_700_000_000_000_000_000
SECOND = 10**9
Ask = Callable[..., Any]
app = typer.Typer()
app.command()(clocks)
app.command()(check)

OFFSETS = {
    "bill": 20_000_000,
    "cart": 0,
    "pay <b>": -30_000_000,
    "ship": 2_000_000,
    "shop": 11_000_001,
    "stock": -4_000_000,
}
SET = "pay <b>"
"""Set back by two seconds in the middle of the history."""


def messages() -> list[tuple[str, str, int, int]]:
    """Sender, receiver and the wall times at both ends."""
    random = Random(1)
    found = []
    for number in range(2_000):
        sender, receiver = random.sample(sorted(OFFSETS), 2)
        sent = number * SECOND // 10 + random.randrange(SECOND // 20)
        received = sent + random.choice((0, random.randrange(SECOND // 50)))

        def read(name: str, true: int) -> int:
            return START + true + OFFSETS[name] - (2 * SECOND if name == SET and true > 100 * SECOND else 0)

        found.append((sender, receiver, read(sender, sent), read(receiver, received)))
    return found


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("clocks") / "history"
    numbers = dict.fromkeys(OFFSETS, 0)
    rows = []
    for number, (sender, receiver, sent, received) in enumerate(messages()):
        for name, time, key in ((sender, sent, "sends"), (receiver, received, "receives")):
            numbers[name] += 1
            rows.append(
                {
                    "computation": "",
                    "process": name,
                    "seq": numbers[name],
                    "time": time,
                    "kind": "send" if key == "sends" else "receive",
                    key: f"m{number}",
                    "file": "log",
                    "place": len(rows),
                }
            )
    run = observe_cut(folder, pa.Table.from_pylist(rows, REPORTS), [], 10 * SECOND)
    found = add_clocks((measure_segment(run, number, level=30) for number in range(len(run.segments))), level=30)
    clocks = store_clocks(run.store, run.name, found, unit="ns")
    wall_clock = replace(run.manifest.wall_clock, violations={}, between_clocks=between_clocks(found.pairs))
    rewrite(run.store, unit="ns", lag=0, clocks=clocks, wall_clock=wall_clock)
    assert open_run(run.store).manifest.clocks
    return folder


@pytest.fixture
def ask(history: Path) -> Ask:
    def run(*words: str, code: int = 0) -> Any:
        done = CliRunner(env={"COLUMNS": "200"}).invoke(app, [str(word) for word in words])
        assert done.exit_code == code, done.output
        assert "Traceback" not in done.output
        return json.loads(done.stdout) if "--json" in words else done.output

    return run


def test_the_broken_clock_is_named_and_the_others_are_bounded(ask: Ask, history: Path) -> None:
    """Whoever asks wants one name, when and how much; not a table to study."""
    shown = ask("clocks", str(history))
    (line,) = (line for line in shown.splitlines() if line.startswith("broken: "))
    assert line.startswith(f"broken: the clock of {SET} was set: back by ")
    amount, when = line.removeprefix(f"broken: the clock of {SET} was set: back by ").split(" s or more between ")
    assert 1.98 <= float(amount) <= 2
    assert when.startswith("2023-11-14T22:14:5")
    assert " and 2023-11-14T22:15:0" in when
    assert "clocks differ by " in shown
    assert "delay of reports: cannot be known, no report has an arrival time" in shown
    found = ask("clocks", str(history), "--json")
    assert found == json.loads(json.dumps(History(history).clocks().to_json()))
    assert found["broken"] == [SET]
    for clock in found["clocks"]:
        own, reference = OFFSETS[clock["name"]], OFFSETS[clock["reference"]]
        assert clock["low"] <= own - reference <= clock["high"]
        if clock["name"] != SET:
            assert clock["high"] - clock["low"] < 5_000_000
            assert clock["low"] <= clock["offset"] <= clock["high"]
        else:
            assert clock["low"] <= own - reference - 2 * SECOND
        (row,) = (row for row in shown.splitlines() if row.startswith(f"{clock['name']} "))
        assert f"{clock['received']:,}" in row
        assert re.search(r"\b(1 message|(?!1 )[\d,]+ messages) in, ", clock["confidence"])
    delays = found["message_delays"]
    # Each end's offset is known to a few milliseconds, and the slowest message took 20.
    assert delays["max"] > 2 * SECOND
    assert 15_000_000 < delays["corrected_max"] < 25_000_000
    assert 0 < delays["corrected_count"] < delays["count"]
    assert "and 4 more" in ask("clocks", str(history), "-k", "2")


def test_the_plot_is_one_safe_file(ask: Ask, history: Path, tmp_path: Path) -> None:
    """A name in a log could run as a script in whoever opens the picture, or break it."""
    to = tmp_path / "deep" / "clocks.svg"
    assert f"drawn in {to}" in ask("clocks", str(history), "--plot", str(to))
    root = ElementTree.fromstring(to.read_text())
    texts = ["".join(each.itertext()) for each in root.iter() if each.tag.endswith(("text", "title"))]
    assert all(any(name in text for text in texts) for name in OFFSETS)
    assert {each.tag.partition("}")[2] for each in root.iter()} <= {
        "svg", "title", "style", "text", "line", "g", "polygon",
    }  # fmt: skip
    groups = [each for each in root.iter() if "broken" in each.get("class", "").split()]
    assert len(groups) == 2
    assert "http" not in to.read_text().replace("http://www.w3.org/2000/svg", "")
    assert "cannot be written" in ask("clocks", str(history), "--plot", str(to / "under-a-file.svg"), code=1)
    assert "outside of it" in ask("clocks", str(history), "--plot", str(history / "runs" / "clocks.svg"), code=2)


def test_check_tells_what_wall_clocks_put_before_its_cause(ask: Ask, history: Path) -> None:
    """How far the logs can be trusted is asked before any other question."""
    gaps = [(sender, receiver, received - sent) for sender, receiver, sent, received in messages()]
    early = [gap for _, _, gap in gaps if gap < 0]
    found = ask("check", str(history), "--json")["wall_clock"]["between_clocks"]
    assert found["messages"] == len(gaps)
    assert (found["before_cause"], found["earlier_by"]) == (len(early), -min(early))
    assert found["ties"] == sum(gap == 0 for _, _, gap in gaps)
    counts: dict[tuple[str, str], list[int]] = {}
    for sender, receiver, gap in gaps:
        if gap < 0:
            counts.setdefault((sender, receiver), []).append(gap)
    assert found["pairs_before_cause"] == len(counts) > len(found["pairs"]) == 10
    told = [(each["sender"], each["receiver"], each["before_cause"], each["earlier_by"]) for each in found["pairs"]]
    assert (
        told
        == sorted(
            ((*pair, len(each), -min(each)) for pair, each in counts.items()),
            key=lambda row: (-row[2], -row[3], row[:2]),
        )[:10]
    )
    shown = ask("check", str(history))
    assert f"{len(gaps):,} messages between clocks: {len(early):,} received before they were sent, by up to 2." in shown
    assert f"and between {len(counts) - 10} more pairs of clocks" in shown


def test_questions_that_cannot_be_answered_say_why(ask: Ask, tmp_path: Path) -> None:
    """A stack trace tells a user nothing."""
    assert "there is no history" in ask("clocks", str(tmp_path / "nowhere"), code=1)
    assert "Missing argument 'HISTORY'" in ask("clocks", code=2)


def test_clocks_that_messages_bound_on_one_side_say_so_with_the_bound() -> None:
    """Called unknown beside thousands of messages, a clock leaves its reader without the one thing that is known of it."""
    names, truth = ["hub", "left", "right"], {"hub": 0, "left": -SECOND, "right": 3 * SECOND}
    sent = [("hub", name, START + at * SECOND) for at in range(50) for name in ("left", "right")]
    codes = {name: code for code, name in enumerate(names)}
    times = [time for _, _, time in sent]
    pairs = count_pairs(
        names,
        np.array([codes[a] for a, _, _ in sent], np.int32),
        np.array([codes[b] for _, b, _ in sent], np.int32),
        np.array(times),
        np.array([time + truth[b] + SECOND // 2 for _, b, time in sent]),
        np.arange(len(sent)),
        level=40,
    )
    offsets = estimate_offsets(pairs)
    nothing = {"count": 0}
    eps = {"at_least": offsets.eps_low, "at_most": offsets.eps_high, "unbounded": offsets.unbounded}
    found = Clocks(tuple(ClockReport(each, 50) for each in offsets.clocks), eps, None, None, 1, nothing, nothing)
    told = [line for line in describe_clocks(found, "ns") if line.startswith("one side only: ")]
    assert told == [
        "one side only: left is at least 500 ms behind hub; no message leads from it there, so no more is known",
        "one side only: right is at most 3.5 s ahead of hub; no message leads from it there, so no more is known",
    ]
