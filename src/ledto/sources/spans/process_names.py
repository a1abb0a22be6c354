"""The name of a process, from what a trace says of it: one rule for OTLP, Jaeger and Zipkin.

A name is the service and, after an ``@``, what tells its instances apart::

    auth@10.0.3.17    auth@web-3/pid-4711    auth@627cc493-f310-47de-96bd-71410b7dec09    auth

Two instances have two clocks, perhaps on two machines. If they had one name, their events would be put in the order of
clocks that nobody compared. So all that is known counts, but for what something stronger makes needless:

1. ``service.instance.id`` stands alone: OpenTelemetry promises that no other instance of the service has it.
2. Else the place: ``container.id``; else ``k8s.pod.uid``, after the pod's name; else all names, addresses and ids of pod
   and host together, because each of these alone may be the same on two machines (``db-0``, ``localhost``,
   ``10.0.2.15``, the id of a cloned disk).
3. And within the place the process: its id, and Jaeger's ``client-uuid``.

HAZARD: a name is made of one record, without looking at others. An instance of which one record says more than another,
in what counts, is two processes, and its own clock then orders nothing between the two.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final

from ledto.sources.json.typed import text_of
from ledto.sources.rows import BadRecord

INSTANCE_SEPARATOR: Final = "@"
"""Between the service and what tells its instances apart."""

INSTANCE_ID: Final = "service.instance.id"
CONTAINER_ID: Final = "container.id"
POD_NAME: Final = "k8s.pod.name"
POD_ID: Final = "k8s.pod.uid"
HOST: Final = ("host.name", "hostname", "host.ip", "ip", "host.id")
"""Jaeger's own clients say ``hostname`` and ``ip``."""
PROCESS_ID: Final = "process.pid"
CLIENT_ID: Final = "client-uuid"

IDENTIFYING: Final = (INSTANCE_ID, CONTAINER_ID, POD_NAME, POD_ID, *HOST, PROCESS_ID, CLIENT_ID)
"""Names of attributes that may tell instances apart."""

LONGEST_TEXT_CHARACTERS: Final = 1_000
"""Of a service, and of each attribute that tells its instances apart. A name is copied into every row of its process:
a megabyte in one place would be gigabytes of rows."""
LONGEST_INSTANCE_CHARACTERS: Final = 60
"""What is longer is cut off, and a digest of the whole takes the place of the rest."""

_CUT_CHARACTERS = 32
_DIGEST_BYTES = 8
_SHOWN_CHARACTERS = 60


def process_name(service: str, attributes: Mapping[str, Any]) -> str:
    """The name of the instance of a service that these attributes describe; the service alone where none tells.

    Attributes that do not count are not looked at. Raises `BadRecord` for one that counts and is neither text nor an
    integer (nor, for addresses, a list of them), and for one that is too long.
    """
    check_length("the service's name", service)
    # The first @ of a name comes after the service; one of its own is written as in a URL.
    service = service.replace("%", "%25").replace(INSTANCE_SEPARATOR, "%40")
    instance_id = attribute_text(attributes, INSTANCE_ID)
    instance = _short(instance_id) if instance_id else _joined([*_place(attributes), *_process(attributes)])
    return f"{service}{INSTANCE_SEPARATOR}{instance}" if instance else service


def attribute_text(attributes: Mapping[str, Any], name: str) -> str | None:
    """The text of an attribute, or its integer as text; None where it is absent or empty.

    Raises `BadRecord` for anything else, for a NUL character, and for a text that is too long.
    """
    value = attributes.get(name)
    return None if value is None or value == "" else _text(value, name)


def check_length(name: str, value: str) -> None:
    """Raise `BadRecord` for a text that is too long to be copied into every row."""
    if len(value) > LONGEST_TEXT_CHARACTERS:
        raise BadRecord(
            "bad-field", f"{name} has {len(value)} characters, and {LONGEST_TEXT_CHARACTERS} at most are taken"
        )


def _place(attributes: Mapping[str, Any]) -> list[str]:
    """What tells a machine, or a part of one, from others."""
    if container := attribute_text(attributes, CONTAINER_ID):
        return [container]
    names = (POD_NAME, POD_ID) if attribute_text(attributes, POD_ID) else (POD_NAME, *HOST)
    # A pod's host often has the pod's name, and both of OpenTelemetry's and Jaeger's attributes may be there.
    return list(dict.fromkeys(value for name in names for value in _values(attributes, name)))


def _process(attributes: Mapping[str, Any]) -> list[str]:
    """What tells a process from others in the same place."""
    number, client = attribute_text(attributes, PROCESS_ID), attribute_text(attributes, CLIENT_ID)
    return [*([f"pid-{number}"] if number else []), *([client] if client else [])]


def _values(attributes: Mapping[str, Any], name: str) -> list[str]:
    """The texts of an attribute that may be a list, in an order that does not depend on how they were listed."""
    given = attributes.get(name)
    if not isinstance(given, list) or name not in HOST:
        found = attribute_text(attributes, name)
        return [found] if found else []
    return sorted({_text(value, name) for value in given if value is not None and value != ""})


def _text(value: Any, name: str) -> str:
    if type(value) is int:
        return str(value)
    if not isinstance(value, str):
        shown = text_of(value)
        raise BadRecord("bad-field", f"{name} is text, not {shown[:_SHOWN_CHARACTERS]}")
    if "\0" in value:
        raise BadRecord("bad-field", f"{name} holds a NUL character")
    check_length(name, value)
    return value


def _joined(parts: list[str]) -> str:
    """The parts as one text, which is another one for other parts: their own slashes are written as in a URL."""
    return _short("/".join(part.replace("%", "%25").replace("/", "%2F") for part in parts))


def _short(instance: str) -> str:
    if len(instance) <= LONGEST_INSTANCE_CHARACTERS:
        return instance
    digest = hashlib.blake2b(instance.encode("utf-8", "surrogatepass"), digest_size=_DIGEST_BYTES).hexdigest()
    return f"{instance[:_CUT_CHARACTERS]}.{digest}"
