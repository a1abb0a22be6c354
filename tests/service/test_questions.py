"""Questions over HTTP, against the command line's answers to the same questions."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any, get_args

import httpx
import numpy as np
import pytest
from fastapi import FastAPI
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter
from typer.testing import CliRunner

import ledto
from ledto.cli.main import cli
from ledto.events.keys import ANSWER
from ledto.history import BadCondition, NoHistory
from ledto.history.clocks.measure import add_clocks, measure_segment
from ledto.history.clocks.tables import store_clocks
from ledto.questions import Check, Concurrent, Cut, Explanation, Found, History, Impact, Related, Why
from ledto.questions.clocks import Clocks
from ledto.service.http.limits import RequestRefused
from ledto.service.questions import bounds as answer_bounds
from ledto.service.questions import documents as answers
from ledto.service.questions.bounds import fair_level
from ledto.service.questions.conditions import ConditionLimits
from ledto.service.questions.pool import QuestionLimits
from ledto.service.questions.routes import questions_router
from tests.history.building import Made, draw, write_history
from tests.history.manifests import rewrite

START = 1_700_000_000_000_000_000
Get = Callable[..., httpx.Response]


class Newest:
    """A live history without a stream: what is in the folder now."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def current(self) -> History:
        return History(self.folder)


def application(live: Any, **options: Any) -> FastAPI:
    app = FastAPI()
    app.include_router(questions_router(live, **options))
    return app


def asking(app: FastAPI) -> Get:
    """Asks the application in this thread, in an event loop of its own."""

    def get(path: str, **parameters: Any) -> httpx.Response:
        async def asked() -> httpx.Response:
            transport = httpx.ASGITransport(app, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url="http://ledto") as client:
                return await client.get(path, params=parameters)

        return asyncio.run(asked())

    return get


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Made]]:
    """Two computations that share names of events, one clock far behind, and what the run found of the clocks."""
    folder = tmp_path_factory.mktemp("asking") / "history"
    events = draw(Random(2), "one", 4, 60, gaps=True)
    for event in events:
        event.causal_time, event.level = START + event.number, 0
        if event.time is not None:
            event.time = START + event.number - (1_000 if event.process == "p1" else 0)
    history = write_history(folder, [(events, [25])], [[draw(Random(3), "two", 2, 12)]], unit="ns")
    run = History(folder).run
    found = add_clocks((measure_segment(run, number, level=30) for number in range(len(run.segments))), level=30)
    rewrite(run.store, clocks=store_clocks(run.store, run.name, found, unit="ns"))
    return folder, history


@pytest.fixture(scope="module")
def get(made: tuple[Path, list[Made]]) -> Iterator[Get]:
    return asking(application(Newest(made[0])))


QUESTIONS: list[tuple[str, list[str], dict[str, Any], Any]] = [
    ("find", ["PAY", "--last", "3"], {"text": "PAY", "last": 3}, answers.FoundDocument),
    (
        "find",
        ["--also", "pay", "--also", "a", "--where", "status > 2", "--process", "p1", "--first", "2", "--since", "5"],
        {"text": ["pay", "a"], "where": "status > 2", "process": "p1", "first": 2, "since": "5"},
        answers.FoundDocument,
    ),
    ("why", ["p1:{a}", "-k", "3"], {"event": "p1:{a}", "k": 3}, answers.WhyDocument),
    (
        "why",
        ["@55", "--where", "status >= 0 AND who LIKE '%'", "--process", "p1", "--process", "p2", "--name", "pay"],
        {"event": "@55", "where": "status >= 0 AND who LIKE '%'", "process": ["p1", "p2"], "name": "pay"},
        answers.WhyDocument,
    ),
    ("impact", ["@3", "-k", "5"], {"event": "@3", "k": 5}, answers.ImpactDocument),
    ("relation", ["@3", "@50"], {"first": "@3", "second": "@50"}, answers.RelationDocument),
    ("explain", ["@50", "@3"], {"first": "@50", "second": "@3"}, answers.ExplanationDocument),
    ("concurrent", ["@30"], {"event": "@30"}, answers.ConcurrentDocument),
    ("cut", [str(START + 30)], {"time": str(START + 30)}, answers.CutDocument),
    ("cut", ["2023-11-14T22:13:20.000000030Z"], {"time": "2023-11-14T22:13:20.000000030Z"}, answers.CutDocument),
    ("cut", ["--event", "@40", "--computation", "one"], {"event": "@40", "computation": "one"}, answers.CutDocument),
    ("cut", ["@40", "-k", "1"], {"time": "@40", "k": 1}, answers.CutDocument),
    ("processes", [], {}, list[answers.ProcessDocument]),
    ("processes", ["--computation", "two"], {"computation": "two"}, list[answers.ProcessDocument]),
    ("check", [], {}, answers.CheckDocument),
    ("quarantine", ["--outcome", "all"], {"outcome": "all"}, list[answers.QuarantinedDocument]),
    ("clocks", [], {}, answers.ClocksDocument),
]


@pytest.mark.parametrize(("question", "words", "parameters", "model"), QUESTIONS)
def test_http_answers_what_the_command_line_answers_and_what_openapi_says(
    question: str, words: list[str], parameters: dict[str, Any], model: Any, made: tuple[Path, list[Made]], get: Get
) -> None:
    """A program that moves from the command line to the service, or is made from its description, would read wrong."""
    last = max(event.seq for event in made[1] if event.process == "p1" and event.computation == "one")
    words = [word.replace("{a}", str(last)) for word in words]
    parameters = {
        name: value.replace("{a}", str(last)) if isinstance(value, str) else value for name, value in parameters.items()
    }
    done = CliRunner().invoke(cli, [question, str(made[0]), *words, "--json"])
    assert done.exit_code == 0, done.output
    answered = get(f"/v1/history/{question}", **parameters)
    assert answered.status_code == 200, answered.text
    assert answered.json() == json.loads(done.stdout)
    assert answered.json()
    TypeAdapter(model).validate_python(answered.json())
    described = get("/openapi.json").json()["paths"][f"/v1/history/{question}"]["get"]
    schema = described["responses"]["200"]["content"]["application/json"]["schema"]
    (single,) = get_args(model) or (model,)
    assert (schema if model is single else schema["items"])["$ref"] == f"#/components/schemas/{single.__name__}"


@pytest.mark.parametrize(
    ("answer", "document"),
    [
        (Found, answers.FoundDocument),
        (Why, answers.WhyDocument),
        (Impact, answers.ImpactDocument),
        (Related, answers.RelationDocument),
        (Explanation, answers.ExplanationDocument),
        (Concurrent, answers.ConcurrentDocument),
        (Cut, answers.CutDocument),
        (Check, answers.CheckDocument),
        (Clocks, answers.ClocksDocument),
    ],
)
def test_a_document_has_the_names_of_the_python_answer(answer: type, document: type[answers.Document]) -> None:
    """Who moves a program from Python to JSON, or back, would look for the same list under another name."""
    described = set(document.model_fields) - {"truncated"}
    assert described <= set(dir(answer))
    assert {field.name for field in dataclasses.fields(answer)} <= described


def test_every_page_of_the_order_is_a_part_of_the_command_line_s(made: tuple[Path, list[Made]], get: Get) -> None:
    """Pages that overlap or leave a gap would lose events or count them twice."""
    done = CliRunner().invoke(cli, ["order", str(made[0]), "--json"])
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["position"] for line in lines] == list(range(72))
    for limit in (1, 7, 72, 1_000):
        pages: list[Any] = []
        while page := [
            json.loads(line) for line in get("/v1/history/order", skip=len(pages), limit=limit).text.splitlines()
        ]:
            assert len(page) <= limit
            pages += page
        assert pages == lines
    for line in lines:
        answers.OrderedDocument.model_validate(line)
    total = get("/v1/history/processes", limit=2, skip=3)
    assert ([each["code"] for each in total.json()], total.headers["Ledto-Total"]) == ([3, 4], "6")


@pytest.mark.parametrize(
    ("path", "parameters", "status", "reason", "told"),
    [
        ("why", {"event": "p1:1000000"}, 404, "event-not-found", "there is no event 1000000"),
        ("why", {"event": "po:1"}, 404, "event-not-found", "'p0'"),
        ("why", {"event": "{shared}"}, 409, "ambiguous-event", "'two'"),
        ("why", {"event": "@3", "where": "nope > 1"}, 400, "bad-condition", "status"),
        ("why", {"event": "@3", "where": "repeat(who, 1000000000) = ''"}, 400, "bad-condition", "no function 'repeat'"),
        ("why", {"event": "@3", "where": "1 IN (SELECT 1)"}, 400, "bad-condition", "sub-queries"),
        ("why", {"event": "@3", "where": "row_number() OVER () = 1"}, 400, "bad-condition", "window functions"),
        ("why", {"event": "@3", "where": "sum(seq) > 1"}, 400, "bad-condition", "without aggregates"),
        ("why", {"event": "@3", "where": " "}, 400, "bad-condition", "the condition is empty"),
        ("why", {"event": "@3", "k": 1_001}, 422, "bad-request", "k"),
        ("why", {}, 422, "bad-request", "event"),
        ("why", {"event": "pay"}, 409, "ambiguous-event", "events have the text 'pay'"),
        ("find", {"text": "?!"}, 400, "bad-condition", "no letter"),
        ("find", {"text": "pay", "where": "random() > 1"}, 400, "bad-condition", "no function 'random'"),
        ("find", {"since": "then"}, 400, "bad-time", "ISO 8601"),
        ("find", {"until": str(2**70)}, 400, "bad-time", "64 bits"),
        ("find", {"last": 1_001}, 422, "bad-request", "last"),
        ("find", {"text": ["a"] * 11}, 422, "bad-request", "text"),
        ("cut", {}, 400, "bad-time", "either a time or an event"),
        ("cut", {"time": "2023-99"}, 400, "bad-time", "is not a time"),
        ("cut", {"time": str(2**70)}, 400, "bad-time", "64 bits"),
        ("order", {"policy": "dapw"}, 404, "unknown-policy", "dapw"),
        ("processes", {"computation": "nope"}, 404, "event-not-found", "'one'"),
    ],
)
def test_a_question_that_cannot_be_answered_says_why(
    path: str,
    parameters: dict[str, Any],
    status: int,
    reason: str,
    told: str,
    made: tuple[Path, list[Made]],
    get: Get,
) -> None:
    """The asker would not know whether to ask differently or to ask again."""
    one, two = ({event.key for event in made[1] if event.computation == name} for name in ("one", "two"))
    parameters = {name: min(one & two) if value == "{shared}" else value for name, value in parameters.items()}
    answered = get(f"/v1/history/{path}", **parameters)
    assert (answered.status_code, answered.json()["reason"]) == (status, reason), answered.text
    assert told in answered.json()["message"]


def test_a_history_that_is_not_there_or_was_replaced(tmp_path: Path) -> None:
    """Every commit of the stream replaces the history: a question under way must be asked of the new one, not fail."""
    folder = tmp_path / "secret-place" / "h"
    get = asking(application(Newest(folder)))
    answered = get("/v1/history/check")
    assert (answered.status_code, answered.json()["reason"]) == (503, "no-history")
    assert "secret-place" not in answered.text
    assert answered.headers["Retry-After"]
    write_history(folder, [(draw(Random(1), "", 3, 20), [])], [])
    stale = History(folder)
    events = write_history(folder, [(draw(Random(2), "", 3, 30), [])], [])

    opened = [History(folder), stale]

    class Replaced:
        def current(self) -> History:
            return opened.pop()

    answered = asking(application(Replaced()))("/v1/history/why", event="@11", k=1_000)
    assert answered.status_code == 200
    assert answered.json()["event"]["id"] == events[11].key
    assert not opened
    for file in folder.rglob("events-*.parquet"):
        file.unlink()
    answered = asking(application(Newest(folder)))("/v1/history/why", event="@1")
    assert (answered.status_code, answered.json()["reason"]) == (503, "unreadable")
    assert "secret-place" not in answered.text


def test_more_questions_than_are_worked_on_are_refused_at_once(made: tuple[Path, list[Made]]) -> None:
    """Questions that pile up would take the collector down with them; and one that hangs must not hold its asker."""
    going_on, asked = threading.Event(), threading.Semaphore(0)

    class Slow:
        def current(self) -> History:
            asked.release()
            assert going_on.wait(60)
            raise NoHistory("never")

    app = application(Slow(), limits=QuestionLimits(at_once=2, question_s=0.5))

    async def ask() -> list[httpx.Response]:
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://ledto") as client:
            held = [asyncio.create_task(client.get("/v1/history/check")) for _ in range(2)]
            for _ in held:
                await asyncio.to_thread(asked.acquire, timeout=60)
            third = await client.get("/v1/history/check")
            late = [await each for each in held]
            fourth = await client.get("/v1/history/check")
            going_on.set()
            while (last := await client.get("/v1/history/check")).json()["reason"] == "busy":
                await asyncio.sleep(0.01)
            return [third, *late, fourth, last]

    third, *late, fourth, last = asyncio.run(ask())
    assert [each.json()["reason"] for each in (third, *late, fourth, last)] == [
        *("busy", "too-long", "too-long", "busy", "no-history")
    ]
    assert {each.status_code for each in (third, *late, fourth, last)} == {503}


def test_a_reader_is_asked_who_it_is(made: tuple[Path, list[Made]]) -> None:
    """Answers would go to anybody."""

    class Closed:
        def reader(self) -> None:
            raise RequestRefused(401, "no-token", "this needs a token")

    get = asking(application(Newest(made[0]), access=Closed()))
    for question, _, parameters, _ in QUESTIONS:
        assert get(f"/v1/history/{question}", **parameters).status_code == 401
    assert get("/v1/history/check").headers["WWW-Authenticate"] == "Bearer"


names = st.one_of(
    st.sampled_from(
        ["@3", "p0:1", "p1:2", "", "@", "@-1", "p0:" + "9" * 30, "@" + "9" * 400, "p0:٣", "2023-11-14", "-5"]
    ),
    st.text(max_size=12),
)
numbers = st.one_of(st.integers(), st.text(max_size=3))
conditions = st.one_of(
    st.sampled_from(
        [
            *(
                "status > 3",
                "true",
                "status",
                "name ~ '('",
                "1",
                "NOT " * 400 + "true",
                "(" * 900,
                "seq * 9223372036854775807 > 1",
            ),
            *(
                "CAST(name AS INTEGER) = 1",
                "\0",
                "status = 1 ORDER BY 1",
                "a.b.c.d = 1",
                "''",
                "--",
                "/*",
                "name = 'x",
                "$1 = 1",
            ),
        ]
    ),
    st.text(max_size=20),
)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    question=st.sampled_from(sorted({each[0] for each in QUESTIONS} | {"order"})),
    parameters=st.fixed_dictionaries(
        {},
        optional={
            **dict.fromkeys(
                ("event", "first", "second", "computation", "time", "name", "process", "policy", "outcome", "text"),
                names,
            ),
            **dict.fromkeys(("k", "skip", "limit", "last", "since", "until", "errors"), numbers),
            "where": conditions,
        },
    ),
)
def test_nothing_that_is_asked_breaks_the_service(question: str, parameters: dict[str, Any], get: Get) -> None:
    """A parameter that ends in a fault of the service is a way to fill its log, and may be a way in."""
    answered = get(f"/v1/history/{question}", **parameters)
    assert answered.status_code in (200, 400, 404, 409, 422), answered.text
    if answered.status_code != 200:
        assert set(answered.json()) == {"reason", "message"}


@pytest.mark.parametrize(
    "condition",
    [
        *(
            "random() > 0.5",
            "now() > at",
            "repeat('a', 9) = ''",
            "count(*) > 1",
            "row_number() OVER () > 1",
            "COLUMNS(*) = 1",
        ),
        *(
            "list_transform([1], x -> x) = []",
            "name LIKE id",
            "name ~ id",
            "name LIKE '" + "%a" * 9 + "'",
            "name::JSON = 1",
        ),
        *(
            "current_setting('home_directory') = ''",
            "getvariable('x') = 1",
            "EXISTS (FROM x)",
            "x" * 2_001 + " = 1",
            "$1 = 1",
        ),
    ],
)
def test_conditions_that_cost_much_or_change_their_mind_are_refused(condition: str) -> None:
    """One subscriber could take the memory of all, or be told another thing than the next."""
    with pytest.raises(BadCondition):
        ConditionLimits().check(condition)


@pytest.mark.parametrize("group_bytes", [0, 1 << 40], ids=["read by and by", "read at once"])
def test_answers_of_long_events_are_cut_and_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, group_bytes: int
) -> None:
    """Four questions about large events would take all memory, and the collector with them."""
    monkeypatch.setattr(answer_bounds, "LARGE_GROUP_BYTES", group_bytes)
    monkeypatch.setattr("ledto.history.run.LARGE_GROUP_BYTES", group_bytes)
    monkeypatch.setattr("ledto.history.run.SEARCHED_AT_ONCE", 7)
    monkeypatch.setattr(answer_bounds, "READ_AT_ONCE", 7)
    events = draw(Random(2), "one", 3, 40)
    for number, event in enumerate(events):
        event.attributes = {"n": number, "short": "s", "text": "ä" * 20_000 if number % 2 else "t", "last": number}
    folder = tmp_path / "h"
    write_history(folder, [(events, [])], [])
    last = f"@{len(events) - 1}"
    whole = asking(application(Newest(folder)))("/v1/history/why", event=last, k=1_000).json()
    assert whole == json.loads(json.dumps(History(folder).why(last, k=1_000).to_json()))
    budget = 100_000
    answered = asking(application(Newest(folder), limits=QuestionLimits(answer_bytes=budget)))
    for path, listed, parameters in (
        ("why", "causes", {"event": last, "k": 1_000}),
        ("impact", "effects", {"event": "@0", "k": 1_000}),
        ("concurrent", "events", {"event": "@20", "k": 1_000}),
        ("find", "events", {"text": "s", "last": 1_000}),
        ("cut", "last_events", {"event": last}),
    ):
        answer = answered(f"/v1/history/{path}", **parameters)
        document = answer.json()
        assert answer.status_code == 200, answer.text
        # Six characters say one that is not ASCII; what surrounds texts is small.
        assert len(answer.text) < 3 * budget + 40 * 1_000
        shown = [each["attributes"] for each in document[listed]]
        cut = [each for each in shown if "…" in str(each)]
        assert int(answer.headers.get("Ledto-Truncated", 0)) == document.get("truncated", 0) >= len(cut)
    document = answered("/v1/history/why", event=last, k=1_000).json()
    assert document["truncated"] > 0
    for cut, full in zip(document["causes"], whole["causes"], strict=True):
        if full["attributes"]["text"] == "t":
            assert cut == full
        else:
            assert cut["id"] == full["id"]
            assert cut["attributes"]["text"].startswith("ää")
            assert cut["attributes"]["text"].endswith("more characters)")
            assert cut["attributes"]["ledto.truncated"] == "1 attributes left out"
    lines: list[Any] = []
    while page := answered("/v1/history/order", skip=len(lines), limit=1_000).text.splitlines():
        lines += map(json.loads, page)
    assert [line["position"] for line in lines] == list(range(len(events)))


def waiting_history(folder: Path, answers: int, text: str) -> History:
    """A request of `web` that waits for many answers of `pay`, each of which has a long text."""
    rows: list[dict[str, Any]] = []
    for at in range(1, answers + 1):
        key, common = f"{ANSWER}{at}", {"seq": at, "text": text}
        rows.append({**common, "process": "pay", "time": START + 1_000 * at, "line": f"call {at}", "sends": key})
        rows.append({**common, "process": "web", "time": START + 1_000 * at + 9, "line": "own", "receives": key})
    log = folder / "log.jsonl"
    log.write_text("".join(json.dumps(each) + "\n" for each in rows))
    return ledto.observe(log, folder / "h")


def test_possible_causes_are_within_the_bounds_of_an_answer(tmp_path: Path) -> None:
    """Each is read with the way it may have acted: a hundred of them would take a hundred times what an answer may have."""
    history = waiting_history(tmp_path, 60, "t" * 20_000)
    budget = 100_000
    get = asking(application(Newest(tmp_path / "h"), limits=QuestionLimits(answer_bytes=budget)))
    found = get("/v1/history/why", event="web:60", k=1, possible=60)
    assert [each["id"] for each in found.json()["causes"]] == ["web:59"]
    assert {each["event"]["process"] for each in found.json()["possible"]} == {"pay"}
    assert len(found.json()["possible"]) == 60
    assert found.json()["truncated"] > 0
    # Each read after the first has a small part; what surrounds texts is small.
    assert len(found.text) < 5 * budget
    assert get("/v1/history/why", event="web:60", possible=101).status_code == 422
    answers.WhyDocument.model_validate(found.json())
    told = get("/v1/history/relation", first="pay:5", second="web:60").json()
    assert (told["relation"], told["direction"], told["through"]["kind"]) == ("possible", "before", "answer")
    answers.RelationDocument.model_validate(told)
    answered = get("/v1/history/relation", first="pay:5", second="web:60", answered=True).json()
    assert answered["relation"] == history.relation("pay:5", "web:60", answered=True) == "before"
    assert len(get("/v1/history/why", event="web:60", k=200, answered=True).json()["causes"]) == 2 * 60 - 1


@given(st.lists(st.integers(0, 50), min_size=1, max_size=12), st.integers(0, 300))
def test_texts_are_cut_at_one_length_as_late_as_can_be(sizes: list[int], budget: int) -> None:
    """Short events would lose text to long ones, or the answer would be larger than it may be."""
    level = fair_level(np.array(sizes, np.int64), budget)
    assert sum(min(each, level) for each in sizes) <= budget
    if level < max(sizes):
        assert sum(min(each, level + 1) for each in sizes) > budget


def test_answers_that_nobody_takes_keep_further_questions_out(made: tuple[Path, list[Made]]) -> None:
    """Readers that ask and never read would fill the memory with answers."""
    app = application(Newest(made[0]), limits=QuestionLimits(bytes_held=1))

    async def run() -> list[int]:
        taking, sending = asyncio.Event(), asyncio.Event()

        async def receive() -> Any:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Any) -> None:
            sending.set()
            await taking.wait()

        scope = {"type": "http", "method": "GET", "path": "/v1/history/check", "query_string": b"", "headers": []}
        held = asyncio.create_task(app(scope, receive, send))
        await sending.wait()
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://ledto") as client:
            refused = await client.get("/v1/history/check")
            taking.set()
            await held
            return [refused.status_code, (await client.get("/v1/history/check")).status_code]

    assert asyncio.run(run()) == [503, 200]
