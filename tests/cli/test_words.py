"""What people read: led to, could have, cannot have, not known; and how much of a history is provable."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ledto.cli.main import cli
from ledto.cli.words import SPANS_UNCONNECTED, UNCONNECTED

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
OTHER = "0af7651916cd43dd8448eb211c80319c"
SECOND = 1_700_000_000
Run = Callable[..., Any]


@pytest.fixture
def run() -> Run:
    """Run a command; parsed JSON if asked for, else text."""

    def ran(*words: object, json_too: bool = False) -> Any:
        done = CliRunner(env={"COLUMNS": "200"}).invoke(cli, [*map(str, words), *(["--json"] if json_too else [])])
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout) if json_too else done.stdout

    return ran


def observed(folder: Path, text: str, *options: object) -> tuple[Path, str]:
    """A history of these lines, and what ``ledto observe`` said of it."""
    log, history = folder / "log.json", folder / "history"
    log.write_text(text)
    done = CliRunner(env={"COLUMNS": "200"}).invoke(
        cli, ["observe", str(log), "--to", str(history), "--engine", "inline", *map(str, options)]
    )
    assert done.exit_code == 0, done.output
    return history, done.stdout


def lines_of(*events: dict[str, Any]) -> str:
    return "".join(json.dumps(event) + "\n" for event in events)


def span(trace: str, number: str, name: str, kind: int, start: int, end: int, parent: str = "") -> dict[str, Any]:
    """Times are milliseconds."""
    return {
        "traceId": trace,
        "spanId": number,
        "parentSpanId": parent,
        "name": name,
        "kind": kind,
        "startTimeUnixNano": str(SECOND * 10**9 + start * 10**6),
        "endTimeUnixNano": str(SECOND * 10**9 + end * 10**6),
    }


BUY, CALL, CHARGE, LIMIT = "a1a1a1a1a1a1a1a1", "b2b2b2b2b2b2b2b2", "c3c3c3c3c3c3c3c3", "d4d4d4d4d4d4d4d4"


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A request of `web` that calls `pay`, where another request has changed a limit 40 ms before."""
    spans = {
        "web": [span(TRACE, BUY, "buy", 2, 0, 1000), span(TRACE, CALL, "call pay", 3, 100, 900, BUY)],
        "pay": [span(TRACE, CHARGE, "charge", 2, 200, 800, CALL), span(OTHER, LIMIT, "limit changed", 2, 150, 160)],
    }
    return observed(tmp_path_factory.mktemp("traced"), otlp(spans))[0]


def otlp(spans: dict[str, list[dict[str, Any]]]) -> str:
    """A request with these spans, by service."""
    resources = [
        {
            "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": name}}]},
            "scopeSpans": [{"spans": each}],
        }
        for name, each in spans.items()
    ]
    return json.dumps({"resourceSpans": resources})


@pytest.mark.parametrize(
    ("first", "second", "says"),
    [
        (f"{BUY}/start", f"{CHARGE}/start", "before: {0} buy starts led to {1} charge starts (recorded)"),
        (f"{CHARGE}/start", f"{BUY}/start", "after: {1} buy starts led to {0} charge starts (recorded)"),
        (
            LIMIT,
            f"{CHARGE}/start",
            "possible: {0} limit changed ends could have led to {1} charge starts: both touched pay, 40 ms apart by its "
            "clock; nothing recorded leads from one to the other",
        ),
        (
            CHARGE,
            CALL,
            "possible: {0} charge ends could have led to {1} call pay ends: the latter is assumed to have waited for the "
            "answer of it; nothing recorded leads from one to the other",
        ),
        (
            LIMIT,
            f"{BUY}/start",
            "unknown: nothing leads from one of {0} limit changed ends and {1} buy starts to the other, but reports are "
            "missing that might: who called {0}/start, which nobody reports; who called {1}, which nobody reports",
        ),
        (LIMIT, LIMIT, "equal: both are {0} limit changed ends"),
    ],
)
def test_a_relation_is_one_sentence_that_begins_with_its_word(
    first: str, second: str, says: str, run: Run, traced: Path
) -> None:
    """Whoever reads "before" for what is only possible blames the wrong request; a script reads the first word."""
    words = ["relation", traced, first, second]
    said = run(*words)
    assert said == says.format(first, second) + "\n"
    assert run(*words, json_too=True)["relation"] == said.partition(":")[0]
    assert run("explain", traced, first, second).splitlines()[0] + "\n" == said


def test_why_tells_what_is_recorded_apart_from_what_is_possible(run: Run, traced: Path) -> None:
    """A list that mixes the two accuses other requests; one that leaves out the second hides the true cause."""
    shown = run("why", traced, BUY)
    recorded, possible = shown.split("also possible")
    assert [name in recorded for name in ("call pay starts", "call pay ends", "limit changed")] == [False, False, False]
    assert [name in possible for name in ("call pay ends", "charge ends", "limit changed")] == [True, True, True]
    assert "child span, assumed to have been waited for" in possible
    assert "100 ms before call pay ends (answer of pay, assumed)" in possible
    assert "40 ms before charge starts (process pay)" in possible
    assert shown.splitlines()[-1].startswith("not complete: reports are missing")
    assert "also possible" not in run("why", traced, BUY, "--possible", 0)
    assert len(run("why", traced, BUY, "--possible", 1, json_too=True)["possible"]) == 1
    with_answers = run("why", traced, BUY, "--answered").split("also possible")
    assert "charge ends" in with_answers[0]
    assert "limit changed ends" in with_answers[1]
    assert "limit changed" not in with_answers[0]
    reached = run("impact", traced, f"{LIMIT}/start").split("also possible")
    assert "charge starts" not in reached[0]
    assert "charge starts" in reached[1]


def test_lines_and_messages_of_spans_are_short(run: Run, traced: Path) -> None:
    """Two ids of 49 characters a row push the names, which people look for, off the screen."""
    shown = run("why", traced, CHARGE)
    (row,) = (line for line in shown.splitlines() if "charge starts" in line and "receive" in line)
    assert f"…{TRACE[-6:]}/…{CHARGE[-6:]}" in row
    assert f"call from …{CALL[-6:]}" in row
    assert TRACE not in shown
    assert "span " not in shown
    assert "answer to" not in run("why", traced, BUY)


def test_each_step_says_by_what_and_whether_that_is_recorded(run: Run, traced: Path) -> None:
    """A way is as sure as its least sure step."""
    *_, date, first, at_charge, charge, call, end, legend = run("explain", traced, LIMIT, BUY).splitlines()
    assert (date, legend) == ("2023-11-14 UTC", "? possible: nothing recorded says so")
    assert (first[0], first.split()[-1]) == (" ", LIMIT)
    assert (at_charge[0], at_charge.split()[-1]) == ("?", f"{CHARGE}/start")
    assert "  process pay, 40 ms apart  " in at_charge
    assert (charge[0], charge.split()[-1]) == (" ", CHARGE)
    assert f"  line …{TRACE[-6:]}/…{CHARGE[-6:]}  " in charge
    assert (call[0], end[0]) == ("?", "?")
    assert "  answer, assumed, 100 ms apart  " in call
    assert "  wait, assumed, 100 ms apart  " in end
    steps = run("explain", traced, LIMIT, BUY, json_too=True)["steps"]
    assert [(each["kind"], each["known"]) for each in steps] == [
        *(("process", "possible"), ("line", "recorded"), ("answer", "assumed"), ("answer", "assumed"))
    ]
    led = run("explain", traced, CHARGE, BUY, "--answered")
    assert led.startswith(f"before: {CHARGE} charge ends led to {BUY} buy ends (recorded, with assumed answers)")


def test_what_is_missing_makes_it_unknown_and_is_counted(run: Run, tmp_path: Path) -> None:
    """ "Concurrent" clears a suspect: one lost report must not. Of five events, what b:4 knew and what c did is in doubt."""
    history, said = observed(
        tmp_path,
        lines_of(
            {"process": "a", "seq": 1, "sends": "m", "name": "asks"},
            {"process": "b", "seq": 1, "receives": "m", "name": "gets"},
            {"process": "b", "seq": 4, "name": "fails"},
            {"process": "a", "seq": 2, "name": "goes on"},
            {"process": "c", "seq": 1, "name": "sleeps"},
        ),
    )
    first = (
        "5 events of 3 processes: for 60% of them it is provable what cannot have led to them; "
        "for 1 a report is missing in their past (first before b:4); 1 is of a process that reports no message (c)"
    )
    assert said.splitlines()[0] == run("check", history).splitlines()[0] == first
    assert "if no report was lost" not in said
    found = run("check", history, json_too=True)["provable"]
    assert (found["events"], found["provable"], found["silent"], found["numbered"]) == (5, 3, ["c"], True)
    told = run("relation", history, "a:2", "b:4")
    assert told.startswith("unknown: ")
    assert told.endswith("reports are missing that might: 2 of b between 1 and 4\n")
    assert "all messages of c, which reports none" in run("relation", history, "a:2", "c:1")
    assert run("relation", history, "a:2", "b:1").startswith("concurrent: ")
    why = run("why", history, "b:4", "-k", 0)
    assert why.splitlines()[-3:] == [
        "missing: 2 of b between 1 and 4",
        "missing: all messages of c, which reports none",
        "not complete: reports are missing of what could have led to it",
    ]
    filtered = refused("why", history, "b:4", "--where", "error")
    assert filtered.splitlines()[1:] == why.splitlines()[-3:], "what is unknown may meet the conditions"
    told = run("why", history, "b:4", json_too=True)
    assert [gap["kind"] for gap in told["missing"]] == ["numbers", "messages"]
    assert not run("why", history, "a:2", json_too=True)["complete"], "of c, it is unknown"
    assert "1 event is concurrent with a:2; of 2 more it is not known" in run("concurrent", history, "a:2")
    told = run("processes", history)
    rows = {row[1]: row for row in map(str.split, told.splitlines()) if len(row) > 1}
    assert rows["b"] == ["-", "b", "2", "1", "1"], "one of its events is provable"
    assert rows["c"] == ["?", "c", "1", "0", "0"]
    assert "- numbers are missing; ? reports no message, so nothing of it is provable\n" in told


@pytest.mark.parametrize("numbered", [True, False])
def test_processes_that_nothing_connects_are_shouted_about(numbered: bool, run: Run, tmp_path: Path) -> None:
    """Logs without messages make a history in which nothing is known: its user would read "no causes" for an answer."""
    events = [{"process": name, "time": 5 + at, "name": "works"} for name in "abc" for at in range(2)]
    if numbered:
        events = [{**each, "seq": each["time"] - 4} for each in events]
    history, said = observed(tmp_path, lines_of(*events))
    assert said.splitlines()[0] == UNCONNECTED
    assert run("check", history, json_too=True)["provable"]["connected"] is False
    alone, said = observed(tmp_path, lines_of(*(each for each in events if each["process"] == "a")))
    assert said.splitlines()[0] == "2 events of 1 process: for all of them it is provable what cannot have led to them"
    assert ("if no report was lost" in said) == (not numbered)
    made = run("observe", tmp_path / "log.json", "--to", alone, "--engine", "inline", json_too=True)
    assert made["provable"] == run("check", alone, json_too=True)["provable"]


def test_answers_say_that_nobody_can_notice_a_lost_report(run: Run, tmp_path: Path) -> None:
    """Without numbers, "concurrent" and "complete" are only as good as the collection of logs: text and JSON say so."""
    two = [{"process": name, "time": 1 + at, "name": "works"} for at, name in enumerate("ab")]
    talk = [{"process": "a", "time": 5, "sends": "m"}, {"process": "b", "time": 6, "receives": "m"}]
    for numbered in (True, False):
        events = [{**each, "seq": 1 + at // 2} if numbered else each for at, each in enumerate([*two, *talk])]
        history, _ = observed(tmp_path, lines_of(*events))
        for question in (["why", "b:2"], ["relation", "a:1", "b:1"], ["concurrent", "a:1"]):
            assert ("if no report was lost" in run(question[0], history, *question[1:])) == (not numbered), question
            assert run(question[0], history, *question[1:], json_too=True)["numbered"] == numbered


def refused(*words: object) -> str:
    """What a command says that fails with exit code 1."""
    done = CliRunner(env={"COLUMNS": "200"}).invoke(cli, list(map(str, words)))
    assert done.exit_code == 1, done.output
    return done.stderr


def test_spans_and_traces_are_found_as_tools_write_them(run: Run, traced: Path) -> None:
    """Other tools write ids in upper case, copy whole traces, and know nothing of our ids of events."""
    for asked in (BUY.upper(), f"{TRACE}/{BUY}", f"{TRACE}/{BUY}".upper()):
        assert run("why", traced, asked) == run("why", traced, BUY), asked
    start = run("why", traced, f"{TRACE}/{CHARGE}/start")
    assert start == run("why", traced, f"{CHARGE}/start")
    told = refused("why", traced, TRACE.upper())
    assert "is a trace of 6 events: ask about one of these: " in told
    for named in told.partition("one of these: ")[2].split(", "):
        run("why", traced, named.split()[0])
    assert f"{BUY} (buy ends)" in told
    assert "no event goes by" in refused("why", traced, "f" * 32)


def test_filters_that_nothing_meets_say_so(run: Run, traced: Path) -> None:
    """An empty list reads like "nothing led to it"; a name is easily misspelt."""
    told = refused("why", traced, BUY, "--name", "charge start")
    assert "nothing that led to" in told
    assert "'charge starts'" in told
    assert "meets the conditions" in refused("why", traced, BUY, "--where", "error")
    assert "charge starts" in run("why", traced, BUY, "--name", "charge starts")


def test_a_report_that_was_quarantined_is_told_of(tmp_path: Path) -> None:
    """An event that sends a message to itself cannot be put in order: who asks for it is told that, and where it is."""
    itself = {"process": "a", "seq": 1, "sends": "m", "receives": "m", "id": "loop"}
    history, _ = observed(tmp_path, lines_of(itself, {"process": "a", "seq": 2}))
    for asked in ("a:1", "loop"):
        assert f"the report of '{asked}' is quarantined: cycle" in refused("why", history, asked)


def test_spans_that_nothing_connects_are_shouted_about(run: Run, tmp_path: Path) -> None:
    """Services that do not pass their context on: each has traces of its own, and they are told what they can do."""
    spans = {"web": [span(TRACE, BUY, "buy", 2, 0, 1000), span(TRACE, CALL, "call pay", 3, 100, 900, BUY)]}
    _, said = observed(tmp_path, otlp({**spans, "pay": [span(OTHER, CHARGE, "charge", 2, 200, 800)]}))
    assert said.splitlines()[0] == SPANS_UNCONNECTED
    _, said = observed(tmp_path, otlp({**spans, "pay": [span(TRACE, CHARGE, "charge", 2, 200, 800, CALL)]}))
    assert "WARNING" not in said
    _, said = observed(tmp_path, otlp(spans))
    assert "WARNING" not in said, "there is one process only"


def test_who_has_no_spans_is_not_asked_for_them(tmp_path: Path) -> None:
    """Names of messages that are repeated look like spans inside: who reads a log of calls would look for a tracer."""
    rules = 'process = "who"\ntime = { from = "at", unit = "s" }\nline = "trace"\n[default]\nkind = "send"\n'
    (tmp_path / "m.toml").write_text(rules + 'sends = { from = "call {n}", repeated = true }\n')
    log = lines_of(*({"who": name, "at": at, "n": f"{name}{at}", "trace": "t1"} for name in "ab" for at in range(2)))
    _, said = observed(tmp_path, log, "--mapping", tmp_path / "m.toml")
    assert said.splitlines()[0] == UNCONNECTED
    assert "trace ids" not in UNCONNECTED, "they make no message"


def test_observe_ends_with_questions_to_type(run: Run, tmp_path: Path) -> None:
    """A new user has no id of an event at hand: errors are what one asks about, and else what came last."""
    events = [
        {"process": "a", "seq": at, "name": f"step {at % 3}", "level": "error" if at < 9 else "info"}
        for at in range(1, 20)
    ]
    _, said = observed(tmp_path, lines_of(*events))
    commands = [line.split() for line in said.splitlines() if line.startswith("  ledto why ")]
    assert [words[3] for words in commands] == ["a:6", "a:7", "a:8"]
    for _, *words in commands:
        run(*words[: words.index("#")])
    _, said = observed(tmp_path, lines_of(*({**event, "level": "info"} for event in events)))
    (command,) = (line.split() for line in said.splitlines() if line.startswith("  ledto why "))
    assert command[3] == "a:19"


def test_a_process_beside_its_instances_is_told_of(tmp_path: Path) -> None:
    """Logs of `pay` and spans of `pay@1` would stay apart, and nobody would know why they never meet."""
    names = ("pay", "pay@1", "pay@pod-2/pid-7", "web@1", "mail")
    _, said = observed(tmp_path, lines_of(*({"process": name, "seq": 1, "name": "works"} for name in names)))
    (line,) = (line for line in said.splitlines() if "is a process of its own" in line)
    assert line.startswith("  pay is a process of its own, beside pay@1, pay@pod-2/pid-7: ")


def test_one_is_one(run: Run, tmp_path: Path) -> None:
    """A tool that says "1 events" seems not to have been looked at by anybody."""
    log = lines_of(
        {"process": "a", "seq": 1, "time": 1, "sends": "m"}, {"process": "b", "seq": 1, "time": 2, "receives": "m"}
    )
    history, said = observed(tmp_path, log)
    said += "".join(run(words[0], history, *words[1:]) for words in (["impact", "a:1"], ["cut", "a:1"], ["check"]))
    said += run("clocks", history, "--json")
    alone, more = observed(tmp_path, lines_of({"process": "a", "seq": 1, "time": 1}))
    said += more + run("cut", alone, "a:1")
    ticks = lines_of({"process": "a", "time": 2, "sends": "m"}, {"process": "b", "time": 1, "receives": "m"})
    (tmp_path / "ticks.jsonl").write_text(ticks)
    words = ["--to", tmp_path / "ticks", "--unit", "tick", "--engine", "inline"]
    said += run("observe", tmp_path / "ticks.jsonl", *words) + run("clocks", tmp_path / "ticks")
    assert "1 tick " in said
    assert "1 effect in 1 process\n" in said
    assert not re.findall(r"(?<![\d,.])1 (?!ns|process\b)[a-z]+s\b", said)


def test_eps_is_never_enough_and_too_little_at_once(run: Run, tmp_path: Path) -> None:
    """Clocks that differ by 950 ns "at least", and an eps of 900 ns that fits: who reads both believes neither."""
    history, said = observed(
        tmp_path,
        lines_of(
            {"process": "a", "time": 1000, "sends": "m"},
            {"process": "b", "time": 100, "receives": "m"},
            {"process": "b", "time": 200, "sends": "n"},
            {"process": "c", "time": 150, "receives": "n"},
        ),
    )
    for told in (said, run("clocks", history)):
        (line,) = (line for line in told.splitlines() if "clocks differ by" in line)
        differ = re.match(r" *clocks differ by (\d+) ns at least; how much at most cannot be known", line)
        assert differ is not None
        assert 900 < int(differ[1]) <= 950
        assert line.endswith(
            "For the order, eps 900 ns was enough: no event is more than 900 ns before one of its causes"
        )
