"""Files of histories are flipped, cut, swapped and removed at random: a question answers as before, or names the file."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from msgspec.structs import replace
from typer.testing import CliRunner

from ledto.cli.main import cli
from ledto.events.schema import REPORTS
from ledto.history import HistoryError, layout
from ledto.history.clocks.measure import add_clocks, measure_segment
from ledto.history.clocks.tables import between_clocks, store_clocks
from ledto.history.damage import check_files
from ledto.history.deliver.files import agree_terms, deliver_and_write, summarize
from ledto.history.deliver.rows import Blocks, survey_segment
from ledto.history.run import open_run
from ledto.history.sealed import SealedFile, write_sealed_table
from ledto.history.store import Store
from ledto.live import LiveHistory, LiveWriter
from ledto.questions import History, connect
from ledto.web.gather import gather
from ledto.web.report import write_page
from tests.export.returning import brought_back
from tests.history.building import draw, write_history
from tests.history.manifests import rewrite
from tests.live.lined import lined_stream
from tests.live.streams import HOUR, hard_stream, terms
from tests.live.test_live_traces import stream as stream_of_traces

MUTATIONS = int(os.environ.get("LEDTO_MUTATIONS", "15"))
"""Of each sort of history; set the variable to thousands after a change to how files are read or written."""

Question = Callable[[Path], Any]


def batch(folder: Path) -> None:
    """Several segments of one computation, then small ones; ids, deliveries and clocks."""
    random = Random(7)
    large = draw(random, "shop", 4, 200, ids=True)
    write_history(folder, [(large, [60, 130])], [[draw(random, "bank", 2, 20)]], unit="ns")
    deliver_all(folder)


def traces(folder: Path) -> None:
    """Whole traces in one segment, with spans on lines."""
    brought_back(folder, stream_of_traces(Random(3)))
    deliver_all(folder)


def deliver_all(folder: Path) -> None:
    run = open_run(Store(folder))
    numbers = range(len(run.segments))
    blocks = Blocks.joined([survey_segment(run, number) for number in numbers])
    agreed = agree_terms(["exact", "cbd:0.5"], blocks, eps=int(blocks.largest_lag.max(initial=0)) + 12)
    outcomes = [deliver_and_write(run, each, agreed, blocks, attempt="1") for each in numbers]
    policies, wall_clock = summarize(outcomes, agreed)
    found = add_clocks((measure_segment(run, number, level=10) for number in numbers), level=10)
    clocks = store_clocks(run.store, run.name, found, unit="ns")
    wall_clock = replace(wall_clock, between_clocks=between_clocks(found.pairs))
    rewrite(run.store, policies=policies, wall_clock=wall_clock, clocks=clocks, unit="ns")


def live(folder: Path) -> None:
    """Closed segments, a tail, a log of several files, reports quarantined, and a computation of lines."""
    _, table = hard_stream(Random(11))
    lined = lined_stream(Random(11), events=60)
    lined = lined.set_column(0, REPORTS.field("computation"), pa.array(["lined"] * len(lined)))
    table = pa.concat_tables([table, lined]).sort_by("arrival")
    with LiveWriter(str(folder), terms(close_rows=25)) as writer:
        for start in range(0, len(table), 20):
            part = table.slice(start, 20)
            writer.step(part, now=part["arrival"][-1].as_py(), positions={"rows": start + len(part)})
        assert writer.closed.chains[""].records
        assert len(writer.tail.by_computation)
    # A writer that goes on removes the files of older versions, which are no part of the history.
    LiveWriter(str(folder)).close()


def asked_of(folder: Path) -> dict[str, Question]:
    """Questions about the history at a folder; names of events are chosen now."""
    events = list(History(folder).order())
    chosen = Random(1).sample(events, 4)
    first, second, last = chosen[0].id, chosen[1].id, events[-1].id
    some_name = next(event.name for event in events if event.name)
    policies = [*History(folder).check().policies]

    def rows(history: Path, query: str) -> list[tuple[Any, ...]]:
        with connect(history) as sql:
            return sql.execute(query).fetchall()

    def cli_says(*words: str) -> Question:
        def ask(history: Path) -> tuple[str, str]:
            done = CliRunner(env={"COLUMNS": "300"}).invoke(cli, [words[0], str(history), *words[1:]])
            if done.exit_code == 0:
                return done.stdout, done.stderr
            assert isinstance(done.exception, SystemExit), done.exception
            raise HistoryError(done.output)

        return ask

    computation = chosen[0].computation
    found: dict[str, Question] = {
        "why": lambda history: History(history).why(last, k=1_000, computation=events[-1].computation).to_json(),
        "why where": lambda history: (
            History(history).why(last, where="seq > 1 AND name <> 'x'", computation=events[-1].computation).to_json()
        ),
        "find": lambda history: History(history).find(some_name, last=5).to_json(),
        "find errors": lambda history: History(history).find(errors=True, first=3).to_json(),
        "relation": lambda history: History(history).relation(first, f"@{chosen[1].position}", computation=computation),
        "concurrent": lambda history: (
            History(history).concurrent(second, k=9, computation=chosen[1].computation).to_json()
        ),
        "impact": lambda history: History(history).impact(first, k=9, computation=computation).to_json(),
        "cut": lambda history: History(history).cut(first, computation=computation).to_json(),
        "cut time": lambda history: History(history).cut(time=events[len(events) // 2].causal_time).to_json(),
        "order": lambda history: [event.to_json() for event in History(history).order()],
        "report": lambda history: write_page(gather(History(history), f"@{events[-1].position}", last=9, beside=3)),
        "processes": lambda history: History(history).processes(),
        "quarantine": lambda history: list(History(history).quarantine(outcome=None)),
        "check": lambda history: History(history).check(),
        "sql events": lambda history: rows(history, "SELECT * FROM events ORDER BY position"),
        "sql causes": lambda history: rows(history, "SELECT * FROM causes ORDER BY ALL"),
        "sql rest": lambda history: [
            rows(history, f"SELECT * FROM {view} ORDER BY ALL") for view in ("deliveries", "quarantine", "processes")
        ],
        "ledto why": cli_says("why", f"@{chosen[2].position}", "--json"),
        "ledto sql": cli_says("sql", "SELECT count(*), max(position), min(time) FROM events", "--json"),
        "ledto order": cli_says("order", "--format", "csv"),
        "ledto export": cli_says("export", "--format", "csv"),
        "ledto check": cli_says("check"),
        "ledto check files": cli_says("check", "--files"),
    }
    for policy in policies:
        found[f"order {policy}"] = lambda history, policy=policy: list(History(history).order(policy=policy))
    if History(folder).run.manifest.clocks is not None:
        found["clocks"] = lambda history: History(history).clocks().to_json()
    if History(folder).run.manifest.stream is not None:
        found["log"] = lambda history: LiveHistory(history).deliveries(3).to_pylist()
        found["go on"] = going_on
    return found


def going_on(history: Path) -> Any:
    """What the history says after another writer went on with it, on a copy: a writer that fails must not change it."""
    copy = history.with_name(f"{history.name} copied")
    shutil.copytree(history, copy)
    try:
        with LiveWriter(str(copy)) as writer:
            writer.step(REPORTS.empty_table(), now=writer.now + 100 * HOUR)
        followed = LiveHistory(copy)
        events = [event.to_json() for event in followed.current().order()]
        return events, followed.deliveries(0).to_pylist(), followed.current().check().ledger
    finally:
        shutil.rmtree(copy)


def damages(folder: Path, random: Random) -> Iterator[tuple[str, dict[Path, bytes | None]]]:
    """Without end: what is done, and by file its damaged content; None for a file that is gone."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != layout.LOCK]
    while True:
        file = random.choice(files)
        content = bytearray(file.read_bytes())
        how = random.choice(("flip", "flip", "flip end", "cut", "longer", "remove", "swap", "zeros", "empty"))
        other = random.choice([each for each in files if each != file])
        if how in ("flip", "flip end"):
            at = random.randrange(len(content)) if how == "flip" else -random.randint(1, min(200, len(content)))
            content[at] ^= 1 << random.randrange(8)
        elif how == "cut":
            del content[random.randrange(len(content)) :]
        elif how == "longer":
            at = random.choice((0, len(content), random.randrange(len(content))))
            content[at:at] = random.randbytes(random.choice((1, 8, 8_192)))
        elif how == "zeros":
            at = random.randrange(len(content))
            size = len(content[at : at + 512])
            if not any(content[at : at + size]):
                continue
            content[at : at + size] = bytes(size)
        elif how == "empty":
            content.clear()
        if how == "remove":
            yield how, {file: None}
        elif how == "swap":
            kind = [each for each in files if each.suffix == file.suffix and each != file]
            other = random.choice(kind or [other])
            yield how, {file: other.read_bytes(), other: file.read_bytes()}
        else:
            yield how, {file: bytes(content)}


def answer(question: Question, folder: Path) -> Any:
    try:
        return question(folder)
    except HistoryError as error:
        return str(error)


@pytest.mark.parametrize("make", [batch, traces, live])
def test_damage_is_found_or_changes_nothing(
    make: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that lies would give an engineer wrong causes, and nobody would ever know."""
    monkeypatch.setattr("ledto.history.write.SMALLEST_INDEXED", 1)
    random = Random(f"{make.__name__} {MUTATIONS}")
    folder = tmp_path / "history"
    make(folder)
    questions = asked_of(folder)
    true = {name: question(folder) for name, question in questions.items()}
    assert not any("damaged" in str(each) for each in true.values())
    found = 0
    for _, (how, changed) in zip(range(MUTATIONS), damages(folder, random), strict=False):
        before = {path: path.read_bytes() for path in changed}
        for path, content in changed.items():
            path.unlink()
            if content is not None:
                path.write_bytes(content)
        where = f"{how} of {', '.join(path.name for path in changed)}"
        for name in ("ledto check files", *random.sample(sorted(questions), 4)):
            said = answer(questions[name], folder)
            if said == true[name]:
                assert name != "ledto check files", f"{where} was not found"
                continue
            assert isinstance(said, str), f"{name} answers otherwise after {where}: {said}"
            gone = how == "remove" and layout.MANIFEST in where
            assert gone or any(path.name in said for path in changed), f"{name} names no file after {where}: {said}"
            assert "Traceback" not in said
            found += 1
        for path, content in before.items():
            path.write_bytes(content)
    assert found > MUTATIONS
    assert {name: question(folder) for name, question in questions.items()} == true


def test_every_damaged_file_is_named(tmp_path: Path) -> None:
    """Whoever restores files from a copy needs to know all of them, not the first."""
    batch(tmp_path / "h")
    (run,) = (tmp_path / "h" / "runs").iterdir()
    whole = check_files(Store(tmp_path / "h"))
    named = [path for path in sorted(run.iterdir()) if not path.name.startswith(("open-", "segments-"))]
    assert (whole.damaged, whole.files) == ((), len(named) + 2)
    for number, path in enumerate(named):
        content = path.read_bytes()
        path.write_bytes(content[:-1]) if number % 2 else path.unlink()
    found = check_files(Store(tmp_path / "h")).damaged
    assert [sentence.split(" is ")[0] for sentence in found] == [str(path) for path in named]


def test_a_few_events_with_long_texts_are_read_without_all_the_others(tmp_path: Path) -> None:
    """Four questions at once took 4 GB: a reader decodes whole pages, and all events of a file were in one."""
    store = Store(tmp_path)
    table = pa.table({"attributes": [str(row) * 100_000 for row in range(100, 600)]})
    name = write_sealed_table(store, "run", "events", table, use_dictionary=False)
    usual, counting = pa.default_memory_pool(), pa.proxy_memory_pool(pa.system_memory_pool())
    pa.set_memory_pool(counting)
    try:
        with SealedFile(store, f"runs/run/{name}").parquet() as file:
            for batch in file.iter_batches(8, use_threads=False):
                assert len(batch) <= 8
                del batch
    finally:
        pa.set_memory_pool(usual)
    assert table.nbytes > 140_000_000
    assert counting.max_memory() < 20_000_000
