"""Finding events, against a naive look at every event."""

from __future__ import annotations

import json
import os
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import ledto
from ledto.batch.inline import InlineEngine
from ledto.batch.observe import Delivering, RunSettings, observe
from ledto.cli.main import cli
from ledto.events.schema import REPORTS
from ledto.history import AmbiguousEvent, BadCondition, EventNotFound, layout
from ledto.live import LiveHistory, LiveWriter
from ledto.questions import History
from ledto.questions.find import SeveralEvents
from ledto.sources.inputs import find_inputs
from tests.history.building import Made, draw, write_history
from tests.history.test_words import leaves, plain_words
from tests.live.streams import HOUR, hard_stream, kind_stream, terms

WORDS = (
    "order",
    "ORDER",
    "Failed",
    "failed",
    "48208",
    "7",
    "größe",
    "GRÖSSE",
    "京都",
    "K",
    "pasſ",
    "PASS",
    "a\0b",
    "\x1b[2J",
)
SEPARATORS = (" ", ": ", ".", "_", "\n", "\\", '"', "", "\\n", "€", "-")
SEEDS = st.integers(0, 1 << 32)


@contextmanager
def small_groups(rows: int) -> Iterator[None]:
    """Write small row groups, and an index for every segment."""
    with ExitStack() as patches:
        patches.enter_context(patch.object(layout, "EVENT_ROWS", rows))
        patches.enter_context(patch("ledto.history.write.SMALLEST_INDEXED", 1))
        yield


def drawn_text(random: Random) -> str:
    return "".join(random.choice(WORDS) + random.choice(SEPARATORS) for _ in range(random.randint(1, 4)))


def drawn_attributes(random: Random) -> dict[str, object] | None:
    choices: list[Callable[[], object]] = [
        lambda: drawn_text(random),
        lambda: random.choice((48208, 17.5, True, None, -3)),
        lambda: [drawn_text(random), {"order": drawn_text(random)}],
    ]
    if random.random() < 0.3:
        return None
    return {random.choice(("order", "failed", "x", "")): random.choice(choices)() for _ in range(random.randint(1, 3))}


def follow_each_other(words: list[str], text: str) -> bool:
    there = plain_words(text)
    return any(there[at : at + len(words)] == words for at in range(len(there)))


def has_text(event: Made, text: str) -> bool:
    values = [event.name or "", *leaves(event.attributes or {})]
    return any(follow_each_other(plain_words(text), value) for value in values)


@settings(max_examples=25, deadline=None)
@given(seed=SEEDS)
def test_what_is_found_is_what_a_look_at_every_event_finds(seed: int) -> None:
    """An event that is not found is an event that nobody asks about; a wrong one leads to the wrong cause."""
    random = Random(seed)
    computations = [
        draw(random, name, 3, random.randint(1, 60), untimed=random.random() < 0.3) for name in ("a", "b", "c")
    ]
    for event in (event for events in computations for event in events):
        event.name = None if random.random() < 0.2 else drawn_text(random)
        event.attributes = drawn_attributes(random)
        event.error = random.choice((None, False, True))
    cuts = sorted({random.randrange(len(computations[0])) for _ in range(2)} - {0})
    with tempfile.TemporaryDirectory() as folder, small_groups(random.choice((2, 5, 64))):
        events = write_history(Path(folder), [(computations[0], cuts), (computations[1], [])], [[computations[2]]])
        history = History(folder)
        by_age = sorted(events, key=lambda event: (max(event.causal_time, 0), event.position))
        if any(event.causal_time < 0 for event in events):
            by_age = sorted(events, key=lambda event: event.position)
        for _ in range(12):
            texts = [drawn_text(random) for _ in range(random.choice((0, 1, 1, 1, 2)))]
            if not all(plain_words(text) for text in texts):
                continue
            errors = random.random() < 0.3
            processes = random.choice((None, None, ["p1"], ["p0", "p2"]))
            since, until = random.choice((None, 1_030)), random.choice((None, 1_090))
            least = random.choice((None, None, 5))
            wanted = [
                event.position
                for event in by_age
                if all(has_text(event, text) for text in texts)
                and (not errors or event.error)
                and (processes is None or event.process in processes)
                and (since is None or (event.time is not None and event.time >= since))
                and (until is None or (event.time is not None and event.time <= until))
                and (least is None or event.seq > least)
            ]
            count = random.choice((1, 3, 1_000))
            oldest = random.random() < 0.3
            found = history.find(
                texts or None,
                where=None if least is None else f"seq > {least}",
                errors=errors,
                processes=processes,
                since=since,
                until=until,
                **({"first": count} if oldest else {"last": count}),
            )
            positions = [event.position for event in found]
            if any(event.causal_time < 0 for event in events):
                # Events without any time have no place among those of other computations.
                assert len(positions) == min(count, len(wanted))
                assert set(positions) <= set(wanted)
            else:
                assert positions == (wanted[:count] if oldest else wanted[-count:])
            assert found.more == (len(wanted) > count)


@settings(max_examples=10, deadline=None)
@given(seed=SEEDS)
def test_a_live_history_finds_in_its_closed_part_and_in_its_tail(seed: int) -> None:
    """What came a second ago is what somebody asks about; what was closed last week must still be there."""
    random = Random(seed)
    _, table = hard_stream(random) if random.random() < 0.5 else kind_stream(random)
    texts = [drawn_text(random) for _ in range(len(table))]
    table = table.set_column(table.column_names.index("name"), REPORTS.field("name"), pa.array(texts, pa.string()))
    with tempfile.TemporaryDirectory() as folder, small_groups(random.choice((3, 8_192))):
        with LiveWriter(folder, terms(close_rows=25)) as writer:
            for start in range(0, len(table), 20):
                part = table.slice(start, 20)
                writer.step(part, now=part["arrival"][-1].as_py(), positions={"rows": start + len(part)})
            closed = sum(len(chain.records) for chain in writer.closed.chains.values())
        history = LiveHistory(folder).current()
        indexed = [name for name in history.run.segments.words_file if name is not None]
        assert len(indexed) == closed
        events = list(history.order())
        for text in (*WORDS[:9], *random.sample(texts, 3)):
            if plain_words(text):
                wanted = [event.id for event in events if follow_each_other(plain_words(text), event.name or "")]
                assert [event.id for event in history.find(text, last=1_000)] == wanted
        if history.run.manifest.ledger.delivered:
            until = events[len(events) // 2].time
            assert {event.id for event in history.find(until=until, last=1_000)} == {
                event.id for event in events if event.time is not None and until is not None and event.time <= until
            }


def test_batch_and_live_find_the_same(tmp_path: Path) -> None:
    """Who tries a question on yesterday's log and asks it of the service today would get another answer."""
    random = Random(5)
    _, table = kind_stream(random, events=200)
    # A name with a NUL is refused by the reader of JSON lines.
    texts = [drawn_text(random).replace("\0", " ") for _ in range(len(table))]
    table = table.set_column(table.column_names.index("name"), REPORTS.field("name"), pa.array(texts, pa.string()))
    rows = [{name: value for name, value in row.items() if value} for row in table.to_pylist()]
    for row in rows:
        row["receives"] = [row["receives"], *row.pop("receives_more", [])] if "receives" in row else None
        row.pop("file"), row.pop("place")
    (tmp_path / "log.jsonl").write_text("\n".join(json.dumps({k: v for k, v in row.items() if v}) for row in rows))
    with small_groups(16):
        settings_of_run = RunSettings(eps=terms().eps, epoch_rows=60, delivering=Delivering(()))
        observe(InlineEngine(), find_inputs([str(tmp_path / "log.jsonl")]), tmp_path / "batch", settings_of_run)
        with LiveWriter(str(tmp_path / "live"), terms(close_rows=30)) as writer:
            writer.step(table, now=table["arrival"][-1].as_py() + HOUR)
        batch, live = History(tmp_path / "batch"), History(tmp_path / "live")
        assert batch.run.segments.words_file[0] is not None
        for word in ("order", "failed", "48208", "größe", "nothing at all"):
            assert {each.id for each in batch.find(word, last=500)} == {each.id for each in live.find(word, last=500)}


def test_columns_of_parquet_are_searched_like_attributes(tmp_path: Path) -> None:
    """A Parquet log keeps its own columns: an order's number there is what people search for."""
    rows = 500
    table = pa.table(
        {
            "process": [f"p{row % 3}" for row in range(rows)],
            "time": [1_700_000_000_000_000_000 + row for row in range(rows)],
            "order": pa.array(range(1_000, 1_000 + rows), pa.int32()),
            "customer": pa.array([f"Ms. Brown-{row}" for row in range(rows)]).dictionary_encode(),
            "tags": pa.array([[f"t{row}", "all"] for row in range(rows)]),
        }
    )
    pq.write_table(table, tmp_path / "log.parquet")
    with small_groups(64):
        observe(
            InlineEngine(), find_inputs([str(tmp_path / "log.parquet")]), tmp_path / "h", RunSettings(epoch_rows=1_000)
        )
        history = History(tmp_path / "h")
        assert history.run.manifest.native_columns
        for text, expected in (("1017", 1), ("brown 17", 1), ("T17", 1), ("all", 500), ("17", 1), ("brown 1", 1)):
            found = history.find(text, last=1_000)
            assert len(found) == expected, text
        assert history.find("t17")[0].attributes["order"] == 1_017


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("find")
    names = ["checkout", "ORDER FAILED: 48208", "ORDER FAILED: 7", "refund", "card declined"]
    log = folder / "log.jsonl"
    events = [
        {"process": "pay", "seq": at, "time": f"2026-01-31T12:00:0{at}Z", "name": name, "order": 40 + at}
        for at, name in enumerate(names, start=1)
    ]
    events[4]["level"] = "error"
    events[3]["trace"] = ["first\nsecond\tthird", {"at": "C:\\new\\text"}]
    log.write_text("\n".join(map(json.dumps, events)))
    ledto.observe([str(log)], str(folder / "shop.history"))
    return str(folder / "shop.history")


def ask(*words: str, history: str) -> tuple[int, str]:
    """Run a command about a history."""
    done = CliRunner(env={"COLUMNS": "200"}).invoke(cli, [words[0], history, *words[1:]])
    assert "Traceback" not in done.output
    return done.exit_code, done.output


def test_a_question_takes_a_text_for_an_event(shop: str) -> None:
    """Nobody knows ids by heart: what is in the log, or on the screen of a customer, is a text."""
    history = ledto.open(shop)
    assert history.why("ORDER FAILED: 48208").event.id == "pay:2"
    assert history.why("order failed 48208").event.id == history.why("48208").event.id == "pay:2"
    assert history.event("44").id == "pay:4"
    assert history.why(history.find("order failed")[-1]).event.id == "pay:3"
    assert history.relation("checkout", "refund").value == "before"
    with pytest.raises(SeveralEvents) as several:
        history.why("order failed")
    assert isinstance(several.value, AmbiguousEvent)
    assert [event.id for event in several.value.events] == ["pay:2", "pay:3"]
    code, said = ask("why", "order failed", history=shop)
    assert code == 2
    assert "pay:2 (ORDER FAILED: 48208)" in said
    code, said = ask("why", "--last", "order failed", history=shop)
    assert code == 0
    assert any(line.startswith("* ") and "ORDER FAILED: 7" in line for line in said.splitlines())
    assert ask("relation", "--last", "checkout", "order failed", history=shop)[1].startswith("before: pay:1")
    assert ask("why", "--last", "pay:1", history=shop)[1] == ask("why", "pay:1", history=shop)[1]
    with pytest.raises(EventNotFound, match="'ORDER FAILED: 48208'"):
        history.why("order faild")
    with pytest.raises(EventNotFound, match="there is no event 99 of process 'pay'"):
        history.why("pay:99")


@pytest.mark.parametrize(
    "text", ["second", "third", "first second", "FIRST second, third", "new", "c new text", "text"]
)
def test_what_json_escapes_is_found(shop: str, text: str) -> None:
    """A stack trace has ends of lines, which its JSON spells with letters: the words after them would not be found."""
    assert [event.id for event in ledto.open(shop).find(text)] == ["pay:4"]
    assert not ledto.open(shop).find("nsecond").events


def test_a_text_of_any_length_is_found(tmp_path: Path) -> None:
    """Who pastes a whole stack trace would be told of a pattern that nobody wrote."""
    words = [f"Größe{number}" for number in range(9_000)]
    events = draw(Random(1), "", 1, 3)
    for event, last in zip(events, ("end", "other", None), strict=True):
        event.name = " ".join([*words, last]) if last else "short"
    write_history(tmp_path / "h", [(events, [])], [])
    history = History(tmp_path / "h")
    assert [event.position for event in history.find(" ".join([*words, "OTHER"]))] == [events[1].position]
    assert not history.find("x" * 300_000).events


def test_the_command_lists_what_to_ask_next(shop: str) -> None:
    """A table without a way on leaves the user to guess the next command."""
    code, said = ask("find", "order", "--also", "48208", history=shop)
    lines = said.splitlines()
    assert code == 0
    assert [line.split()[-1] for line in lines if "ORDER" in line] == ["pay:2"]
    assert lines[-1] == f"Ask: ledto why {shop} pay:2"
    code, said = ask("find", "--errors", history=shop)
    assert code == 0
    assert "error" in said
    assert said.splitlines()[-1].endswith("shop.history pay:5")
    code, said = ask("find", "--first", "2", "--json", history=shop)
    assert [event["id"] for event in json.loads(said)["events"]] == ["pay:1", "pay:2"]
    assert json.loads(said)["more"]
    code, said = ask(
        "find", "--since", "2026-01-31T12:00:02Z", "--until", "2026-01-31T12:00:03Z", "--json", history=shop
    )
    assert [event["id"] for event in json.loads(said)["events"]] == ["pay:2", "pay:3"]
    code, said = ask("find", "order feiled", history=shop)
    assert code == 1
    assert "'ORDER FAILED: 7'" in said
    code, said = ask("find", "?!", history=shop)
    assert code == 2
    assert "--where" in said
    assert ask("find", "x", "--since", "yesterday", history=shop)[0] == 2
    with pytest.raises(BadCondition):
        ledto.open(shop).find("...")


def test_an_interrupted_search_gives_what_it_has_found(shop: str) -> None:
    """Minutes of search over all events would be lost when the user has seen enough."""
    found = ledto.open(shop).find("order", on_progress=lambda passed: False)
    assert (found.events, found.interrupted) == ((), True)
    whole = History.find

    def interrupted(self: History, *texts: Any, on_progress: Any, **options: Any) -> Any:
        def send_and_go_on(passed: int) -> Any:
            os.kill(os.getpid(), signal.SIGINT)
            return on_progress(passed)

        return whole(self, *texts, on_progress=send_and_go_on, **options)

    before = signal.getsignal(signal.SIGINT)
    with patch.object(History, "find", interrupted):
        code, said = ask("find", "order", history=shop)
    assert code == 1
    assert "interrupted" in said
    assert signal.getsignal(signal.SIGINT) is before


def test_the_command_to_paste_names_one_event(tmp_path: Path) -> None:
    """Ids that are unique within a trace only, as 1 and 2, name several events: such a command would be refused."""
    events = [{"process": p, "seq": 1, "time": 1, "id": "1", "name": "failed", "level": "error"} for p in "ab"]
    (tmp_path / "log.jsonl").write_text("\n".join(map(json.dumps, events)))
    ledto.observe([str(tmp_path / "log.jsonl")], str(tmp_path / "h"))
    code, said = ask("find", history=str(tmp_path / "h"))
    *_, command = said.splitlines()[-1].split()
    assert code == 0
    assert ask("why", command, history=str(tmp_path / "h"))[0] == 0, command
