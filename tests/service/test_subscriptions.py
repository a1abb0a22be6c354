"""Subscriptions as a subscriber sees them: what is told, in which order, and after which interruption."""

from __future__ import annotations

import asyncio
import http.client
import json
import stat
import threading
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pyarrow as pa
import pytest
from fastapi import FastAPI, Request
from hypothesis import given, settings
from hypothesis import strategies as st

from ledto.service.http.limits import RequestRefused
from ledto.service.http.sse import EventStream
from ledto.service.subscriptions import documents as subscribing_documents
from ledto.service.subscriptions import notifications as subscribing_steps
from ledto.service.subscriptions.match import PIECE_BYTES, PIECE_ROWS, Matchers, cut_into_pieces
from ledto.service.subscriptions.notifications import NotificationPage, Notifier
from ledto.service.subscriptions.routes import subscriptions_router
from ledto.service.subscriptions.service import Subscriptions
from ledto.service.subscriptions.store import Subscription, SubscriptionStore, Webhook
from tests.history.building import Made
from tests.service.subscriptions_stage import QUICK, Client, Receiver, StagedLive, drawn, serving, until


def failing(event: Made) -> bool:
    return int((event.attributes or {}).get("status", 0)) >= 5  # type: ignore[call-overload]


def everything(teller: Notifier, subscription: Subscription, after: int) -> list[Any]:
    """All that a subscriber is told after a number."""
    told: list[Any] = []
    step = NotificationPage((), after, at_end=False)
    while not step.at_end:
        step = teller.read_page(subscription, step.upto)
        told += step.notifications
    return told


@settings(max_examples=15)
@given(
    seed=st.integers(0, 2**32), events=st.integers(1, 40), gaps=st.booleans(), ids=st.booleans(), k=st.integers(0, 30)
)
def test_what_is_told_is_what_led_to_it(
    tmp_path_factory: pytest.TempPathFactory, seed: int, events: int, gaps: bool, ids: bool, k: int
) -> None:
    """A subscriber woken at night would look at the wrong events, or take an answer with holes for the whole truth."""
    live = StagedLive(tmp_path_factory.mktemp("told"), drawn(seed, events, gaps=gaps, ids=ids))
    live.commit(events)
    subscription = Subscription("0" * 24, "status >= 5", k, "shop", 0, 0)
    teller = Notifier(live, Matchers())
    expected = live.numbers(failing)
    for after in (0, events // 2, events):
        told = everything(teller, subscription, after)
        assert [each.number for each in told] == [number for number in expected if number > after]
        for each in told:
            event = live.events[each.number - 1]
            past = sorted((it for it in live.events if it.happened_before(event)), key=lambda it: it.position)
            listed = past[max(0, len(past) - k) :]
            document = each.document
            subscribing_documents.AnswerDocument.model_validate(document)
            assert document["event"]["id"] == (event.id or event.key)
            assert [it["position"] for it in document["causes"]] == [it.position for it in listed]
            assert document["more"] == (len(past) > k)
            lost = 0
            for process in {it.process for it in (*listed, event)}:
                seqs = [it.seq for it in (*listed, event) if it.process == process]
                lost += seqs[-1] - seqs[0] + 1 - len(seqs)
            assert sum(gap["events"] for gap in document["missing"]) == lost
            assert document["complete"] == (lost == 0)
            assert (document["at"], document["waited"], document["late"]) == (
                *(each.number * 10 + 5, 5),
                each.number % 7 == 0,
            )


def test_a_stream_resumed_anywhere_gives_exactly_the_rest(tmp_path: Path) -> None:
    """A subscriber that lost its connection would miss the one failure that matters, or be woken twice for another."""
    live = StagedLive(tmp_path, drawn(5, 82))
    with serving(live, tmp_path / "subscriptions") as client:
        made = client.subscribe(where="status >= 5", k=3, **{"from": "start"})
        seen: list[list[dict[str, Any]]] = []
        expected = live.numbers(failing)
        readers = [
            threading.Thread(target=lambda: seen.append(client.answers(made["events_url"], len(expected))))
            for _ in range(3)
        ]
        for reader in readers:
            reader.start()
        for upto in (1, 20, 21, 60, 82):
            live.commit(upto)
        for reader in readers:
            reader.join(60)
        assert [[each["number"] for each in told] for told in seen] == [expected] * 3
        whole = client.answers(made["events_url"], len(expected))
        assert [each["number"] for each in whole] == expected
        for after in range(83):
            rest = [each for each in whole if each["number"] > after]
            assert client.answers(made["events_url"], len(rest), after=after) == rest
        with client.events(made["events_url"], after=expected[-1]) as stream:
            # Nothing else: the next that comes says where to resume, or only that the connection lives.
            later = [next(stream) for _ in range(3)]
        assert all("data" not in frame for frame in later)
        assert later[1]["id"] == "82"
        assert client.ask("GET", f"{made['events_url']}?after=83")[0] == 400


def test_no_event_is_told_before_the_history_has_it(tmp_path: Path) -> None:
    """The answer would have no causes, and the subscriber would think that nothing led to the failure."""
    live = StagedLive(tmp_path, drawn(5, 60))
    first, second, *_ = live.numbers(failing)
    teller = Notifier(live, Matchers())
    subscription = Subscription("0" * 24, "status >= 5", 5, None, 0, 0)
    assert teller.read_page(subscription, 0) == NotificationPage((), 0, at_end=True)
    live.commit(second - 1, logged=60)
    step = teller.read_page(subscription, 0)
    assert ([each.number for each in step.notifications], step.upto, step.at_end) == ([first], second - 1, True)
    assert teller.read_page(subscription, step.upto) == NotificationPage((), second - 1, at_end=True)
    other = Notifier(live, Matchers())
    assert not other.read_page(subscription, step.upto).notifications
    live.commit(60)
    rest = everything(teller, subscription, step.upto)
    assert [each.number for each in rest] == live.numbers(failing, after=first)
    assert {each.kind for each in rest} == {"answer"}


def test_an_event_that_was_quarantined_after_its_delivery_holds_up_no_other(tmp_path: Path) -> None:
    """One contradicted report would silence a subscription for ever."""
    live = StagedLive(tmp_path, drawn(5, 60))
    numbers = live.numbers(failing)
    teller = Notifier(live, Matchers())
    subscription = Subscription("0" * 24, "status >= 5", 5, None, 0, 0)
    for _ in range(2):
        live.commit(numbers[-1] - 1, logged=60)
        assert [each.number for each in everything(teller, subscription, numbers[-2])] == []
    live.commit(numbers[-1] - 1, logged=60)
    (told,) = everything(teller, subscription, numbers[-2])
    assert (told.number, told.kind) == (numbers[-1], "unplaced")
    subscribing_documents.UnplacedDocument.model_validate(told.document)
    assert told.document["process"] == live.events[numbers[-1] - 1].process


def test_names_that_mean_another_event_mislead_nobody(tmp_path: Path) -> None:
    """Ids are the senders': one that looks like a position, or another event's name, would bring the wrong causes."""
    live = StagedLive(tmp_path, drawn(5, 40))
    timed = [number for number, event in enumerate(live.events, start=1) if event.time is not None]
    strange = {timed[3]: "@0", timed[8]: live.events[timed[5] - 1].key, timed[12]: "@999999", timed[15]: f"@{'9' * 30}"}
    for number, name in strange.items():
        live.events[number - 1].id = name
    live.commit(40)
    teller = Notifier(live, Matchers())
    told = everything(teller, Subscription("0" * 24, "true", 0, None, 0, 0), 0)
    assert {each.kind for each in told} == {"answer"}
    for number in (*strange, timed[5]):
        assert told[number - 1].document["event"]["position"] == live.events[number - 1].position


def test_what_was_removed_from_the_log_is_said(tmp_path: Path) -> None:
    """A subscriber that was away for too long would take silence for health."""
    live = StagedLive(tmp_path, drawn(5, 60))
    live.commit(60)
    live.first = 31
    with serving(live, tmp_path / "subscriptions") as client:
        made = client.subscribe(where="true", k=0, **{"from": 10})
        trimmed, *rest = client.answers(made["events_url"], 31, after=12)
        subscribing_documents.TrimmedDocument.model_validate(trimmed)
        assert (trimmed["after"], trimmed["first"], trimmed["removed"]) == (12, 31, 18)
        assert [each["number"] for each in rest] == list(range(31, 61))
        with client.events(made["events_url"], after=12) as stream:
            frame = next(each for each in stream if "data" in each)
        assert (frame["event"], frame["id"]) == ("trimmed", "30")


def test_subscriptions_outlive_the_service_and_tell_no_secrets(tmp_path: Path) -> None:
    """A restart would end all subscriptions unnoticed; a secret that is shown is none."""
    live = StagedLive(tmp_path, drawn(5, 60))
    live.commit(20)
    folder = tmp_path / "subscriptions"
    with serving(live, folder) as client:
        kept = client.subscribe(where="status >= 5", k=2, computation="shop")
        url = "http://127.0.0.1:9/hook/token-in-path"
        given_secret = client.subscribe(where="late", webhook={"url": url, "secret": "sixteen characters"})
        made_secret = client.subscribe(where="late", webhook={"url": url})
        gone = client.subscribe(where="true")
        assert client.ask("DELETE", f"/v1/subscriptions/{gone['id']}") == (204, None)
        assert client.ask("GET", f"/v1/subscriptions/{gone['id']}")[0] == 404
        assert "secret" not in given_secret
        secret = made_secret["secret"]
        assert len(secret) >= 32
        subscribing_documents.CreatedDocument.model_validate(made_secret)
    for file in folder.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    (folder / ("f" * 24 + ".json")).write_text("{broken")
    (folder / ("e" * 24 + ".json.new")).write_text("{unfinished")
    with serving(live, folder) as client:
        status, listed = client.ask("GET", "/v1/subscriptions")
        assert (status, [each["id"] for each in listed]) == (200, [kept["id"], given_secret["id"], made_secret["id"]])
        for each in listed:
            subscribing_documents.SubscriptionDocument.model_validate(each)
            assert client.ask("GET", f"/v1/subscriptions/{each['id']}")[1]["id"] == each["id"]
        assert listed[0] == kept
        assert kept["from"] == 20
        for hidden in (secret, "sixteen characters", "token-in-path"):
            assert hidden not in json.dumps(listed)
        live.commit(60)
        expected = live.numbers(failing, after=20)
        assert [each["number"] for each in client.answers(kept["events_url"], len(expected))] == expected
    store = SubscriptionStore(folder, most=3)
    with pytest.raises(RequestRefused):
        store.add(Subscription("a" * 24, "true", 1, None, 0, 0))


SLOW = " OR ".join(f"name ~ '[ab]*a[ab]{{{100 + each}}}c'" for each in range(20))
"""Takes half a minute for each megabyte of letters a and b."""


def test_a_condition_that_takes_too_long_suspends_its_subscription_alone(tmp_path: Path) -> None:
    """One subscriber's condition would stop all subscriptions; or it would be silent, and its owner would wait for ever."""
    live = StagedLive(tmp_path, drawn(5, 60))
    live.events[30].name = "".join(Random(1).choices("ab", k=6_000))
    folder = tmp_path / "subscriptions"
    quick_tempered = replace(QUICK, evaluation_s=0.15)
    receiver = Receiver(lambda _: None)
    try:
        slow = Subscription("a" * 24, SLOW, 3, None, 0, 1)
        hooked = Subscription("b" * 24, SLOW, 3, None, 0, 2, webhook=Webhook(receiver.url, "sixteen characters"))
        kept = SubscriptionStore(folder)
        kept.add(slow)
        kept.add(hooked)
        with serving(live, folder, limits=quick_tempered) as client:
            with client.events(f"/v1/subscriptions/{slow.id}/events") as stream:
                live.commit(60)
                told = next(json.loads(each["data"]) for each in stream if "data" in each)
                subscribing_documents.SuspendedDocument.model_validate(told)
                assert "make it simpler" in told["reason"]
                assert [*stream] == []
            for each in (slow, hooked):
                shown = until(lambda each=each: _suspended(client, each.id))
                assert "make it simpler" in shown["error"]
                subscribing_documents.SubscriptionDocument.model_validate(shown)
            assert shown["webhook"]["state"] == "suspended"
            status, refused = client.ask("GET", f"/v1/subscriptions/{slow.id}/events")
            assert (status, refused["reason"]) == (409, "suspended")
            other = client.subscribe(where="status >= 5", **{"from": "start"})
            expected = live.numbers(failing)
            assert [each["number"] for each in client.answers(other["events_url"], len(expected))] == expected
        with serving(live, folder, limits=replace(QUICK, evaluation_s=1_000.0)) as client:
            # It is kept over a restart; and with enough time it goes on where it stopped, and loses nothing.
            assert _suspended(client, hooked.id)
            for each in (slow, hooked):
                status, document = client.ask("POST", f"/v1/subscriptions/{each.id}/resume")
                assert (status, document["state"], document["error"]) == (200, "active", None)
            with client.events(f"/v1/subscriptions/{slow.id}/events") as stream:
                ids = (int(each["id"]) for each in stream if "id" in each)
                assert next(ids) == 60
    finally:
        receiver.close()


def _suspended(client: Client, name: str) -> dict[str, Any] | None:
    document: dict[str, Any] = client.ask("GET", f"/v1/subscriptions/{name}")[1]
    return document if document["state"] == "suspended" else None


def test_no_piece_that_cannot_be_interrupted_is_large() -> None:
    """DuckDB looks up only between pieces: one of megabytes would keep its thread for minutes."""
    texts = ["x" * length for length in (10, 70_000, 0, 3, 65_000, 600, 100)] + ["y"] * 5_000
    rows = pa.table({"name": texts, "seq": range(len(texts))})
    pieces = [*cut_into_pieces(rows)]
    assert pa.concat_tables(pieces).to_pylist() == rows.to_pylist()
    for piece in pieces:
        assert len(piece) == 1 or sum(map(len, piece["name"].to_pylist())) <= PIECE_BYTES
        assert len(piece) <= PIECE_ROWS
    assert len(pieces) < 10


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"where": SLOW}, 400),
        ({"where": "random() > 0.5"}, 400),
        ({"where": "nonsense ("}, 400),
        ({"where": "name ~ '('"}, 400),
        ({"where": "flag"}, 201),
        ({"where": "name"}, 400),
        ({"where": "seq"}, 400),
        ({"where": ""}, 422),
        ({}, 422),
        ({"where": "true", "k": 1_001}, 422),
        ({"where": "true", "k": "\ud800"}, 422),
        ({"where": "\ud800"}, 422),
        ({"where": "true", "from": -1}, 422),
        ({"where": "true", "from": 21}, 400),
        ({"where": "true", "from": "yesterday"}, 422),
        ({"where": "true", "wher": 1}, 422),
        ({"where": "true", "webhook": {"url": "http://example.com/"}}, 400),
        ({"where": "true", "webhook": {"url": "http://127.0.0.1/", "secret": "short"}}, 422),
        (b"{", 422),
        (b"[" * 60_000, 400),
        (b"\xff", 400),
        (b'{"where": NaN}', 422),
        (b'{"where": "' + b"x" * 70_000 + b'"}', 413),
    ],
    ids=lambda each: str(each)[:40],
)
def test_what_cannot_be_subscribed_to_is_refused(body: Any, status: int, stage: Client) -> None:
    """A subscription that never matches, or costs everybody's memory, is found out when it is made."""
    answered, document = stage.ask("POST", "/v1/subscriptions", body)
    assert answered == status, document
    if status != 201:
        assert set(document) == {"reason", "message"}


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("refusals")
    live = StagedLive(folder, drawn(5, 20))
    live.commit(20)
    with serving(live, folder / "subscriptions") as client:
        yield client


def test_streams_end_with_their_subscription_and_are_not_without_number(tmp_path: Path) -> None:
    """Streams that nobody ends would hold the service up when it stops; streams without limit would use it up."""
    live = StagedLive(tmp_path, drawn(5, 20))
    live.commit(20)
    limits = type(QUICK)(poll_s=0.005, keep_alive_s=0.05, streams=1)
    with serving(live, tmp_path / "subscriptions", limits=limits) as client:
        made = client.subscribe(where="true")
        with client.events(made["events_url"]) as stream:
            next(stream)
            assert client.ask("GET", made["events_url"])[0] == 503
            client.ask("DELETE", f"/v1/subscriptions/{made['id']}")
            for _ in stream:
                pass
        again = client.subscribe(where="true")
        with client.events(again["events_url"]) as stream:
            next(stream)
        # The first has left: its place is free once the service has noticed.
        until(lambda: _opens(client, again["events_url"]))


def _opens(client: Client, url: str) -> bool:
    try:
        with client.events(url):
            return True
    except AssertionError:
        return False


def test_a_client_that_does_not_read_is_let_go() -> None:
    """Clients that hang would hold memory for ever."""
    asked = 0
    closed = asyncio.Event()

    async def frames() -> AsyncIterator[bytes]:
        nonlocal asked
        try:
            while True:
                asked += 1
                yield b"data: x\n\n"
        finally:
            closed.set()

    async def send(message: Any) -> None:
        if message["type"] == "http.response.body":
            await asyncio.Event().wait()

    async def receive() -> Any:
        await asyncio.Event().wait()

    async def leaving() -> Any:
        return {"type": "http.disconnect"}

    async def run() -> None:
        await EventStream(frames(), stall_s=0.01)({"type": "http"}, receive, send)
        await asyncio.wait_for(closed.wait(), 60)
        assert asked == 1
        closed.clear()
        await EventStream(frames(), stall_s=1_000)({"type": "http"}, leaving, send)

    asyncio.run(run())


@pytest.mark.parametrize("number", ["x", "-1", "1.5", "9" * 30, "٣", "21"])
def test_a_number_that_is_none_is_refused(number: str, stage: Client) -> None:
    """A client whose number is not understood would silently get all again, or wait for what never comes."""
    url = stage.subscribe(where="true")["events_url"]
    connection = http.client.HTTPConnection("127.0.0.1", stage.port, timeout=60)
    connection.request("GET", url, headers={"Last-Event-ID": number.encode()})
    assert connection.getresponse().status == 400
    connection.close()
    for name in ("..%2f..%2fetc", "%00", "f" * 24, "x" * 65):
        assert stage.ask("GET", f"/v1/subscriptions/{name}/events")[0] in (404, 422)
        assert stage.ask("DELETE", f"/v1/subscriptions/{name}")[0] in (404, 422)


def test_openapi_describes_subscriptions(stage: Client) -> None:
    """A client that is made from the description would not know what it gets."""
    described = stage.ask("GET", "/openapi.json")[1]
    paths, schemas = described["paths"], described["components"]["schemas"]
    assert {"NewSubscription", "AnswerDocument", "TrimmedDocument", "CreatedDocument", "Problem"} <= set(schemas)
    assert set(schemas["NewSubscription"]["properties"]) == {"where", "k", "computation", "webhook", "from"}
    for path, operations in paths.items():
        for operation in operations.values():
            assert operation["summary"]
            assert operation["description"], path
    events = paths["/v1/subscriptions/{id}/events"]["get"]
    assert "text/event-stream" in events["responses"]["200"]["content"]
    assert "Last-Event-ID".lower() in [each["name"].lower() for each in events["parameters"]]


def test_what_is_told_of_large_events_is_cut_and_comes_in_small_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A few slow clients of large events would hold all memory."""
    monkeypatch.setattr(subscribing_steps, "ANSWER_BYTES", 20_000)
    monkeypatch.setattr(subscribing_steps, "STEP_BYTES", 50_000)
    monkeypatch.setattr(subscribing_steps, "READ_BYTES", 100_000)
    live = StagedLive(tmp_path, drawn(5, 40))
    for event in live.events:
        event.attributes = {"text": "t" * 10_000}
    live.commit(40)
    asked: list[int] = []
    whole = live.deliveries
    monkeypatch.setattr(live, "deliveries", lambda after, limit: asked.append(limit) or whole(after, limit))
    teller = Notifier(live, Matchers())
    subscription = Subscription("0" * 24, "true", 30, None, 0, 0)
    step, told = NotificationPage((), 0, at_end=False), []
    while not step.at_end:
        step = teller.read_page(subscription, step.upto)
        assert sum(len(each.text) for each in step.notifications) < 50_000 + 45_000
        told += step.notifications
    assert [each.number for each in told] == list(range(1, 41))
    assert max(len(each.text) for each in told) < 45_000
    assert max(asked[1:]) <= 10
    assert told[-1].document["truncated"] > 0
    subscribing_documents.AnswerDocument.model_validate(told[-1].document)


def test_one_reader_leaves_room_for_others(tmp_path: Path) -> None:
    """Whoever has one token could take all subscriptions and all streams from the others."""

    class Named:
        def reader(self, request: Request) -> str:
            return request.headers.get("authorization", "nobody")

    live = StagedLive(tmp_path, drawn(5, 20))
    live.commit(20)
    limits = replace(QUICK, subscriptions=4, subscriptions_of_one=2, streams=3, streams_of_one=1)
    subscriptions = Subscriptions(live, tmp_path / "subscriptions", limits=limits)
    app = FastAPI()
    app.include_router(subscriptions_router(subscriptions, Named()))

    async def run() -> None:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://ledto") as client:

            async def subscribe(name: str) -> httpx.Response:
                return await client.post("/v1/subscriptions", json={"where": "true"}, headers={"Authorization": name})

            made = [(await subscribe(name)).status_code for name in ("a", "a", "a", "b", "b", "c")]
            assert made == [201, 201, 409, 201, 201, 409]
        found = subscriptions.find((await subscriptions.documents())[0]["id"])
        opened = await subscriptions.stream(found, None, "a")
        await anext(opened)
        with pytest.raises(RequestRefused, match="too many streams"):
            await subscriptions.stream(found, None, "a")
        other = await subscriptions.stream(found, None, "b")
        await anext(other)

    asyncio.run(run())


def test_an_attribute_that_no_event_has_had_is_warned_of_until_one_comes(tmp_path: Path) -> None:
    """A misspelt name would be waited for in silence; one that comes later must still be let through."""
    events = drawn(3, 20)
    for number, event in enumerate(events):
        event.attributes = {"status": 7} if number < 10 else {"status": 7, "region": "eu"}
    live = StagedLive(tmp_path, events)
    with serving(live, tmp_path / "subscriptions") as client:
        early = client.subscribe(where="statsu >= 5")
        assert early["warning"] is None, "nothing is known yet"
        live.commit(10)
        made = {
            where: client.subscribe(where=where) for where in ("statsu >= 5", "status >= 5", "error", "region = 'eu'")
        }
        said = {where: document["warning"] for where, document in made.items()}
        assert said["statsu >= 5"].startswith("no event so far has an attribute 'statsu' (there is 'status')")
        assert said["status >= 5"] is said["error"] is None
        assert "'region'" in said["region = 'eu'"]
        assert client.ask("GET", f"/v1/subscriptions/{early['id']}")[1]["warning"] == said["statsu >= 5"]
        live.commit(20)
        later = {each["where"]: each["warning"] for each in client.ask("GET", "/v1/subscriptions")[1]}
        assert later["region = 'eu'"] is None
        assert later["statsu >= 5"] is not None


def test_a_subscription_keeps_its_meaning_when_attributes_get_other_types(tmp_path: Path) -> None:
    """The one odd value that makes a column text must not make 40 come before 5 for whoever is subscribed."""
    events = drawn(3, 20)
    for number, event in enumerate(events):
        status: Any = number if number < 10 else (str(number), "unknown", number + 0.5, True)[number % 4]
        event.attributes = {"http": {"status": status}} if number % 2 else {"http.status": status, "order": number}
    live = StagedLive(tmp_path, events)
    live.commit(10)
    with serving(live, tmp_path / "subscriptions") as client:
        made = client.subscribe(where="http.status >= 5 AND http.status < 17", **{"from": "start"})
        ordered = client.subscribe(where="order = 4 OR order >= 14", **{"from": "start"})
        assert made["warning"] is ordered["warning"] is None
        assert live.current().run.manifest.attributes["http.status"] == "integer"
        live.commit(20)
        assert live.current().run.manifest.attributes["http.status"] == "text"
        expected = [number + 1 for number in (5, 6, 7, 8, 9, 10, 12, 14, 16)]
        found = client.answers(made["events_url"], len(expected))
        assert [each["number"] for each in found] == expected
        found = client.answers(ordered["events_url"], 4)
        assert [each["number"] for each in found] == [5, 15, 17, 19]


def test_errors_can_be_subscribed_to(tmp_path: Path) -> None:
    """Whoever waits for failures need not know how each program spells them."""
    events = drawn(4, 12)
    for number, event in enumerate(events):
        event.error = (True, None, False)[number % 3]
    live = StagedLive(tmp_path, events)
    live.commit(12)
    told = everything(Notifier(live, Matchers()), Subscription("0" * 24, "error", 0, None, 0, 0), 0)
    assert [each.number for each in told] == [1, 4, 7, 10]
    assert all(each.document["event"]["error"] is True for each in told)
