"""Read ranges of a JetStream stream exactly: every message from one sequence number to another, once, in order.

A range is read through its own pull consumer, which acknowledges nothing and is in the server's memory. So any number
of readers see the same messages, and the server keeps no position for them. If a server goes away in the middle, the
reader waits for it and goes on after the last message that it got.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeVar

from ledto.spark.stream.contract import StreamSourceError
from ledto.spark.stream.nats.client import NatsConnection, Server

T = TypeVar("T")

ANSWER_SECONDS: Final = 10.0
"""A server that does not answer for this long is considered lost."""

_PULL_MESSAGES: Final = 2_000
_PULL_BYTES: Final = 8 << 20
_PULL_NS: Final = 500_000_000
_FORGET_NS: Final = 30_000_000_000
_FIRST_PAUSE_SECONDS: Final = 0.02
_LONGEST_PAUSE_SECONDS: Final = 0.5

_STREAM_NOT_FOUND = 10059
_NO_MESSAGE_FOUND = 10037


@dataclass(frozen=True, slots=True)
class Broker:
    """A stream of a server, and how long to wait for the server when it is away."""

    server: Server
    stream: str
    patience_seconds: float

    def connect(self) -> NatsConnection:
        """Open a new connection; raises `OSError` if there is no server."""
        return NatsConnection(self.server, timeout_seconds=ANSWER_SECONDS)

    def __str__(self) -> str:
        return f"the stream {self.stream} at {self.server.address}"


class StreamState(NamedTuple):
    """What a stream holds."""

    first: int
    """The lowest sequence number it has, or the next that it will give if it is empty; from 1 on."""
    last: int
    """The highest sequence number it ever gave; 0 before the first."""
    mean_bytes: int
    created: str
    """When it was made, which tells it from another stream of the same name."""


class StoredMessage(NamedTuple):
    """A message as the stream stores it."""

    sequence: int
    time_ns: int
    """When the server stored it, by the server's clock."""
    payload: bytes


class Patience:
    """Waits longer and longer between attempts, and gives up if none has succeeded for a time."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.renew()

    def renew(self) -> None:
        """Start over, because something succeeded."""
        self._deadline = time.monotonic() + self._broker.patience_seconds
        self._pause = _FIRST_PAUSE_SECONDS

    def wait(self, fault: Exception) -> None:
        """Pause before the next attempt; raises `StreamSourceError` if the time is up."""
        if time.monotonic() + self._pause > self._deadline:
            raise StreamSourceError(
                f"{self._broker} could not be read for {self._broker.patience_seconds:g} s: {fault}. "
                "Nothing is lost: start again when the broker answers"
            ) from None
        time.sleep(self._pause)
        self._pause = min(self._pause * 2, _LONGEST_PAUSE_SECONDS)


class StreamRequests:
    """Requests about one stream, over a connection that is kept, and opened again when it breaks."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._connection: NatsConnection | None = None

    def state(self) -> StreamState:
        """Get what the stream holds now; waits for a stream that does not exist yet as for a server."""
        return self._patiently(lambda connection: stream_state(connection, self._broker))

    def purge(self, upto: int) -> None:
        """Have the server delete all messages with a lower sequence number than `upto`."""
        # A purge beyond the end would make the stream skip numbers, which would look like messages that are gone.
        content = {"seq": min(upto, self.state().last + 1)}
        self._patiently(lambda connection: _ask(connection, self._broker, "STREAM.PURGE", content))

    def _patiently(self, ask: Callable[[NatsConnection], T]) -> T:
        """Ask again, with new connections, until there is an answer or patience ends."""
        patience = Patience(self._broker)
        while True:
            try:
                if self._connection is None:
                    self._connection = self._broker.connect()
                return ask(self._connection)
            except OSError as fault:
                self.close()
                patience.wait(fault)

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def stream_state(connection: NatsConnection, broker: Broker) -> StreamState:
    """Get what the stream holds now; raises `StreamSourceError` if the stream deletes what a reader has seen."""
    answer = _ask(connection, broker, "STREAM.INFO", {})
    retention = answer["config"].get("retention", "limits")
    if retention != "limits":
        raise StreamSourceError(
            f"{broker} has the retention {retention!r}, which deletes messages that were read, and they could not be "
            "read again after a failure; make it with the retention 'limits'"
        )
    state = answer["state"]
    mean = state["bytes"] // state["messages"] if state["messages"] else 0
    return StreamState(max(1, state["first_seq"]), state["last_seq"], mean, answer["created"])


def read_range(broker: Broker, start: int, stop: int) -> Iterator[list[StoredMessage]]:
    """Read the messages ``start <= sequence < stop``, all of them, ascending; yields some at a time.

    Raises `StreamSourceError` if one is no longer there, or the server stays away. Holds some megabytes at a time,
    however slowly they are taken.
    """
    wanted, patience = start, Patience(broker)
    while wanted < stop:
        try:
            with broker.connect() as connection:
                for messages in _pull_all(connection, broker, wanted, stop):
                    wanted = messages[-1].sequence + 1
                    yield messages
                    patience.renew()
        except OSError as fault:
            patience.wait(fault)


def _pull_all(connection: NatsConnection, broker: Broker, wanted: int, stop: int) -> Iterator[list[StoredMessage]]:
    """Read a range over one connection, through a consumer of its own."""
    consumer = f"ledto-{os.urandom(8).hex()}"
    _create(connection, broker, consumer, wanted)
    # With a limit below the largest message, that message would never come.
    most_bytes = max(_PULL_BYTES, 4 * connection.max_payload_bytes)
    while wanted < stop:
        messages = _pull(connection, broker, consumer, wanted, min(stop - wanted, _PULL_MESSAGES), most_bytes)
        if messages:
            wanted = messages[-1].sequence + 1
            yield messages
        else:
            _explain_silence(connection, broker, wanted)
    with suppress(OSError, StreamSourceError):
        _ask(connection, broker, "CONSUMER.DELETE", {}, consumer)


def _create(connection: NatsConnection, broker: Broker, consumer: str, start: int) -> None:
    """Create the consumer that begins at a sequence number."""
    config = {
        "name": consumer,
        "deliver_policy": "by_start_sequence",
        "opt_start_seq": start,
        "ack_policy": "none",
        "replay_policy": "instant",
        "mem_storage": True,
        "num_replicas": 1,
        "inactive_threshold": _FORGET_NS,
    }
    _ask(connection, broker, "CONSUMER.CREATE", {"stream_name": broker.stream, "config": config}, consumer)


def _pull(
    connection: NatsConnection, broker: Broker, consumer: str, wanted: int, most: int, most_bytes: int
) -> list[StoredMessage]:
    """Pull messages from `wanted` on: some of them, or none if the server gives none in a while."""
    pull = {"batch": most, "max_bytes": most_bytes, "expires": _PULL_NS}
    subject = f"$JS.API.CONSUMER.MSG.NEXT.{broker.stream}.{consumer}"
    token = os.urandom(8).hex()
    connection.publish(subject, json.dumps(pull).encode(), answer_to=token)
    messages: list[StoredMessage] = []
    while len(messages) < most:
        to, message = connection.next()
        if message.reply.startswith(b"$JS.ACK."):
            sequence, time_ns = parse_ack_subject(message.reply)
            if sequence > wanted:
                raise messages_gone(broker, wanted, sequence)
            if sequence < wanted:
                raise ConnectionError(f"message {sequence} came again in place of {wanted}")
            messages.append(StoredMessage(sequence, time_ns, message.payload))
            wanted += 1
        elif to == token and message.status >= 400:
            if message.status in (404, 408) or "MaxBytes" in message.note:
                break
            raise ConnectionError(f"the server stopped giving: {message.note}")
    return messages


def parse_ack_subject(reply: bytes) -> tuple[int, int]:
    """Parse the stream's sequence number and time, in ns, from the subject that an acknowledgement would go to.

    ``$JS.ACK.STREAM.CONSUMER.TIMES.SEQUENCE.COUNT.TIME.PENDING``, or with ``DOMAIN.ACCOUNT`` before the stream and
    possibly more behind.
    """
    tokens = reply.split(b".")
    first = 2 if len(tokens) == 9 else 4
    return int(tokens[first + 3]), int(tokens[first + 5])


def _explain_silence(connection: NatsConnection, broker: Broker, wanted: int) -> None:
    """Raise the reason why the server gives no message: that it is gone, or something that may pass."""
    state = stream_state(connection, broker)
    if state.last < wanted:
        raise StreamSourceError(
            f"{broker} ends at message {state.last}, and message {wanted} had been there: the broker lost what it had "
            "stored. Its storage must sync before it acknowledges (sync_interval: always)"
        )
    try:
        _ask(connection, broker, "STREAM.MSG.GET", {"seq": wanted})
    except _NotFound:
        raise messages_gone(broker, wanted, max(wanted + 1, state.first)) from None
    raise ConnectionError(f"message {wanted} exists and is not given")


def messages_gone(broker: Broker, first: int, next_there: int) -> StreamSourceError:
    """Make the error for messages from `first` on that were not read and are no longer there."""
    which = f"message {first} is" if next_there == first + 1 else f"messages {first} to {next_there - 1} are"
    return StreamSourceError(
        f"{which} gone from {broker}, and were not read yet: deleted, purged, or dropped by the stream's limits. Their "
        "reports are lost; to go on without them, start with a new checkpoint, and let the stream refuse what is new "
        "when it is full (discard: new)"
    )


class _NotFound(Exception):
    """The server has no such message."""


def _ask(connection: NatsConnection, broker: Broker, what: str, content: dict[str, Any], *names: str) -> dict[str, Any]:
    """Ask the JetStream API; raises `_NotFound`, `ConnectionError` for what may pass, and `StreamSourceError`."""
    answer = connection.request(".".join(("$JS.API", what, broker.stream, *names)), content)
    error = answer.get("error")
    if error is None:
        return answer
    if error.get("err_code") == _NO_MESSAGE_FOUND:
        raise _NotFound
    reason = error.get("description", "no reason given")
    if error.get("err_code") == _STREAM_NOT_FOUND:
        # The stream may be about to be made, or a starting server may not have loaded it yet: worth waiting.
        raise ConnectionError(f"there is no stream {broker.stream}; check its name, or start what fills it")
    if error.get("code", 500) >= 500:
        raise ConnectionError(f"{what}: {reason}")
    raise StreamSourceError(f"{broker} refuses {what}: {reason}")
