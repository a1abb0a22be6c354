from __future__ import annotations

import doctest
import json
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

import ledto
from ledto.reporting import Reporter
from ledto.sources import source
from ledto.sources.conformance import piece_of

SOURCE = Path(ledto.__file__).parents[1]
MODULES = [
    ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
    for path in sorted(SOURCE.rglob("*.py"))
    if ">>> " in path.read_text()
]
SHOP = [
    {"process": "shop", "seq": 1, "time": 1700000000100000000, "name": "order placed"},
    {"process": "cart", "seq": 1, "time": 1700000000120000000, "name": "checkout", "kind": "send", "message": "m1"},
    {
        "process": "shop",
        "seq": 2,
        "time": 1700000000150000000,
        "name": "order paid",
        "kind": "receive",
        "message": "m1",
    },
]
"""What the history ``shop.history`` is made of, which examples open."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current folder with a small history, ``shop.history``."""
    monkeypatch.chdir(tmp_path)
    Path("shop.jsonl").write_text("".join(json.dumps(event) + "\n" for event in SHOP))
    ledto.observe("shop.jsonl", "shop.history")
    return tmp_path


@pytest.fixture
def reporter(monkeypatch: pytest.MonkeyPatch) -> Iterator[Reporter]:
    """A reporter for examples that need one. Nobody listens to it, so no reporter waits for that when it ends."""
    assert Reporter.__init__.__kwdefaults__ is not None
    monkeypatch.setitem(Reporter.__init__.__kwdefaults__, "exit_timeout_s", 0.0)
    made = Reporter("shop")
    yield made
    made.close(timeout_s=0.0)


@pytest.mark.parametrize("module", MODULES)
def test_the_examples_of_a_docstring_run(module: str, folder: Path, reporter: Reporter) -> None:
    """A reader who types what `help` shows gets what it shows."""
    result = doctest.testmod(import_module(module), extraglobs={"reporter": reporter})
    assert result.attempted > 0
    assert result.failed == 0, "see the output above"


@pytest.mark.parametrize(
    ("module", "format"),
    [
        ("ledto.reporting", "ledto"),
        ("ledto.reporting.records", "ledto"),
        ("ledto.sources.native.records", "ledto"),
        ("ledto.sources.tracing.source", "tracing"),
        ("ledto.sources.jaeger.source", "jaeger"),
        ("ledto.sources.zipkin.source", "zipkin"),
        ("ledto.sources.xray", "xray"),
    ],
)
def test_the_literal_record_of_a_format_is_one(module: str, format: str) -> None:
    """A reader who writes such records gets rows without complaints."""
    _, block = re.split(r"One literal .*::\n\n|``POST /v1/reports``::\n\n", import_module(module).__doc__ or "")
    record = " ".join(line.strip() for line in block.split("\n\n")[0].splitlines()) + "\n"
    rows = [row for batch in source(format, {}).read(piece_of(record.encode())) for row in batch.to_pylist()]
    assert [row["reason"] for row in rows] == [None] * len(rows) != []


def test_modules_with_examples_are_found() -> None:
    """Without this the test above could pass because it runs nothing."""
    assert {"ledto.clocks", "ledto.questions", "ledto.delivery.observer"} <= set(MODULES)
