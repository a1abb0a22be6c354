"""Open the source that a user names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from ledto.spark.stream.contract import StreamSource
from ledto.spark.stream.files.source import DirectorySource
from ledto.spark.stream.kafka import KafkaSource
from ledto.spark.stream.nats.source import BrokerSource


def open_source(url_or_path: str, options: Mapping[str, Any]) -> StreamSource:
    """Make the source that is named, with its options; options that are ``None`` count as not given. Reads nothing yet.

    ``nats://HOST:PORT/STREAM`` (or ``tls://``) is a JetStream stream, ``kafka://HOST:PORT,HOST:PORT/TOPIC`` a Kafka
    topic, and anything else a folder or a pattern of files, by path or by a URI that pyarrow knows. Raises
    `StreamSourceError` for unknown names and options.
    """
    scheme = urlsplit(url_or_path).scheme.lower() if "://" in url_or_path else ""
    if scheme in ("nats", "tls"):
        return BrokerSource.at(url_or_path, options)
    if scheme == "kafka":
        return KafkaSource.at(url_or_path, options)
    return DirectorySource.at(url_or_path, options)
