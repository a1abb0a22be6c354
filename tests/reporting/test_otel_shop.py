from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from typer.testing import CliRunner

from examples.otel_shop import SERVICES, Truth, play
from ledto import observe
from ledto.cli.main import cli
from ledto.questions import History, Standing, connect

CHANGE, REFUSAL, FAILURE = "limit changed 500 -> 50", "payment refused", "order failed"


@dataclass(frozen=True)
class Shop:
    """What was exported, and the history of it."""

    truth: Truth
    files: list[Path]
    path: Path
    history: History

    def one(self, name: str) -> str:
        """The only event of this name."""
        [[position]] = connect(self.path).execute("SELECT position FROM events WHERE name = ?", [name]).fetchall()
        return f"@{position}"

    def lines(self) -> dict[int, str]:
        return dict(connect(self.path).execute("SELECT position, line FROM events").fetchall())

    def spans(self) -> dict[str, tuple[str, str]]:
        """By span: its trace and its parent, as OpenTelemetry's own classes read the files."""
        found = {}
        for path in self.files:
            if path.name.startswith("traces"):
                request = ExportTraceServiceRequest.FromString(path.read_bytes())
                for resource in request.resource_spans:
                    for scope in resource.scope_spans:
                        for span in scope.spans:
                            found[span.span_id.hex()] = (span.trace_id.hex(), span.parent_span_id.hex())
        return found

    def ask(self, *words: str) -> Any:
        done = CliRunner().invoke(cli, [words[0], str(self.path), *words[1:], "--json"])
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    folder = tmp_path_factory.mktemp("otel_shop")
    truth = play(folder / "exports")
    files = sorted((folder / "exports").glob("*.otlp"))
    return Shop(truth, files, folder / "history", observe(files, folder / "history", format="otlp"))


def test_a_change_outside_of_the_trace_is_a_possible_cause_of_the_refusal(shop: Shop) -> None:
    """Who looks at the failing trace alone never finds what made it fail; among all earlier events, it is lost."""
    change, refusal, failure = (shop.one(name) for name in (CHANGE, REFUSAL, FAILURE))
    found = shop.history.related(change, refusal)
    assert (found.relation, found.direction) == (Standing.POSSIBLE, Standing.BEFORE)
    assert found.through is not None
    assert {found.through.kind, found.through.cause.process.split("@")[0]} == {"process", "opay"}
    assert found.through.cause.process == found.through.effect.process
    assert shop.history.relation(change, failure) is Standing.POSSIBLE
    told = shop.ask("relation", change, refusal)
    assert (told["relation"], told["through"]["cause"]["process"]) == ("possible", found.first.process)


def test_what_is_recorded_of_the_refusal_is_what_its_trace_leads_through(shop: Shop) -> None:
    """Thirty-nine other traces ran at the same time or before; not one of them is said to have led to the refusal."""
    spans, lines = shop.spans(), shop.lines()
    assert sum(not parent for _, parent in spans.values()) == shop.truth.traces
    answer = shop.history.why(shop.one(REFUSAL), k=1_000)
    [trace, span] = lines[answer.event.position].split("/")
    assert trace == shop.truth.failed_trace
    ancestors = {span}
    while span := spans[span][1]:
        ancestors.add(span)
    assert {lines[event.position] for event in answer.causes} == {f"{trace}/{each}" for each in ancestors}
    assert [event.process.split("@")[0] for event in answer.causes] == ["oweb"] * 2 + ["oorders"] * 3 + ["opay"] * 2
    assert {"order taken", "payment asked"} < {event.name for event in answer.causes}
    assert {gap.kind for gap in answer.missing} == {"caller"}, "only who called the services from outside"
    assert not answer.more

    failed = shop.history.why(shop.one(FAILURE), k=1_000)
    assert {lines[event.position].split("/")[0] for event in failed.causes} == {trace}


@pytest.mark.parametrize("asked", [REFUSAL, FAILURE])
def test_the_change_is_among_the_first_ten_possible_causes(shop: Shop, asked: str) -> None:
    """It is in another trace, so this list is the only place where someone who asks why would meet it."""
    told = shop.ask("why", shop.one(asked))
    assert CHANGE in [each["event"]["name"] for each in told["possible"][:10]]
    [position] = [each["event"]["position"] for each in told["possible"] if each["event"]["name"] == CHANGE]
    assert position not in [event["position"] for event in told["causes"]]


def test_three_services_of_one_machine_come_out_as_one_clock(shop: Shop) -> None:
    """Requests go one way, so by them alone nothing bounds how far apart the clocks are."""
    [same] = shop.history.clocks().same
    assert [name.split("@")[0] for name in same.names] == sorted(SERVICES)
    assert same.by_answers
    done = CliRunner(env={"COLUMNS": "400"}).invoke(cli, ["clocks", str(shop.path)])
    assert done.stdout.count("one clock, as far as can be told: ") == 1
    assert done.stdout.count("agrees, by answers") == 2
    assert "one side only" not in done.stdout
    assert "broken" not in done.stdout.replace("stands out from the others as broken", "")


def test_three_unchanged_services_are_three_processes_with_nothing_quarantined(shop: Shop) -> None:
    """A span or a log record that is not read would be missed by every question."""
    assert sorted(each.process.split("@")[0] for each in shop.history.processes()) == sorted(SERVICES)
    ledger = shop.history.check().ledger
    assert ledger["delivered"] == ledger["reports"] > 2 * len(shop.spans())
