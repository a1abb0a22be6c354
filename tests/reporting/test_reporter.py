from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledto.clocks import BoundedClock, HybridClock, LamportClock, VectorClock, VectorStamp, stamp_from_json
from ledto.reporting import Message, Reporter
from ledto.reporting.spool import Batch, Spool
from ledto.reporting.stamper import Clock
from ledto.sources.native.lines import JsonLines
from tests.reporting.reachability import event_id, pasts
from tests.reporting.sink import Sink, free_port, serving
from tests.sources.reading import table

QUICK: dict[str, Any] = {"linger_s": 0.005, "retry_s": (0.005, 0.02)}


@settings(max_examples=12)
@given(
    st.lists(st.sampled_from(["503", "500", "401", "reset", "lost answer", "slow", "", ""]), max_size=12),
    st.integers(1, 20),
)
def test_nothing_is_lost_or_doubled_by_a_service_that_fails(faults: list[str], batch: int) -> None:
    """Whatever the service and the network do meanwhile, every event is there in the end, once, as it was reported."""
    waiting = list(reversed(faults))
    sink = Sink(lambda: waiting.pop() if waiting else "")
    told: list[tuple[int, int]] = []

    def work(thread: int, reporter: Reporter) -> None:
        told.extend((thread, n) for n in range(15) if reporter.report("step", thread=thread, n=n) is not None)

    with serving(sink) as url, Reporter("app", endpoint=url, batch=batch, timeout_s=0.15, **QUICK) as reporter:
        threads = [threading.Thread(target=work, args=(number, reporter)) for number in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert reporter.flush(30)
        events = sink.events()
        assert reporter.stats()["sent"] == reporter.stats()["reported"] == len(told) == 45

    assert [event["seq"] for event in events] == list(range(1, 46)), "one batch at a time, in order"
    assert Counter((event["attributes"]["thread"], event["attributes"]["n"]) for event in events) == Counter(told)
    for thread in range(3):
        assert [e["attributes"]["n"] for e in events if e["attributes"]["thread"] == thread] == list(range(15))
    assert len(set(sink.tries)) == len({batch for batch, _ in sink.tries}), "a retry carries the same bytes and stamps"


def test_what_does_not_fit_the_queue_is_counted_and_said_at_its_place() -> None:
    """Without this a gap in a history would look like a quiet time."""
    port = free_port()
    sink = Sink()
    with Reporter("app", endpoint=f"http://127.0.0.1:{port}", queue_limit=50, batch=7, **QUICK) as reporter:
        results: list[object] = []
        for n in range(120):
            # From here on a batch is out of the queue, and counts all the same.
            while n == 20 and not reporter.stats()["retries"]:
                reporter.flush(0.01)
            results.append(reporter.sent("ask", n=n) if n % 3 else reporter.report("work", n=n))
        assert [result is not None for result in results] == [True] * 50 + [False] * 70, "the newest are dropped"
        assert reporter.stats()["dropped"] == 70
        with serving(sink, port=port):
            assert reporter.flush(30)
            assert reporter.report("after") is not None
            assert reporter.flush(30)
        events = sink.events()
    assert [event["seq"] for event in events] == list(range(1, 53))
    assert [event["name"] for event in events[50:]] == ["ledto.dropped", "after"]
    assert events[50]["attributes"] == {"count": 70}
    assert [event["attributes"]["n"] for event in events[:50]] == list(range(50))


SPOOLING = """
import os, signal, sys
from ledto.reporting import Reporter
reporter = Reporter("app", endpoint=sys.argv[1], spool=sys.argv[2], batch=20, linger_s=0.01, retry_s=(0.01, 0.05))
for n in range(250):
    reporter.report("work", n=n)
print(reporter.flush(30), reporter.process, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_spool_survives_kill_9_and_the_next_start_sends_it(tmp_path: Path) -> None:
    """After flush() said yes, not even a killed process loses an event; a process that lives keeps what is its own."""
    nobody = f"http://127.0.0.1:{free_port()}"
    done = subprocess.run(
        [sys.executable, "-c", SPOOLING, nobody, str(tmp_path)], stdout=subprocess.PIPE, text=True, check=False
    )
    assert done.returncode == -signal.SIGKILL
    said, process = done.stdout.split()
    assert said == "True"
    kept = {path.name.split(".")[1]: path.read_bytes() for path in tmp_path.rglob("*.jsonl")}
    next(tmp_path.rglob("*.jsonl")).with_suffix(".part").write_bytes(b'{"torn')

    sink = Sink()
    with Reporter("other", endpoint=nobody, spool=tmp_path, **QUICK) as alive:
        # It took over what the dead one left, and lives: nobody else may send it now.
        assert alive.report("mine") is not None
        assert alive.flush(30)
        with serving(sink) as url, Reporter("app", endpoint=url, spool=tmp_path, **QUICK) as second:
            second.report("started")
            assert second.flush(30)
        assert [event["name"] for event in sink.events()] == ["started"]
        assert alive.close(0.0), "what is on disk is not lost"

    with serving(sink) as url, Reporter("app", endpoint=url, spool=tmp_path, **QUICK) as third:
        while third.stats()["spooled_bytes"]:
            third.flush(0.01)
    events = [event for event in sink.events() if event["process"] == process]
    assert [event["attributes"]["n"] for event in events] == list(range(250))
    assert [event["name"] for event in sink.events()].count("mine") == 1
    assert kept.items() <= sink.bodies.items(), "a batch keeps its id and its bytes"
    assert list(tmp_path.iterdir()) == []


def test_a_batch_is_kept_once_by_whoever_keeps_it(tmp_path: Path) -> None:
    """Who closes a reporter while its thread is keeping a batch would leave every event of it twice."""
    spool = Spool(tmp_path, "app", limit_bytes=10_000)
    batch = Batch("a-1", b"{}\n")
    assert spool.put(batch)
    assert spool.put(batch)
    assert len(spool) == len([*tmp_path.glob("*/*.jsonl")]) == 1
    spool.close()


def test_a_full_spool_keeps_the_rest_in_memory(tmp_path: Path) -> None:
    """A bounded disk must not become a silent hole: what fits neither disk nor queue is counted at the door."""
    port = free_port()
    sink = Sink()
    limits = {"spool_limit_bytes": 3_000, "queue_limit": 30, "batch": 5}
    with Reporter("app", endpoint=f"http://127.0.0.1:{port}", spool=tmp_path, **limits, **QUICK) as reporter:
        tried = 0
        while reporter.stats()["dropped"] < 10 or reporter.stats()["spooled_bytes"] < 2_000:
            reporter.report("work", n=tried)
            tried += 1
        assert not reporter.flush(0.0), "what is in memory only is not safe"
        stats = reporter.stats()
        assert sum(path.stat().st_size for path in tmp_path.rglob("*.jsonl")) <= 3_000
        assert stats["waiting"] <= 30
        with serving(sink, port=port):
            assert reporter.close(30)
    with serving(sink) as url, Reporter("app", endpoint=url, spool=tmp_path, **QUICK) as last:
        while last.stats()["spooled_bytes"]:
            last.flush(0.01)
    said = [event["attributes"]["count"] for event in sink.events() if event["name"] == "ledto.dropped"]
    done = {event["attributes"]["n"] for event in sink.events() if event["name"] == "work"}
    assert sum(said) == stats["dropped"] == tried - len(done)
    assert len({event_id(event) for event in sink.events()}) == len(sink.events()) == len(done) + len(said)


def test_the_service_is_given_the_time_it_asks_for() -> None:
    """An overloaded service that says when to come back must not be hammered instead."""
    sink = Sink(lambda: "503")
    sink.retry_after = "60"
    with serving(sink) as url:
        reporter = Reporter("app", endpoint=url, token="secret", **QUICK)
        reporter.report("work")
        assert not reporter.flush(0.4)
        assert not reporter.close(0.2)
        assert len(sink.tries) == 1
        assert sink.headers[0]["Authorization"] == "Bearer secret"
        assert reporter.stats()["lost"] == 1


def test_batches_that_are_too_large_are_split_and_what_is_refused_is_said() -> None:
    """A limit of the service costs at most the event that breaks it."""
    sink = Sink()
    sink.most_bytes = 1_000
    with serving(sink) as url, Reporter("app", endpoint=url, linger_s=0.2, retry_s=(0.005, 0.02)) as reporter:
        for n in range(40):
            reporter.report("work", n=n, text="x" * (2_000 if n == 17 else 10))
        assert reporter.flush(30)
        reporter.report("after")
        assert reporter.flush(30)
        events = sink.events()
        assert reporter.stats()["refused"] == 1
    assert [event["seq"] for event in events] == [seq for seq in range(1, 43) if seq != 18]
    assert [event["name"] for event in events[-2:]] == ["ledto.dropped", "after"]
    assert events[-2]["attributes"] == {"refused": 1, "why": "status 413"}


FORKING = """
import os, sys
from ledto.reporting import Reporter
reporter = Reporter("app", endpoint=sys.argv[1], spool=sys.argv[2], linger_s=0.01)
if not os.fork():
    os._exit(0)  # a child that reports nothing leaves no trace
reporter.report("before")
child = os.fork()
reporter.report("after" if child else "in the child")
assert reporter.close(30)
if not child:
    os._exit(0)
os.waitpid(child, 0)
assert not os.listdir(sys.argv[2])
"""


def test_a_forked_child_is_a_process_of_its_own_caused_by_the_fork(tmp_path: Path) -> None:
    """Two processes under one name would give two events one number, and one of them would be quarantined."""
    sink = Sink()
    with serving(sink) as url:
        subprocess.run([sys.executable, "-c", FORKING, url, str(tmp_path)], check=True, timeout=60)
    past = {event["name"]: pasts(sink.events())[event_id(event)] for event in sink.events() if event["kind"] == "local"}
    ids = {event["name"]: event_id(event) for event in sink.events() if event["kind"] == "local"}
    assert len(ids) == 3
    assert ids["before"] in past["in the child"]
    assert ids["before"] in past["after"]
    assert ids["after"] not in past["in the child"]
    assert ids["in the child"] not in past["after"]
    assert len({event_id(event) for event in sink.events()}) == len(sink.events()) == 5


class Unprintable:
    def __str__(self) -> str:
        raise RuntimeError("no")


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.just("\ud800")
    | st.just("\0")
    | st.binary()
    | st.builds(Unprintable)
    | st.builds(object),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.integers() | st.text() | st.none(), inner, max_size=4)
    ),
    max_leaves=12,
)
CLOCKS: list[Callable[[str], Clock]] = [
    LamportClock,
    HybridClock,
    VectorClock,
    lambda name: BoundedClock(name, 10, 10, physical=lambda: 5),
]


@settings(max_examples=60)
@given(st.text() | st.just("\ud800\0"), st.dictionaries(st.text(), VALUES, max_size=4), st.sampled_from(CLOCKS))
def test_every_report_is_one_that_the_source_reads(
    name: str, attributes: dict[str, Any], clock: Callable[[str], Clock]
) -> None:
    """An event with an odd value must not be quarantined as unreadable."""
    from ledto.reporting import records

    made = clock("app@1")
    nested: Any = attributes
    for _ in range(100):
        nested = {"in": nested}
    for value in (attributes, nested):
        line = records.record_line(
            records.record_head("app@1", "run"),
            7,
            12,
            "send",
            records.name_json(name),
            records.attributes_json(value),
            on_line='"line":"main #q4dx"',
            sends="app@1:7",
            receives=None,
            stamp=made.send(),
        )
        (row,) = table(JsonLines(), line).to_pylist()
        assert row["reason"] is None
        assert (row["computation"], row["process"], row["seq"], row["time"]) == ("run", "app@1", 7, 12)
        assert (row["kind"], row["sends"], row["receives"]) == ("send", "app@1:7", None)


def test_what_a_reporter_sends_is_read_back_field_by_field() -> None:
    """Reports that mean something else to the reader than to the application would be worse than none."""
    sink = Sink()
    with (
        serving(sink) as url,
        Reporter("shop", VectorClock, url, computation="run", incarnation="1", now=lambda: 100) as shop,
        Reporter("stock", VectorClock, url, computation="run", incarnation="1", now=lambda: 50) as stock,
    ):
        placed = shop.report("order.placed", order=42, when={"day": 1.5})
        message = shop.sent("ask")
        assert message is not None
        received = stock.received(message, "asked", order=42)
        assert shop.flush(30)
        assert stock.flush(30)
    assert placed is not None
    assert received is not None
    rows = {
        f"{row['process']}:{row['seq']}": row for row in table(JsonLines(), b"".join(sink.bodies.values())).to_pylist()
    }
    assert [row["reason"] for row in rows.values()] == [None] * 3
    assert rows[placed.id]["line"] == rows["shop@1:2"]["line"] == json.loads(sink.tries[0][1].splitlines()[0])["line"]
    assert rows[placed.id]["attributes"] == '{"order":42,"when":{"day":1.5}}'
    assert (rows[placed.id]["name"], rows[placed.id]["time"], rows[placed.id]["kind"]) == ("order.placed", 100, "local")
    assert (rows["shop@1:2"]["sends"], rows["shop@1:2"]["kind"]) == (message.key, "send")
    assert (rows[received.id]["receives"], rows[received.id]["kind"]) == (message.key, "receive")
    assert received.stamp == VectorStamp({"shop@1": 2, "stock@1": 1})


def stamps_of(sink: Sink) -> dict[str, Any]:
    return {event["name"]: stamp_from_json(event["stamp"]) for event in sink.events() if "stamp" in event}


def test_a_clock_that_cannot_take_in_a_cause_stamps_no_more() -> None:
    """A stamp that sorts an effect before its cause is worse than none; the message still tells the cause."""
    sink = Sink()
    with (
        serving(sink) as url,
        Reporter("ahead", lambda name: HybridClock(name, physical=lambda: 10**12), url) as ahead,
        Reporter("behind", lambda name: HybridClock(name, physical=lambda: 1), url) as behind,
    ):
        message = ahead.sent("ask")
        behind.report("before")
        behind.received(message, "asked")
        behind.report("after")
        assert ahead.flush(30)
        assert behind.flush(30)
        assert behind.stats()["stamping"] == 0
    assert set(stamps_of(sink)) == {"ask", "before"}
    by_name = {event["name"]: event_id(event) for event in sink.events()}
    assert by_name["ask"] in pasts(sink.events())[by_name["after"]]


def test_peers_that_do_not_take_part_are_no_causes_and_are_said() -> None:
    """By Berry's rules (3.4, 3.5) a message without a stamp tells nothing; inventing or hiding it would both be wrong."""
    sink = Sink()
    with (
        serving(sink) as url,
        Reporter("app", lambda name: VectorClock(name, accept_unstamped=True), url, computation="here") as app,
        Reporter("app", VectorClock, url, computation="there") as elsewhere,
    ):
        app.report("before")
        app.received(None, "heard")
        app.received(elsewhere.sent("ask"), "foreign")
        app.unanswered("lost")
        assert app.flush(30)
        assert (app.stats()["unstamped"], app.stats()["unanswered"]) == (2, 1)
    events = {event["name"]: event for event in sink.events()}
    peers = {name: event["attributes"]["ledto.peer"] for name, event in events.items() if "attributes" in event}
    assert peers == {"heard": "not taking part", "foreign": "other computation", "lost": "no answer"}
    assert {events[name]["kind"] for name in peers} == {"local"}
    assert stamps_of(sink)["before"].complete
    assert not stamps_of(sink)["heard"].complete


def test_a_reporter_never_raises_into_the_application() -> None:
    """Reporting is an aside: a bad clock, value or address must not become the application's fault."""

    def broken() -> int:
        raise RuntimeError("no time")

    with Reporter("app", endpoint=f"http://127.0.0.1:{free_port()}", now=broken, **QUICK) as reporter:
        assert reporter.report("a") is None
        assert reporter.received(Message("x:1"), "b") is None
        assert reporter.extract({"ledto-cause": "1;;;"}) is None
        assert reporter.extract([(None, 3), 5]) is None  # type: ignore[list-item]
        assert (reporter.stats()["faults"], reporter.stats()["malformed"]) == (2, 2)
        assert reporter.flush(1)
    assert reporter.report("too late") is None
    assert reporter.stats()["dropped"] == 1


def test_an_event_in_the_middle_of_another_cannot_take_its_number() -> None:
    """A signal's handler or a dying object may report at any moment: two events of one number would contradict."""
    sink = Sink()
    inner: list[object] = []

    def now() -> int:
        if len(inner) < 3:
            inner.append(reporter.report("inner"))
        return 1

    with serving(sink) as url, Reporter("app", endpoint=url, now=now) as reporter:
        for n in range(3):
            reporter.report("outer", n=n)
        assert reporter.flush(30)
        assert reporter.stats()["dropped"] == 3
    assert inner == [None] * 3
    assert [event["seq"] for event in sink.events()] == list(range(1, len(sink.events()) + 1))
    assert sum(event["attributes"].get("count", 0) for event in sink.events()) == 3
    assert [event["attributes"]["n"] for event in sink.events() if event["name"] == "outer"] == [0, 1, 2]


@pytest.mark.parametrize("endpoint", ["localhost", "ftp://h", "http://", "http://user:pw@h", "http://h?x=1"])
def test_an_address_that_cannot_work_is_refused_at_once(endpoint: str) -> None:
    """A typing error must not show itself as reports that never come."""
    with pytest.raises(ValueError, match="endpoint"):
        Reporter("app", endpoint=endpoint)


def test_a_clock_of_another_name_is_refused() -> None:
    """Its stamps would count another process's events, and every report would be quarantined."""
    with pytest.raises(ValueError, match="the clock belongs to 'other'"):
        Reporter("app", VectorClock("other"))
    assert Reporter("app", VectorClock("app@7")).process == "app@7"


def test_importing_the_reporting_loads_nothing_heavy() -> None:
    """An application that only reports must not pay for Spark, Arrow or gRPC."""
    code = "import sys; old = set(sys.modules); import ledto.reporting; print(*set(sys.modules) - old)"
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True)
    loaded = {name.split(".")[0] for name in done.stdout.split()}
    assert loaded - sys.stdlib_module_names == {"ledto"}
