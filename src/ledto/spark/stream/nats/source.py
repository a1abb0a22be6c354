"""Read a JetStream stream as a source: a row for each message, by sequence number, as a Python data source of Spark.

The offset is the next sequence number to read. Spark's checkpoint fixes which messages a micro-batch has before they
are read, and JetStream never gives a number twice, so a batch that runs again has the same rows.

Spark redacts the options ``token`` and ``password`` wherever it prints options (``spark.redaction.regex``). The
environment variable and the token file are read where the query's driver runs; tasks get the secret with their range.
"""

# ruff: noqa: N802  (Spark gives the methods of a data source their names)

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from ledto.spark.stream.contract import (
    FRAMES,
    FRAMES_DDL,
    ROWS,
    StreamSourceError,
    end_of_batch,
    refuse_unknown,
    split_range,
    whole_number,
)
from ledto.spark.stream.nats.client import Server
from ledto.spark.stream.nats.jetstream import (
    Broker,
    StoredMessage,
    StreamRequests,
    StreamState,
    messages_gone,
    read_range,
)

TOKEN_VARIABLE: Final = "LEDTO_BROKER_TOKEN"
"""The environment variable with the broker's token, used if no option has one."""

OPTIONS: Final = (
    "maxMessages",
    "maxBytes",
    "parallelism",
    "patienceSeconds",
    "token",
    "tokenFile",
    "user",
    "password",
    "tlsCaFile",
)
"""The options for a broker; see docs/follow.md."""

_FORMAT: Final = "ledto_nats"
_MAX_MESSAGES: Final = 10_000
_MAX_BYTES: Final = 64 << 20
_PATIENCE_SECONDS: Final = 60
_LEAST_MESSAGES_A_TASK: Final = 500
_PORT: Final = 4222


@dataclass(frozen=True, slots=True)
class BrokerSource:
    """A stream of a NATS server, by ``nats://HOST:PORT/STREAM``, or ``tls://`` where TLS must be used."""

    address: str
    stream: str
    tls: bool
    options: Mapping[str, Any] = field(repr=False)

    @classmethod
    def at(cls, url: str, options: Mapping[str, Any]) -> BrokerSource:
        """Parse the URL and check the options.

        Credentials in the URL (``TOKEN@`` or ``USER:PASSWORD@``) become options.
        """
        parts = urlsplit(url)
        stream = unquote(parts.path.strip("/"))
        try:
            host, port = parts.hostname, parts.port or _PORT
        except ValueError:
            host, port = None, _PORT
        if not host or not stream or set(stream) & set("./*> \t") or parts.query or parts.fragment:
            raise StreamSourceError(
                f"a broker is named as nats://HOST:PORT/STREAM, and this is not: {_without_secrets(url)}"
            )
        set_options = {name: value for name, value in options.items() if value is not None}
        if parts.username is not None:
            if parts.password is None:
                set_options.setdefault("token", unquote(parts.username))
            else:
                set_options.setdefault("user", unquote(parts.username))
                set_options.setdefault("password", unquote(parts.password))
        refuse_unknown(set_options, OPTIONS, what="a broker")
        source = cls(
            f"[{host}]:{port}" if ":" in host else f"{host}:{port}", stream, parts.scheme == "tls", set_options
        )
        _NatsSettings.of(source._spark_options(parallelism=1))
        return source

    @property
    def name(self) -> str:
        """The name of the source, and the `origin` of its rows."""
        return f"nats:{self.stream}"

    @property
    def names_files(self) -> bool:
        """False: payloads are the messages themselves."""
        return False

    def describe(self) -> str:
        """Say where the messages come from."""
        return f"messages of the stream {self.stream} of the NATS server at {self.address}"

    def load(self, session: SparkSession) -> DataFrame:
        """Make the streaming DataFrame: a row for each message; tasks read consecutive ranges, in order."""
        session.dataSource.register(NatsDataSource)
        options = self._spark_options(parallelism=session.sparkContext.defaultParallelism)
        return session.readStream.format(_FORMAT).options(**options).load()

    def trim(self, upto: int) -> None:
        """Have the broker delete messages with lower numbers than `upto`, which makes room for new ones."""
        requests = StreamRequests(_NatsSettings.of(self._spark_options(parallelism=1)).broker())
        try:
            requests.purge(upto)
        finally:
            requests.close()

    def _spark_options(self, *, parallelism: int) -> dict[str, str]:
        options = {"parallelism": parallelism, **self.options}
        options |= {"address": self.address, "stream": self.stream, "tls": self.tls}
        return {name: str(value) for name, value in options.items()}


@dataclass(frozen=True, slots=True)
class _NatsSettings:
    """The options of the data source, parsed."""

    options: Mapping[str, Any] = field(repr=False)
    max_messages: int
    max_bytes: int
    parallelism: int
    patience_seconds: int

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> _NatsSettings:
        return cls(
            options,
            whole_number(options, "maxMessages", _MAX_MESSAGES),
            whole_number(options, "maxBytes", _MAX_BYTES),
            whole_number(options, "parallelism", 1),
            whole_number(options, "patienceSeconds", _PATIENCE_SECONDS, least=0),
        )

    def broker(self) -> Broker:
        get = self.options.get
        host, _, port = self.options["address"].rpartition(":")
        token = get("token") or self._token_in_file() or (None if get("user") else os.environ.get(TOKEN_VARIABLE))
        tls = get("tls") == "True" or get("tlsCaFile") is not None
        server = Server(host.strip("[]"), int(port), token, get("user"), get("password"), tls, get("tlsCaFile"))
        return Broker(server, self.options["stream"], self.patience_seconds)

    def _token_in_file(self) -> str | None:
        name = self.options.get("tokenFile")
        if name is None:
            return None
        try:
            return Path(name).read_text().strip()
        except OSError as fault:
            raise StreamSourceError(
                f"the file {name} of the option tokenFile cannot be read: {fault.strerror}"
            ) from None


class NatsDataSource(DataSource):
    """Spark's data source for `BrokerSource`, which should be used instead."""

    @classmethod
    def name(cls) -> str:
        """Get the name of the format."""
        return _FORMAT

    def schema(self) -> str:
        """Get the columns of `FRAMES`."""
        return FRAMES_DDL

    def streamReader(self, schema: StructType) -> NatsStreamReader:
        """Make a reader. Spark runs it in a process beside the driver, which lives as long as the query."""
        return NatsStreamReader(_NatsSettings.of(self.options))


@dataclass
class _Range(InputPartition):
    """The range that one task reads. Goes to the task pickled, and is not in the text of any plan."""

    broker: Broker
    start: int
    stop: int


class NatsStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the stream.

    Offsets are ``{"next": SEQUENCE, "created": TIME}``: the next message, of the stream made then.
    """

    def __init__(self, settings: _NatsSettings) -> None:
        self._settings = settings
        self._broker = settings.broker()
        self._requests = StreamRequests(self._broker)
        self._stop_at: int | None = None

    def initialOffset(self) -> dict[str, Any]:
        """Get the offset of the oldest message."""
        state = self._requests.state()
        return {"next": state.first, "created": state.created}

    def getDefaultReadLimit(self) -> ReadLimit:
        """Get the limit that the options set."""
        return ReadMaxRows(self._settings.max_messages)

    def prepareForTriggerAvailableNow(self) -> None:
        """Stop at the last message that there is; later ones are for another run."""
        self._stop_at = self._requests.state().last + 1

    def reportLatestOffset(self) -> dict[str, Any]:
        """Get the offset after the last message, for the query's progress reports."""
        state = self._requests.state()
        return {"next": state.last + 1, "created": state.created}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Find how far the next micro-batch reads."""
        state = self._requests.state()
        self._check_same(start, state)
        stop = state.last + 1 if self._stop_at is None else min(self._stop_at, state.last + 1)
        if isinstance(limit, ReadAllAvailable):
            return start | {"next": max(start["next"], stop)}
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else self._settings.max_messages
        return start | {
            "next": end_of_batch(
                start["next"], stop, most=most, most_bytes=self._settings.max_bytes, mean_bytes=state.mean_bytes
            )
        }

    def _check_same(self, start: dict[str, Any], state: StreamState) -> None:
        """Raise `StreamSourceError` if the stream is not the checkpoint's, or lost messages that were not read."""
        if start["created"] != state.created:
            raise StreamSourceError(
                f"{self._broker} was made at {state.created}, and the checkpoint is of one made at {start['created']}: "
                "another took its name. Start with a new checkpoint and history, or give back the broker its storage"
            )
        if start["next"] > state.last + 1:
            raise StreamSourceError(
                f"{self._broker} ends at message {state.last}, and the checkpoint has read up to {start['next'] - 1}: the "
                "broker lost what it had stored. Give back its storage, or start with a new checkpoint and history"
            )
        if start["next"] < state.first:
            raise messages_gone(self._broker, start["next"], state.first)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[_Range]:
        """Share the range among tasks: consecutive, in order, at most as many as the option parallelism says."""
        ranges = split_range(start["next"], end["next"], parts=self._settings.parallelism, least=_LEAST_MESSAGES_A_TASK)
        return [_Range(self._broker, first, end) for first, end in ranges]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the messages of a range; runs in a task."""
        assert isinstance(partition, _Range)
        for messages in read_range(partition.broker, partition.start, partition.stop):
            yield as_frames(messages, partition.broker.stream)

    def stop(self) -> None:
        """Close the connection at the end of the query."""
        self._requests.close()


def as_frames(messages: list[StoredMessage], stream: str) -> pa.RecordBatch:
    """Turn messages into rows of `FRAMES`."""
    count = len(messages)
    columns = [
        pa.repeat(stream, count),
        pa.array([message.sequence for message in messages], pa.int64()),
        pa.array([message.time_ns for message in messages], pa.int64()),
        pa.repeat(ROWS, count),
        pa.repeat(f"nats:{stream}", count),
        pa.array([message.payload for message in messages], pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=FRAMES)


def _without_secrets(url: str) -> str:
    """Cut the credentials out of a URL."""
    before, at, behind = url.rpartition("@")
    return f"{before.partition('://')[0]}://...@{behind}" if at else url
