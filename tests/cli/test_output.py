"""Names from logs are shown, and never obeyed."""

from __future__ import annotations

import ast
import io
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from msgspec.structs import replace
from typer.testing import CliRunner

import ledto.cli
from ledto.cli.main import cli
from ledto.cli.observe import _print_summary
from ledto.cli.output import SafeStream, open_stdout_for_data, say
from ledto.events.schema import REPORTS
from ledto.history.clocks.measure import add_clocks, measure_segment
from ledto.history.clocks.tables import between_clocks, store_clocks
from ledto.history.deliver.files import agree_terms, deliver_and_write, summarize
from ledto.history.deliver.rows import Blocks, survey_segment
from ledto.history.manifest import read_manifest
from tests.history.computations import observe_cut
from tests.history.manifests import ledger, rewrite

C0_AND_C1 = "".join(map(chr, (*range(0x20), *range(0x7F, 0xA0))))
BIDI = "".join(map(chr, (*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F, 0x061C, 0x2028, 0x2029)))
MARKUP = "[red]r[/red] [link=http://x]l[/link] :warning: [/]"
NAMES = (
    f"a{C0_AND_C1}b{BIDI}c",
    "\x1b]0;title\x07\x1b[2J\x1b[31mred\x1b[0m\x9b2J \x9d0;x\x9c\r\nforged: line",
    MARKUP,
)
OBEYED = re.compile(f"[{re.escape(C0_AND_C1.replace(chr(9), '').replace(chr(10), ''))}{BIDI}]")
"""What a terminal must not get; new lines and tabs may be our own."""


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every name of it is hostile: computations, processes, events, ids, messages, attributes, files, reasons, texts."""
    folder = tmp_path_factory.mktemp("hostile") / "history"
    rows: list[dict[str, Any]] = []
    for at, name in enumerate(NAMES):
        other = NAMES[(at + 1) % len(NAMES)]
        common = {"computation": "", "name": name, "file": f"{name}.log", "id": None}
        common["attributes"] = json.dumps({name: name})
        sent = {"process": name, "seq": 1, "time": 1_000 + at, "kind": "send", "sends": f"m{name}"}
        received = {"process": other, "seq": 2, "time": 990 + at, "kind": "receive", "receives": f"m{name}"}
        lost = {"process": name, "seq": 5, "time": 1_050 + at, "kind": "receive", "receives": f"lost{name}"}
        rows += [common | each | {"place": len(rows)} for each in (sent, received, lost)]
        local = {"process": name, "seq": 3, "time": 1_100 + at, "kind": "local", "id": f"id{name}", "place": 1}
        odd = {
            "process": name,
            "time": 1_000,
            "kind": "local",
            "reason": f"odd{name}: {name}",
            "text": name,
            "place": 2,
        }
        rows += [common | local, common | odd]
    run = observe_cut(folder, pa.Table.from_pylist(rows, REPORTS), [], 1_000)
    numbers = range(len(run.segments))
    blocks = Blocks.joined([survey_segment(run, number) for number in numbers])
    agreed = agree_terms(["exact"], blocks, eps=1_000)
    outcomes = [deliver_and_write(run, each, agreed, blocks, attempt="1") for each in numbers]
    policies, wall_clock = summarize(outcomes, agreed)
    found = add_clocks((measure_segment(run, number, level=10) for number in numbers), level=10)
    rewrite(
        run.store,
        unit="ns",
        lag=0,
        policies=policies,
        wall_clock=replace(wall_clock, between_clocks=between_clocks(found.pairs)),
        clocks=store_clocks(run.store, run.name, found, unit="ns"),
        attributes=dict.fromkeys(NAMES, "text"),
        ledger=ledger(**{f"odd{NAMES[1]}": 1}),
    )
    return folder


QUESTIONS: dict[str, Callable[[str], list[str]]] = {
    "why": lambda name: ["why", f"{name}:3"],
    "impact": lambda name: ["impact", f"{name}:1"],
    "relation": lambda name: ["relation", f"{name}:1", f"id{name}"],
    "explain": lambda name: ["explain", f"{name}:1", f"id{name}"],
    "concurrent": lambda name: ["concurrent", f"id{name}"],
    "cut": lambda name: ["cut", "--event", f"{name}:3"],
    "order": lambda name: ["order"],
    "processes": lambda name: ["processes"],
    "check": lambda name: ["check"],
    "clocks": lambda name: ["clocks"],
    "quarantine": lambda name: ["quarantine"],
    "sql": lambda name: ["sql", "SELECT * FROM events"],
    "sql by a column": lambda name: ["sql", "SELECT '{0}' AS \"{0}\"".format(name.replace("\x00", ""))],
    "sql that fails": lambda name: ["sql", f'SELECT "{name}" FROM nowhere'],
    "not there": lambda name: ["why", f"{name}:999"],
    "no condition": lambda name: ["why", f"{name}:3", "--where", f'"{name}" = 1'],
    "no policy": lambda name: ["order", "--policy", name],
    "no computation": lambda name: ["processes", "--computation", name],
    "no option": lambda name: ["why", f"--{name}"],
    "no history": lambda name: ["why", "x"],
    "export": lambda name: ["export", "--format", "dot", "--to", "{folder}/exported"],
    "report": lambda name: ["report", f"{name}:3", "--to", "{folder}/report.html"],
}


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("as_json", [False, True])
def test_no_command_obeys_a_name(question: str, as_json: bool, history: Path, tmp_path: Path) -> None:
    """A log line could clear an engineer's screen, forge a line of an answer, or type into the terminal."""
    for at, name in enumerate(NAMES):
        words = [word.replace("{folder}", str(tmp_path)) for word in QUESTIONS[question](name)]
        place = (
            tmp_path / "".join(each for each in name if each not in "\x00/") if question == "no history" else history
        )
        if as_json and question == "no option":
            continue
        words = [words[0], str(place), *words[1:], *(["--json"] if as_json else [])]
        done = CliRunner(env={"COLUMNS": "400"}).invoke(cli, words)
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        if question == "no option":  # Shown after the command has ended; `app` guards that.
            continue
        assert OBEYED.search(done.output) is None, OBEYED.search(done.output)
        assert "\nforged" not in done.output
        if done.exit_code == 0 and not as_json and question in ("why", "impact", "relation", "explain") and at == 2:
            assert "[red]r[/red]" in done.output
            assert "[/link] :warning:" in done.output or question != "relation"
        if as_json and done.exit_code == 0 and question in ("why", "concurrent", "processes"):
            assert name in str(json.loads(done.stdout)) or repr(name)[1:-1] in str(json.loads(done.stdout))


def test_the_summary_of_a_run_obeys_nothing(history: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The first thing a user sees of a log is what `ledto observe` says of it."""
    told = replace(read_manifest(run_store(history)), lag=5, lag_event=NAMES[1])
    _print_summary(told, f"{history}", 1.0)
    shown = capsys.readouterr().out
    assert OBEYED.search(shown) is None
    assert "\nforged" not in shown
    assert MARKUP in shown


def run_store(history: Path) -> Any:
    from ledto.history.store import Store

    return Store(history)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_on_a_terminal_colours_pass_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """Our own tables have colours there. Text that comes by another way than ours must not move the cursor."""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", SafeStream(terminal))
    print("\x1b[1mbold\x1b[0m", *NAMES)
    open_stdout_for_data().write("".join(NAMES).encode()[:-1])
    say("".join(NAMES) + "\udc80")
    assert OBEYED.search(re.sub("\x1b\\[[0-9;]*m", "", terminal.getvalue())) is None
    assert terminal.getvalue().startswith("\x1b[1mbold\x1b[0m a\\x00\\x01")
    assert terminal.getvalue().endswith("\\udc80\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize(
    "words",
    [
        ["order"],
        ["why", "@3"],
        ["export", "--format", "csv", "--to", "/dev/full"],
        ["--help"],
        ["simulate", "--help"],
        ["--version"],
    ],
)
def test_a_full_disk_is_one_sentence(words: list[str], history: Path) -> None:
    """Whoever redirects an answer to a full disk must not take half of it for all."""
    if not words[-1].startswith("--"):
        words = [words[0], str(history), *words[1:]]
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "ledto.cli", *words],
            check=False,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert done.returncode == 1
    assert re.fullmatch("no space left on (/dev/full|the disk that the output goes to): .*\n", done.stderr)


def test_every_command_prints_through_one_place() -> None:
    """A new command that prints by itself would forget all of this."""
    for path in Path(ledto.cli.__file__).parent.glob("*.py"):
        if path.name in ("output.py", "__init__.py"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                assert called not in ("print", "Console", "sys.stdout.write", "sys.stderr.write"), (
                    f"{path}:{node.lineno}"
                )
                assert called not in ("typer.echo", "typer.secho"), f"{path}:{node.lineno}"
