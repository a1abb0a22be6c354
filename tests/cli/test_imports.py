"""What each command imports: starting is most of what a question about a small history costs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "history"))
from building import draw, write_history

HEAVY = {"numpy", "pyarrow", "pandas", "numba", "duckdb", "pyspark", "matplotlib", "rich", "asyncio"}
START = """
import atexit, sys
atexit.register(lambda: print(*sys.modules, file=sys.stderr))
from ledto.cli import app
app()
"""


def _imported(*arguments: str) -> set[str]:
    """Which modules a command has imported by its end."""
    done = subprocess.run([sys.executable, "-c", START, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(done.stderr.split())


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str, str]:
    """A small history, and the names of its first event and its last."""
    folder = tmp_path_factory.mktemp("imports") / "history"
    events = draw(Random(2), "", 4, 60, gaps=True)
    write_history(folder, [(events, [25])], [], unit="ns")
    return str(folder), events[0].key, events[-1].key


@pytest.mark.parametrize("question", ["why", "relation", "impact", "processes", "check"])
@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
def test_a_question_about_a_small_history_imports_what_it_uses(
    history: tuple[str, str, str], question: str, as_json: bool
) -> None:
    """pandas, numba or DuckDB would make the answer to a small question take three times as long."""
    folder, first, last = history
    events = {"why": [last], "impact": [first], "relation": [first, last]}.get(question, [])
    imported = _imported(question, folder, *events, *(["--json"] if as_json else []))
    # Tables are drawn with rich.
    drawn = {"rich"} if not as_json and question != "relation" else set()
    assert imported & HEAVY == {"numpy", "pyarrow"} | drawn
    assert {"ledto.cli.serve", "ledto.questions.clocks", "pyarrow.dataset"}.isdisjoint(imported)


@pytest.mark.parametrize("arguments", [["--help"], ["observe", "--help"], ["why", "--help"]], ids=" ".join)
def test_help_imports_nothing_that_computes(arguments: list[str]) -> None:
    """Who asks what a command does should be told at once."""
    assert _imported(*arguments) & (HEAVY - {"rich", "asyncio"}) == set()


def test_a_filter_in_sql_imports_what_runs_it(history: tuple[str, str, str]) -> None:
    """The test above could not fail if it looked in the wrong place."""
    folder, _, last = history
    assert "duckdb" in _imported("why", folder, last, "--where", "status > 3")


def test_observing_a_small_log_imports_neither_pandas_nor_numba_nor_duckdb(tmp_path: Path) -> None:
    """Each of them would add to the time of a log of four lines as much as the log itself takes."""
    log = tmp_path / "log.jsonl"
    log.write_text('{"process": "a", "time": 1}\n{"process": "b", "time": 2}\n')
    imported = _imported("observe", str(log), "--to", str(tmp_path / "history"), "--engine", "inline")
    assert imported & HEAVY == {"numpy", "pyarrow", "rich"}


def test_a_worker_imports_what_its_task_uses() -> None:
    """A worker starts with each small run: what it imports, the user waits for."""
    program = """
import pickle, sys
from functools import partial
from importlib import import_module
from ledto.spark.tasks import run_pickled
run_pickled([b"no pickle", pickle.dumps(partial(import_module, "ledto.batch.observe"))], 1)
print(*sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    imported = set(done.stdout.split())
    assert "ledto.batch.observe" in imported
    assert imported & HEAVY == {"numpy", "pyarrow"}
