"""Links from events to the traces that they are part of."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import ledto
from ledto.cli.main import cli
from ledto.questions.trace_link import VARIABLE, BadTraceLink, TraceLink, read_trace_link

TRACE, SPAN = "5b8efff798038103d269b633813fc60c", "eee19b7ec3c1b174"
JAEGER = "https://jaeger.example.org/trace/{trace}?uiFind={span}"
LINK = f"https://jaeger.example.org/trace/{TRACE}?uiFind={SPAN}"


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One span of a trace, and an event of another process that is part of none."""
    folder = tmp_path_factory.mktemp("spans")
    span = {
        "traceId": TRACE,
        "spanId": SPAN,
        "name": "charge",
        "kind": 2,
        "startTimeUnixNano": "1",
        "endTimeUnixNano": "9",
    }
    service = {"attributes": [{"key": "service.name", "value": {"stringValue": "pay"}}]}
    (folder / "spans.json").write_text(
        json.dumps({"resourceSpans": [{"resource": service, "scopeSpans": [{"spans": [span]}]}]})
    )
    (folder / "log.jsonl").write_text('{"process": "web", "time": 5, "line": "order 7"}\n')
    ledto.observe([folder / "spans.json", folder / "log.jsonl"], folder / "h")
    return folder / "h"


def run(*words: str, link: str = JAEGER) -> tuple[int, str]:
    done = CliRunner(env={VARIABLE: link}).invoke(cli, list(words))
    return done.exit_code, done.output


def test_why_ends_with_a_link_to_the_trace(history: Path) -> None:
    """Whoever has found the cause would have to copy its ids into another tool by hand."""
    status, said = run("why", str(history), SPAN)
    assert status == 0
    assert said.splitlines()[-1] == f"its trace: {LINK}"
    status, said = run("why", str(history), "web:1")
    assert (status, "its trace" in said) == (0, False), "this event is part of no trace"
    status, said = run("why", str(history), SPAN, link="")
    assert (status, "its trace" in said) == (0, False)


def test_ids_on_the_page_link_to_their_traces(history: Path, tmp_path: Path) -> None:
    """A post-mortem that names a span and does not lead there."""
    page = tmp_path / "page.html"
    assert run("report", str(history), SPAN, "--to", str(page))[0] == 0
    assert f'<a href="{LINK}" rel="noreferrer"><code>{SPAN}' in page.read_text()
    assert run("report", str(history), "web:1", "--to", str(page), "--beside", "0")[0] == 0
    assert '<a href="https' not in page.read_text()


@pytest.mark.parametrize(
    "template",
    [
        "https://jaeger.example.org/trace/",
        "jaeger.example.org/{trace}",
        "javascript:alert('{trace}')",
        'https://jaeger.example.org/{trace}"onclick="x',
        "https://jaeger.example.org/{trace}/{process}",
    ],
)
def test_an_address_that_leads_nowhere_is_refused(template: str, history: Path) -> None:
    """A misspelt variable would give links that fail for everybody who reads the page; or a page that runs code."""
    with pytest.raises(BadTraceLink, match=r"such as https://jaeger\.example\.org/trace/{trace}, not "):
        read_trace_link({VARIABLE: template})
    status, said = run("why", str(history), SPAN, link=template)
    assert (status, said.startswith(f"{VARIABLE} is an address")) == (1, True)


def test_only_lines_of_traces_are_linked() -> None:
    """A line of another source may have any name, which would become a part of the address."""
    link = TraceLink("https://tempo/{trace}")
    assert link.fill(TRACE) == link.fill(f"{TRACE}/{SPAN}") == f"https://tempo/{TRACE}"
    assert link.fill(f"{SPAN}/{SPAN}") == f"https://tempo/{SPAN}", "short ids of Zipkin and Jaeger"
    for line in (None, "", "order 7", f"{TRACE}/../{SPAN}", f"{TRACE}{SPAN}", TRACE.upper()):
        assert link.fill(line) is None
