"""A real NATS server as a source: every message once and in order, whatever dies, and an error where that cannot be."""

from __future__ import annotations

import asyncio
import json
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nats
import pytest
from nats.js.api import RetentionPolicy, StreamConfig
from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from ledto.spark.stream import FRAMES, StreamSourceError, open_source
from ledto.spark.stream.nats.client import Server
from ledto.spark.stream.nats.jetstream import Broker, read_range
from ledto.spark.stream.nats.source import NatsDataSource, NatsStreamReader

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

SUBJECT = "ledto.reports"
DEADLINE_SECONDS = 60.0
TOKEN = "hush-hush-5017"


class NatsServer:
    """A server on a port of its own, which keeps port and files when it is killed and started again."""

    def __init__(self, folder: Path, *arguments: str, token: str | None = None) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        self._token = token
        program = shutil.which("nats-server", path=str(Path(sys.executable).parent)) or "nats-server"
        self._command = [program, "-a", "127.0.0.1", "-p", str(self.port), "-js", "-sd", str(folder), *arguments]
        if token is not None:
            self._command += ["--auth", token]
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        self._process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_until(self._listens)

    def _listens(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
        except OSError:
            return False
        return True

    def kill(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def ask(self, action: Callable[[Any, Any], Any]) -> Any:
        """Do something with the official client, `action(connection, jetstream)`, and wait for it."""

        async def act() -> Any:
            connection = await nats.connect(f"nats://127.0.0.1:{self.port}", token=self._token)
            try:
                return await action(connection, connection.jetstream())
            finally:
                await connection.close()

        return asyncio.run(act())

    def make_stream(self, **settings: Any) -> None:
        config = StreamConfig(name="ledto", subjects=[SUBJECT], **settings)
        self.ask(lambda _, js: js.add_stream(config))

    def publish(self, payloads: list[bytes]) -> list[int]:
        """The sequence numbers that the server acknowledged."""

        async def publish(_: Any, js: Any) -> list[int]:
            headers = {"Nats-Msg-Id": ""}
            acks = []
            for n, payload in enumerate(payloads):
                acks.append(js.publish(SUBJECT, payload, headers=headers | {"n": str(n)} if n % 3 == 0 else None))
            return [ack.seq for ack in await asyncio.gather(*acks)]

        numbers: list[int] = self.ask(publish)
        return numbers

    def api(self, subject: str, content: dict[str, Any]) -> dict[str, Any]:
        """The server's own answer to a request."""

        async def request(connection: Any, _: Any) -> Any:
            return json.loads((await connection.request(f"$JS.API.{subject}", json.dumps(content).encode())).data)

        answer: dict[str, Any] = self.ask(request)
        return answer

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}/ledto"

    def broker(self, **settings: Any) -> Broker:
        return Broker(Server("127.0.0.1", self.port, **settings), "ledto", 20)

    def reader(self, **options: Any) -> NatsStreamReader:
        """What Spark would make, in this process."""
        given = {"address": f"127.0.0.1:{self.port}", "stream": "ledto", "patienceSeconds": "20"}
        return NatsDataSource(given | {name: str(value) for name, value in options.items()}).streamReader(None)  # type: ignore[arg-type]


def wait_until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not true():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NatsServer]:
    """A server without a stream."""
    running = NatsServer(tmp_path / "broker")
    yield running
    running.kill()


def payloads(count: int, *, seed: int, longest: int = 300) -> list[bytes]:
    """Of all lengths, line ends and empty ones included."""
    chance = random.Random(seed)
    return [chance.randbytes(chance.randrange(longest)) if n % 5 else b"" for n in range(count)]


class Collected:
    """The rows of a query's batches, in order, as a committed sink would have them: a batch that runs again is kept once."""

    def __init__(self) -> None:
        self.batches: dict[int, list[Any]] = {}
        self.before_reading: Callable[[int], None] = lambda _: None
        self.fail_in: int | None = None

    def __call__(self, frame: DataFrame, number: int) -> None:
        self.before_reading(number)
        rows = [tuple(row) for row in frame.collect()]
        assert self.batches.setdefault(number, rows) == rows, "a batch that ran again had other rows"
        if number == self.fail_in:
            self.fail_in = None
            raise RuntimeError("as if killed")

    @property
    def rows(self) -> list[Any]:
        return [row for number in sorted(self.batches) for row in self.batches[number]]


def follow(
    spark: SparkSession, url: str, into: Collected, checkpoint: Path, *, once: bool, **options: Any
) -> StreamingQuery:
    writer = open_source(url, options).load(spark).writeStream.foreachBatch(into)
    writer = writer.option("checkpointLocation", str(checkpoint))
    return (writer.trigger(availableNow=True) if once else writer.trigger(processingTime="0 seconds")).start()


def test_every_message_comes_once_and_in_order_however_it_is_cut(
    spark: SparkSession, server: NatsServer, tmp_path: Path
) -> None:
    """The promise of the whole service: over random limits, several tasks, and queries that end and begin again."""
    server.make_stream()
    collected, sent, numbers = Collected(), [], []
    for count, limit, fails in ((1_300, 700, False), (1, 5, False), (60, 25, True), (0, 7, False)):
        new = payloads(count, seed=count)
        numbers += server.publish(new)
        sent += new
        if fails:
            collected.fail_in = max(collected.batches) + 2
        options = {"maxMessages": limit, "parallelism": 2}
        query = follow(spark, server.url, collected, tmp_path / "checkpoint", once=True, **options)
        if fails:
            with pytest.raises(StreamingQueryException, match="as if killed"):
                query.awaitTermination(DEADLINE_SECONDS)
        else:
            assert query.awaitTermination(DEADLINE_SECONDS)
    sizes = [len(rows) for _, rows in sorted(collected.batches.items())]
    assert sizes == [700, 600, 1, 25, 25, 7, 3]
    assert numbers == list(range(1, len(sent) + 1))
    assert [row[1] for row in collected.rows] == numbers
    assert [row[5] for row in collected.rows] == sent
    assert {(row[0], row[3], row[4]) for row in collected.rows} == {("ledto", "rows", "nats:ledto")}
    for number in (1, 700, len(sent)):
        stored = server.api("STREAM.MSG.GET.ledto", {"seq": number})["message"]["time"]
        seconds, fraction = stored.rstrip("Z").split(".")
        whole = int(datetime.fromisoformat(seconds + "+00:00").timestamp())
        assert collected.rows[number - 1][2] == whole * 10**9 + int(fraction.ljust(9, "0"))
    assert server.api("CONSUMER.NAMES.ledto", {})["total"] == 0


def test_a_running_query_outlives_the_broker(spark: SparkSession, server: NatsServer, tmp_path: Path) -> None:
    """A broker that is killed between and during micro-batches must cost a pause, not the query, and no message."""
    server.make_stream()
    collected = Collected()
    killed: list[int] = []

    def kill_some(number: int) -> None:
        if number in (1, 3):
            server.kill()
            killed.append(number)
            threading.Timer(0.3, server.start).start()

    collected.before_reading = kill_some
    sent = payloads(40, seed=1)
    server.publish(sent)
    query = follow(spark, server.url, collected, tmp_path / "checkpoint", once=False, maxMessages=10)
    try:
        wait_until(lambda: len(collected.rows) == 40 or not query.isActive)
        assert killed == [1, 3]
        server.kill()
        server.start()
        more = payloads(25, seed=2)
        server.publish(more)
        wait_until(lambda: len(collected.rows) == 65 or not query.isActive)
        assert query.exception() is None
    finally:
        query.stop()
    assert [(row[1], row[5]) for row in collected.rows] == list(enumerate(sent + more, start=1))


def test_a_range_that_is_cut_off_goes_on_where_it_was(server: NatsServer) -> None:
    """The server dies while a task has some messages and not all: none of them may come again or be left out."""
    server.make_stream()
    sent = payloads(9_000, seed=3)
    server.publish(sent)
    reading = read_range(server.broker(), 3, 8_500)
    found = list(next(reading))
    server.kill()
    threading.Timer(0.2, server.start).start()
    found += [message for some in reading for message in some]
    assert [(message.sequence, message.payload) for message in found] == list(enumerate(sent, start=1))[2:8_499]
    assert found == [message for some in read_range(server.broker(), 3, 8_500) for message in some]


def test_large_messages_come_through(server: NatsServer) -> None:
    """The collector's slices are up to a mebibyte; a pull that is limited by bytes must neither stop nor skip."""
    server.make_stream()
    sent = [bytes([n]) * ((1 << 20) - 200) for n in range(30)]
    server.publish(sent)
    found = list(read_range(server.broker(), 1, 31))
    assert [message.payload for some in found for message in some] == sent
    assert len(found) > 1


def test_offsets_stay_within_what_is_there(server: NatsServer) -> None:
    """An empty stream, one that was purged, limits, and the end that a run with an end was given."""
    server.make_stream()
    reader = server.reader(maxMessages=4, maxBytes=1 << 30)
    start = reader.initialOffset()
    assert start["next"] == 1
    assert reader.latestOffset(start, ReadMaxRows(4)) == start
    assert reader.partitions(start, start) == []
    server.publish([b"x"] * 10)
    assert reader.latestOffset(start, reader.getDefaultReadLimit())["next"] == 5
    assert reader.latestOffset(start, ReadAllAvailable())["next"] == 11
    assert server.reader(maxMessages=9, maxBytes=100).latestOffset(start, ReadMaxRows(9))["next"] in (2, 3)
    reader.prepareForTriggerAvailableNow()
    server.publish([b"y"])
    assert reader.latestOffset(start, ReadAllAvailable())["next"] == 11
    assert reader.reportLatestOffset()["next"] == 12
    open_source(server.url, {}).trim(8)
    assert server.api("STREAM.INFO.ledto", {})["state"]["first_seq"] == 8
    fresh = server.reader().initialOffset()
    assert fresh["next"] == 8
    [part] = reader.partitions(fresh, fresh | {"next": 12})
    [batch] = reader.read(part)
    assert batch.schema == FRAMES
    assert batch["sequence"].to_pylist() == [8, 9, 10, 11]
    open_source(server.url, {}).trim(100)
    assert server.reader().initialOffset()["next"] == 12
    assert server.publish([b"z"]) == [12]


def test_messages_that_are_gone_are_an_error_that_counts_them(server: NatsServer) -> None:
    """Passed over in silence, they would be reports that were acknowledged and lost."""
    server.make_stream()
    server.publish(payloads(20, seed=4))
    for number in (7, 20):
        assert server.api("STREAM.MSG.DELETE.ledto", {"seq": number})["success"]

    def read(start: int, stop: int) -> list[int]:
        return [message.sequence for some in read_range(server.broker(), start, stop) for message in some]

    assert read(8, 20) == list(range(8, 20))
    with pytest.raises(StreamSourceError, match="message 7 is gone from the stream ledto"):
        read(1, 10)
    with pytest.raises(StreamSourceError, match="message 20 is gone"):
        read(18, 21)
    open_source(server.url, {}).trim(5)
    with pytest.raises(StreamSourceError, match="messages 2 to 4 are gone"):
        read(2, 6)
    reader = server.reader()
    with pytest.raises(StreamSourceError, match="messages 2 to 4 are gone"):
        reader.latestOffset(reader.initialOffset() | {"next": 2}, ReadAllAvailable())
    with pytest.raises(StreamSourceError, match="ends at message 20, and message 21 had been there"):
        read(21, 22)


def test_another_stream_of_the_same_name_is_noticed(server: NatsServer) -> None:
    """Its numbers begin again at 1: read on from the old place, its first messages would be passed over."""
    server.make_stream()
    server.publish([b"x"] * 5)
    start = server.reader().initialOffset() | {"next": 3}
    with pytest.raises(StreamSourceError, match="ends at message 5, and the checkpoint has read up to 8"):
        server.reader().latestOffset(start | {"next": 9}, ReadAllAvailable())
    server.ask(lambda _, js: js.delete_stream("ledto"))
    server.make_stream()
    server.publish([b"y"] * 5)
    with pytest.raises(StreamSourceError, match="another took its name"):
        server.reader().latestOffset(start, ReadAllAvailable())


def test_a_stream_that_reading_would_empty_is_refused(server: NatsServer) -> None:
    """A work queue deletes what was read; a micro-batch that runs again would find nothing."""
    server.make_stream(retention=RetentionPolicy.WORK_QUEUE)
    with pytest.raises(StreamSourceError, match="retention 'workqueue'"):
        server.reader().initialOffset()


def test_a_stream_is_waited_for_and_then_missed_by_name(server: NatsServer) -> None:
    """The stream may start before what makes it; a wrong name must not wait for ever, nor a server that is not there."""
    later = threading.Timer(0.3, server.make_stream)
    later.start()
    assert server.reader().initialOffset()["next"] == 1
    later.join()
    with pytest.raises(StreamSourceError, match="there is no stream other"):
        server.reader(stream="other", patienceSeconds=0).initialOffset()
    server.kill()
    with pytest.raises(StreamSourceError, match=r"could not be read for 0 s: .*refused.*start again"):
        server.reader(patienceSeconds=0).initialOffset()


def test_tokens_open_the_broker_and_are_shown_nowhere(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By option, file, variable or URL; and a plan, a progress report, a description or an error is read by many."""
    server = NatsServer(tmp_path / "broker", token=TOKEN)
    try:
        server.make_stream()
        server.publish([b"a", b"b"])
        (tmp_path / "token").write_text(TOKEN + "\n")
        assert server.reader(token=TOKEN).initialOffset()["next"] == 1
        assert server.reader(tokenFile=tmp_path / "token").initialOffset()["next"] == 1
        with pytest.raises(StreamSourceError, match="refuses the credentials"):
            server.reader().initialOffset()
        with pytest.raises(StreamSourceError, match="refuses the credentials") as refused:
            server.reader(token=TOKEN + "-not").initialOffset()
        monkeypatch.setenv("LEDTO_BROKER_TOKEN", TOKEN)
        assert server.reader().initialOffset()["next"] == 1
        monkeypatch.delenv("LEDTO_BROKER_TOKEN")
        url = server.url.replace("//", f"//{TOKEN}@")
        collected = Collected()
        source = open_source(url, {})
        query = follow(spark, url, collected, tmp_path / "checkpoint", once=True)
        assert query.awaitTermination(DEADLINE_SECONDS)
        source.trim(2)
        assert [row[5] for row in collected.rows] == [b"a", b"b"]
        shown = [query._jsq.explainInternal(True), source.load(spark)._jdf.queryExecution().toString()]
        assert "ledto_nats" in shown[1], "this is where options would be shown"
        shown += [source.describe(), source.name, repr(source), repr(server.broker(token=TOKEN)), str(refused.value)]
        shown += [progress.json for progress in query.recentProgress]
        with pytest.raises(StreamSourceError) as misnamed:
            open_source(url + "/more", {})
        assert not [text for text in (*shown, str(misnamed.value)) if TOKEN in text]
        written = [file for file in (tmp_path / "checkpoint").rglob("*") if file.is_file()]
        assert written
        assert not [file for file in written if TOKEN.encode() in file.read_bytes()]
    finally:
        server.kill()


def test_a_secured_broker_is_read_by_who_trusts_it(tmp_path: Path) -> None:
    """Reports in the clear on a network are readable by all; a server that nobody vouches for is not the broker."""
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", str(key), "-out", str(certificate)]
    make += ["-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    if shutil.which("openssl") is None:
        pytest.skip("no openssl to make a certificate with")
    subprocess.run(make, check=True, capture_output=True)
    server = NatsServer(tmp_path / "broker", "--tls", f"--tlscert={certificate}", f"--tlskey={key}")
    try:
        reader = server.reader(tlsCaFile=certificate, patienceSeconds=0)
        with pytest.raises(StreamSourceError, match="there is no stream ledto"):
            reader.initialOffset()
        with pytest.raises(StreamSourceError, match=r"not trusted.*tlsCaFile"):
            server.reader().initialOffset()
    finally:
        server.kill()


@pytest.mark.parametrize(
    ("url", "options", "complaint"),
    [
        ("nats://127.0.0.1:4222", {}, "nats://HOST:PORT/STREAM"),
        ("nats:///ledto", {}, "nats://HOST:PORT/STREAM"),
        ("nats://127.0.0.1:port/ledto", {}, "nats://HOST:PORT/STREAM"),
        ("nats://127.0.0.1/a.b", {}, "nats://HOST:PORT/STREAM"),
        ("nats://127.0.0.1/ledto", {"maxMessage": 3}, "no option 'maxMessage'"),
        ("nats://127.0.0.1/ledto", {"maxMessages": 0}, "maxMessages is 0"),
        ("nats://127.0.0.1/ledto", {"maxBytes": "much"}, "maxBytes is 'much'"),
    ],
)
def test_what_makes_no_sense_is_refused_at_once(url: str, options: dict[str, Any], complaint: str) -> None:
    """Before Spark starts, in one sentence."""
    with pytest.raises(StreamSourceError, match=complaint):
        open_source(url, options)


HELLO = b'INFO {"max_payload": 1048576}\r\nPONG\r\n'


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "is not a NATS server"),
        (b"INFO {\r\n", "not JSON"),
        (b"INFO []\r\n", "not JSON"),
        (b"INFO", "closed"),
        (HELLO + b"MSG a\r\n", "without its sizes"),
        (HELLO + b"MSG a 1 -5\r\n", "impossible size"),
        (HELLO + b"MSG a 1 99999999999999\r\n", "impossible size"),
        (HELLO + b"HMSG a 1 9 5\r\n", "impossible size"),
        (HELLO + b"MSG a 1 50\r\nabc", "closed in the middle"),
        (HELLO + b"\xff\xfe\r\n-ERR 'Slow Consumer'\r\n", "Slow Consumer"),
    ],
)
def test_what_is_no_broker_is_told_so(said: bytes, complaint: str) -> None:
    """A web server's port in place of the broker's, or rubbish, must be a sentence, not a trace-back or a full memory."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            # The reader may have gone already.
            with listening.accept()[0] as client, suppress(OSError):
                client.sendall(said)
                client.shutdown(socket.SHUT_WR)
                while client.recv(4096):
                    pass

        thread = threading.Thread(target=answer)
        thread.start()
        broker = Broker(Server("127.0.0.1", listening.getsockname()[1]), "ledto", 0)
        with pytest.raises(StreamSourceError, match=complaint):
            next(read_range(broker, 1, 2))
        thread.join()
