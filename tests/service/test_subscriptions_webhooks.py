"""Webhooks as their receiver sees them, and where they may go."""

from __future__ import annotations

import asyncio
import json
import threading
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from ledto.service.http.limits import RequestRefused
from ledto.service.subscriptions.store import Progress
from ledto.service.webhooks.client import AllowedAddresses, NotAccepted, WebhookHosts, WebhookTarget, may_reach, send
from ledto.service.webhooks.signatures import sign_body, verify_signature
from ledto.service.webhooks.worker import NS, WebhookLimits, Webhooks
from tests.service.subscriptions_stage import QUICK, Receiver, StagedLive, drawn, serving, until

SECRET = "a secret of the test"


def failing(event: Any) -> bool:
    return int((event.attributes or {}).get("status", 0)) >= 5


def test_a_receiver_that_fails_gets_everything_in_order_across_restarts(tmp_path: Path) -> None:
    """A failure that is never told, or one told as news after a later one, is what a subscriber relies on not to happen."""
    random = Random(3)
    lock = threading.Lock()

    def fails(attempt: int) -> str | None:
        with lock:
            return random.choice((None, None, "500", "302", "404", "break", "take and break"))

    live = StagedLive(tmp_path, drawn(5, 160))
    live.commit(1)
    receiver = Receiver(fails)
    try:
        expected = live.numbers(failing)
        folder = tmp_path / "subscriptions"
        with serving(live, folder) as client:
            hook = {"url": receiver.url, "secret": SECRET}
            made = client.subscribe(where="status >= 5", k=4, webhook=hook, **{"from": "start"})
            live.commit(60)
            until(lambda: len(receiver.taken) > 5)
        stopped_after = len(receiver.attempts)
        live.commit(160)
        with serving(live, folder) as client:
            until(lambda: receiver.numbers()[-1:] == expected[-1:])
            position = until(lambda: _idle(client.ask("GET", f"/v1/subscriptions/{made['id']}")[1]))
            truth = {each["number"]: each for each in client.answers(made["events_url"], len(expected))}
        assert position == 160
        assert len(receiver.attempts) > stopped_after
        with serving(live, folder) as client:
            # All was taken: nothing is sent again, and the next that comes is the next that is sent.
            before = len(receiver.attempts)
            second = client.subscribe(where="number = 160", webhook=hook, **{"from": "start"})
            until(lambda: receiver.numbers()[-1:] == [160] and len(receiver.attempts) > before)
            sent = {headers["Ledto-Delivery"].partition("/")[0] for headers, _ in receiver.attempts[before:]}
            assert sent == {second["id"]}
    finally:
        receiver.close()
    mine = [(headers, body) for headers, body in receiver.taken if headers["Ledto-Delivery"].startswith(made["id"])]
    numbers = [int(headers["Ledto-Delivery"].rpartition("/")[2]) for headers, _ in mine]
    assert numbers == sorted(numbers)
    assert sorted(set(numbers)) == expected
    assert len(numbers) > len(expected), "the receiver never lost an acknowledgement: the test shows less than it says"
    for headers, body in receiver.attempts:
        stamp, signed = headers["Ledto-Timestamp"], headers["Ledto-Signature"]
        assert verify_signature(SECRET, body, stamp, signed)
        assert not verify_signature(SECRET, body + b" ", stamp, signed)
        assert not verify_signature(SECRET, body, str(int(stamp) + 1), signed)
        assert not verify_signature("another", body, stamp, signed)
    for headers, body in mine:
        told = json.loads(body)
        assert headers["Ledto-Delivery"] == f"{told['subscription']}/{told['number']}"
        assert [each["id"] for each in told["causes"]] == [each["id"] for each in truth[told["number"]]["causes"]]


def _idle(document: dict[str, Any]) -> int | None:
    webhook = document["webhook"]
    return webhook["position"] if (webhook["state"], webhook["position"]) == ("ok", 160) else None


def test_a_webhook_that_fails_for_too_long_is_shown_and_can_be_resumed(tmp_path: Path) -> None:
    """Nobody would notice that nothing comes any more; and once mended, what was missed must still come."""
    live = StagedLive(tmp_path, drawn(5, 60))
    live.commit(60)
    broken = threading.Event()
    broken.set()
    receiver = Receiver(lambda _: "503" if broken.is_set() else None)
    impatient = replace(QUICK, webhooks=replace(QUICK.webhooks, most_age_s=0.05, failing_after_s=0.0))
    try:
        with serving(live, tmp_path / "subscriptions", limits=impatient) as client:
            made = client.subscribe(where="true", k=0, webhook={"url": receiver.url}, **{"from": 50})
            path = f"/v1/subscriptions/{made['id']}"
            shown = until(lambda: _in_state(client.ask("GET", path)[1], "suspended"))
            assert (shown["position"], shown["error"]) == (50, "answered 503")
            assert shown["attempts"] > 1
        with serving(live, tmp_path / "subscriptions", limits=impatient) as client:
            assert _in_state(client.ask("GET", path)[1], "suspended")
            tried = len(receiver.attempts)
            broken.clear()
            assert client.ask("POST", f"{path}/resume")[0] == 200
            until(lambda: receiver.numbers() == list(range(51, 61)))
            assert len(receiver.attempts) == tried + 10
            assert until(lambda: _in_state(client.ask("GET", path)[1], "ok"))["error"] is None
        with serving(live, tmp_path / "subscriptions", webhook_hosts=WebhookHosts()) as client:
            shown = until(lambda: _in_state(client.ask("GET", path)[1], "suspended"))
            assert shown["error"] == "host not allowed"
    finally:
        receiver.close()


def test_a_clock_that_is_set_neither_ends_nor_delays_a_webhook() -> None:
    """A step of the host's clock by a week would suspend every webhook that fails once, or keep it retrying for ever."""
    limits = WebhookLimits(most_age_s=100.0, failing_after_s=10.0)
    week, second = 7 * 86_400 * NS, NS
    wall, passed = 1_700_000_000 * NS, 0
    hooks = Webhooks(
        *(None, None, None, None),  # type: ignore[arg-type]
        limits=limits,
        random=Random(1),
        now_ns=lambda: wall,
        elapsed_ns=lambda: passed,
    )
    progress = Progress(5)
    for step, state in ((0, "retrying"), (week, "retrying"), (-3 * week, "retrying"), (0, "failing")):
        wall, passed = wall + step, passed + 4 * second
        progress = hooks._after_failure("one", "answered 500")(progress)
        assert limits.state(progress) == state
    for _ in range(22):
        passed += 4 * second
        progress = hooks._after_failure("one", "answered 500")(progress)
    assert not progress.suspended
    passed += 4 * second
    assert hooks._after_failure("one", "answered 500")(progress).suspended
    # The next run of the service, hours later, counts on from there.
    again = Webhooks(
        *(None, None, None, None),  # type: ignore[arg-type]
        limits=limits,
        random=Random(1),
        now_ns=lambda: 0,
        elapsed_ns=lambda: 9 * week,
    )
    assert not again._after_failure("one", "answered 500")(progress).suspended


def _in_state(document: dict[str, Any], state: str) -> dict[str, Any] | None:
    webhook: dict[str, Any] = document["webhook"]
    return webhook if webhook["state"] == state else None


@pytest.mark.parametrize(
    "url",
    [
        *(
            "http://example.com/",
            "http://169.254.169.254/latest",
            "http://10.0.0.1/",
            "http://[fe80::1]/",
            "http://0.0.0.0/",
        ),
        *(
            "http://2130706433/",
            "http://127.1/",
            "http://0x7f.0.0.1/",
            "http://localhost.evil.example/",
            "http://localhost./",
        ),
        *(
            "http://hooks.example@evil.example/",
            "http://user:pw@127.0.0.1/",
            "http://127.0.0.1:0/",
            "http://127.0.0.1:99999/",
        ),
        *(
            "ftp://127.0.0.1/",
            "file:///etc/passwd",
            "//127.0.0.1/",
            "127.0.0.1",
            "",
            "http://",
            "http://[::1",
            "http://[::1%25lo]/",
        ),
        *(
            "http://127.0.0.1/\r\nHost: x",
            "http://127.0.0.1/a b",
            "http://127.0.0.1/#x",
            "http://127.0.0.1/" + "x" * 2_000,
        ),
        *(
            "http://hooks.example:8080/",
            "http://xn--hooks.example/",
            "http://ʰooks.example/",
            "http://[::ffff:10.0.0.1]/",
        ),
    ],
)
def test_webhooks_go_nowhere_else(url: str) -> None:
    """Whoever may subscribe could read the operator's network through the service."""
    with pytest.raises(RequestRefused):
        WebhookHosts(["hooks.example:443", "hooks.example:80"], private=True).parse_target(url)


def test_webhooks_go_where_they_may() -> None:
    """A host that was allowed and is refused makes webhooks useless."""
    hosts = WebhookHosts(["Hooks.Example", "10.0.0.5:80", "[::1]:81", "localhost:82"])
    assert hosts.parse_target("https://hooks.example/a/%20b?c=d").path == "/a/%20b?c=d"
    assert hosts.parse_target("https://HOOKS.example:8443").authority == "hooks.example:8443"
    assert hosts.parse_target("https://hooks.example/").reach is AllowedAddresses.PUBLIC
    assert hosts.parse_target("http://10.0.0.5/").reach is AllowedAddresses.ANY
    assert (
        hosts.parse_target("http://[::1]:81/").reach
        is hosts.parse_target("http://localhost:82/").reach
        is AllowedAddresses.LOOPBACK
    )
    for url in ("http://localhost:8000/", "http://127.0.0.1/", "http://[::1]:9/"):
        assert WebhookHosts(private=True).parse_target(url).reach is AllowedAddresses.LOOPBACK
        with pytest.raises(RequestRefused):
            hosts.parse_target(url)
    assert (
        WebhookHosts(["hooks.example"], private=True).parse_target("http://hooks.example/").reach
        is AllowedAddresses.ANY
    )


PRIVATE = [
    *("127.0.0.1", "10.1.2.3", "192.168.0.1", "172.16.0.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1"),
    *("::1", "fe80::1", "fc00::1", "::", "ff02::1", "::ffff:10.0.0.1", "64:ff9b::a00:1", "2002:a00:1::", "no address"),
]


def test_a_name_of_the_list_cannot_be_made_to_mean_a_private_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever answers for an allowed name in the DNS could point the service at the operator's own network, for a moment."""
    assert [each for each in PRIVATE if may_reach(each, AllowedAddresses.PUBLIC)] == []
    assert may_reach("93.184.215.14", AllowedAddresses.PUBLIC)
    assert may_reach("2606:2800:21f:cb07::1", AllowedAddresses.PUBLIC)
    assert may_reach("10.1.2.3", AllowedAddresses.ANY)
    assert not may_reach("10.1.2.3", AllowedAddresses.LOOPBACK)
    looked_up: list[str] = []
    connected: list[str] = []

    async def run(target: WebhookTarget, addresses: list[str]) -> str | None:
        loop = asyncio.get_running_loop()

        async def getaddrinfo(host: str, port: int, **_: Any) -> list[Any]:
            looked_up.append(host)
            return [(2, 1, 6, "", (each, port)) for each in addresses]

        async def open_connection(address: str, port: int, **_: Any) -> Any:
            connected.append(address)
            raise OSError("far away")

        monkeypatch.setattr(loop, "getaddrinfo", getaddrinfo)
        monkeypatch.setattr(asyncio, "open_connection", open_connection)
        try:
            await send(target, b"{}", {}, timeout_s=5.0)
        except NotAccepted as fault:
            return str(fault)
        return None

    target = WebhookHosts(["hooks.example"]).parse_target("http://hooks.example/")
    assert asyncio.run(run(target, ["10.1.2.3"])) == "its address is private: see --webhook-private"
    assert (looked_up, connected) == (["hooks.example"], [])
    # What was looked at is what is called, once: a second look could say another thing.
    assert asyncio.run(run(target, ["127.0.0.1", "93.184.215.14"])) == "no connection, or it broke"
    assert (looked_up, connected) == (["hooks.example"] * 2, ["93.184.215.14"])


@pytest.mark.parametrize(
    ("answer", "then", "told"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n", "stay", None),
        (b"HTTP/1.1 204 No Content\r\n\r\n", "close", None),
        (b"HTTP/1.1 100 Continue\r\nX: 1\r\n\r\nHTTP/1.1 201 Created\r\n", "stay", None),
        (b"HTTP/1.0 299\r\nContent-Length: 9999999\r\n\r\n", "flood", None),
        (b"HTTP/1.1 301 Moved\r\nLocation: http://10.0.0.1/\r\n\r\n", "stay", "answered 301"),
        (b"", "stay", "no answer within 0.3 s"),
        (b"HTTP/1.1 2", "stay", "no answer within 0.3 s"),
        (b"", "close", "no connection, or it broke"),
        (b"SSH-2.0-x\r\n", "stay", "no connection, or it broke"),
        (b"HTTP/1.1 200", "close", "no connection, or it broke"),
        (b"x" * 70_000, "stay", "no connection, or it broke"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" * 9, "stay", "no connection, or it broke"),
    ],
    ids=lambda each: str(each)[:30],
)
def test_strange_receivers_take_or_do_not_take_in_bounded_time(answer: bytes, then: str, told: str | None) -> None:
    """One receiver that hangs or babbles would hold its subscription for ever, or be believed too early."""

    async def received(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n{}")
        with suppress(OSError):
            writer.write(answer)
            await writer.drain()
            while then == "flood":
                writer.write(b"x" * 10_000)
                await writer.drain()
            if then == "stay":
                await reader.read()
            writer.close()

    async def run() -> str | None:
        server = await asyncio.start_server(received, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        try:
            await send(WebhookHosts(private=True).parse_target(f"http://127.0.0.1:{port}/"), b"{}", {}, timeout_s=0.3)
        except NotAccepted as fault:
            return str(fault)
        finally:
            server.close()
        return None

    assert asyncio.run(run()) == told


@pytest.mark.parametrize("stamp", ["", "-1", "١", "1.5", "9" * 30, "1699999000"])
def test_a_stale_or_strange_time_stamp_verifies_nothing(stamp: str) -> None:
    """A request that was overheard could be sent again next week."""
    body = b"{}"
    assert verify_signature(SECRET, body, "1700000000", sign_body(SECRET, 1_700_000_000, body), now_s=1_700_000_299)
    assert not verify_signature(SECRET, body, "1700000000", "v1=é", now_s=1_700_000_000)
    number = int(stamp) if stamp.isdecimal() and len(stamp) < 20 else 0
    assert not verify_signature(SECRET, body, stamp, sign_body(SECRET, number, body), now_s=1_700_000_000)
