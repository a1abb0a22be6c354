"""Play the demo: run the commands that it prints, and compare each answer with the truth about the logs."""

from __future__ import annotations

import json
import shlex
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import ledto
from ledto.demo.shop import CLOCKS, LOG_FILES, ShopTruth, write_shop
from ledto.demo.stage import Stage, ledto_command
from ledto.history.recorded import recorded_past
from ledto.questions import Standing
from ledto.questions.locate import locate
from ledto.questions.parts import past_vector_at
from ledto.web.diagram import format_duration, format_signed_duration

POLICIES = ("exact", "cbd:0.25", "cbd:0.05", "dapw:0.05")
WHERE = "severity <> 'info'"


def play(stage: Stage, *, to: Path, seconds: int, seed: int) -> None:
    """Play all acts; write files into the folder `to`. Raises `DemoFailed`."""
    started = time.monotonic()
    logs, history, page = to / "logs", to / "history", to / "report.html"
    command = ledto_command()
    truth = make_logs(stage, logs, seconds=seconds, seed=seed)
    search_by_time(stage, logs, truth)
    observe(stage, command, logs, history, truth)
    ask(stage, command, history, truth)
    stage.act("Keep the answer: a page for the post-mortem")
    stage.run([*command, "report", str(history), truth.failure, "--to", str(page)])
    stage.say(
        f"\nDone in {time.monotonic() - started:.0f} s. Open {page} in a browser. Every command above can be run again."
    )


def make_logs(stage: Stage, logs: Path, *, seconds: int, seed: int) -> ShopTruth:
    """Play act one: write the logs."""
    stage.act("A shop, and an order that failed")
    stage.say(
        f"Five services on {len(CLOCKS)} instances, {seconds:,} seconds of logs. Each works on many orders at once. "
        "No two clocks agree; reports reach the collector out of order, late or twice, and some of the last are lost. "
        "Writing them ..."
    )
    truth = write_shop(logs, seconds=seconds, seed=seed)
    size = sum(file.stat().st_size for file in logs.iterdir())
    stage.row(
        f"{truth.events:>9,} events happened, and clocks were up to {format_duration(truth.clocks_apart, 'ns')} apart",
        style="bold",
    )
    lost = "report was lost" if truth.lost == 1 else "reports were lost"
    stage.row(f"{truth.lost:>9,} {lost}, {truth.duplicates:,} came twice, {truth.late:,} late")
    stage.row(
        f"{truth.reports:>9,} lines in {LOG_FILES} files of {logs}, {size / 1e6:.0f} MB, {truth.torn} of them torn"
    )
    return truth


def search_by_time(stage: Stage, logs: Path, truth: ShopTruth) -> None:
    """Play act two: do what anyone would try first."""
    stage.act("The usual way: search the logs, sort by time")
    lines = f"""grep -hv '"severity": "info"' {shlex.quote(str(logs))}/*.jsonl"""
    command = f"{lines} | sort -t: -k4,4 | grep -B3 -A6 'ORDER FAILED'"
    stage.show_command(command)
    output = subprocess.run(command, shell=True, capture_output=True, text=True, check=True).stdout
    events = {f"{record['process']}:{record['seq']}": record for record in _parse_lines(output)}
    focus = events[truth.failure]["time"]
    for name, event in events.items():
        style = {truth.failure: "bold red", truth.herring: "yellow", truth.cause: "green"}.get(name, "")
        label = {"send": "sends ", "receive": "gets "}.get(event["kind"], "") + event["name"]
        offset = "" if name == truth.failure else format_signed_duration(event["time"] - focus, "ns")
        stage.row(f"{offset:>9}  {event['process']:<11} {label}", style=style)
    stage.say(
        "Somebody lowered a limit in payments-2, and the next thing was a refused order: so the clocks say. They are wrong."
    )


def _parse_lines(lines: str) -> Iterator[dict[str, Any]]:
    for line in lines.splitlines():
        try:
            yield json.loads(line)
        except ValueError:  # A torn line.
            continue


def observe(stage: Stage, command: list[str], logs: Path, history: Path, truth: ShopTruth) -> None:
    """Play act three: make a history of the same lines."""
    stage.act("The causal way: put the same lines in causal order, on Spark")
    stage.say("This takes the longest. Nobody says how far the clocks are apart: that is measured in the data.")
    policies = [word for policy in POLICIES for word in ("--policy", policy)]
    stage.run([*command, "observe", str(logs), "--to", str(history), *policies])
    check = ledto.open(history).check()
    stage.say()
    stage.check(
        f"{truth.reports:,} lines in, and every one accounted for, as the shop was made",
        check.ledger
        == {
            "reports": truth.reports,
            "delivered": truth.events - truth.lost,
            "duplicate": truth.duplicates,
            "quarantined": truth.torn,
            "reasons": {"not-json": truth.torn},
            "missing_causes": truth.receives_without_send,
        },
    )
    backwards = check.wall_clock["messages_before_cause"]
    stage.check(
        f"by wall clock, {backwards:,} of {truth.messages:,} messages arrive before they are sent",
        backwards == truth.messages_backwards,
    )
    wrong = {name: policy["violations"]["messages_inverted"] for name, policy in check.policies.items()}
    waits = {name: format_duration(policy["delays"]["p50"], "ns") for name, policy in check.policies.items()}
    stage.check(
        f"exact delivery gets none of them wrong; a report waits {waits['exact']} (median)", wrong["exact"] == 0
    )
    stage.check(
        f"cbd with phi 0.05 gets {wrong['cbd-0.05']:,} of them wrong and waits {waits['cbd-0.05']}; dapw, which ignores "
        f"what else has arrived, {wrong['dapw-0.05']:,}",
        wrong["cbd-0.05"] < wrong["dapw-0.05"],
    )


def ask(stage: Stage, command: list[str], history: Path, truth: ShopTruth) -> None:
    """Play act four: ask the questions."""
    stage.act("Ask what led to the failure")
    stage.run([*command, "why", str(history), truth.failure, "-k", "8", "--where", WHERE])
    causes = {event.id for event in ledto.open(history).why(truth.failure, k=8, where=WHERE).causes}
    stage.check(
        f"{truth.cause} is what really led to it, and every step from there is listed", causes >= set(truth.chain[:-1])
    )
    stage.check(f"{truth.herring}, right before it by wall clock, did not", truth.herring not in causes)
    count_causes(stage, history, truth)
    stage.say("\nHow did the first lead to it, and can the second have?")
    stage.run([*command, "explain", str(history), truth.cause, truth.failure])
    stage.run([*command, "relation", str(history), truth.herring, truth.failure])
    opened = ledto.open(history)
    stage.check(
        "the two are concurrent, and no report is missing that could say otherwise: the suspect is innocent",
        opened.relation(truth.herring, truth.failure) is Standing.CONCURRENT,
    )
    bystander = opened.event(truth.bystander)
    stage.check(
        f"{bystander.id} {bystander.name} only shares a process with it: nothing recorded leads from there, but the orders "
        "of a process share its memory, so it is possible",
        opened.relation(truth.bystander, truth.failure) is Standing.POSSIBLE,
    )


def count_causes(stage: Stage, history: Path, truth: ShopTruth) -> None:
    """Print which share of the earlier events led to the failure, and which share is only earlier in the same processes."""
    run = ledto.open(history).run
    position = locate(run, truth.failure)
    causes = sum(map(len, recorded_past(run, np.array([position])))) - 1
    possible = int(past_vector_at(run, position).sum()) - 1 - causes
    stage.check(
        f"of {position:,} earlier events, {causes} are recorded as its causes ({causes / position:.2%}); {possible:,} more "
        f"({possible / position:.0%}) came before it in the same processes, and are only possible",
        causes == truth.causes and causes < position / 100,
    )
