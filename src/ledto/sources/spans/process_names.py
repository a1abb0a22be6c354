"""Name the process of a trace from its attributes, by one rule for OTLP, Jaeger and Zipkin.

A name is the service and, after an ``@``, the instance::

    auth@10.0.3.17    auth@web-3/pid-4711    auth@627cc493-f310-47de-96bd-71410b7dec09    auth

Two instances have two clocks, perhaps on two machines. With one name, their events would be ordered by clocks that nobody
compared. So the instance is made of all attributes that identify it, except those that a stronger one makes needless:

1. ``service.instance.id`` alone, if there is one: OpenTelemetry promises that no other instance of the service has it.
2. Else the place: ``container.id``; else ``k8s.pod.uid``, after the pod's name; else all names, addresses and ids of pod
   and host together, because each of these alone may be the same on two machines (``db-0``, ``localhost``,
   ``10.0.2.15``, the id of a cloned disk).
3. Then the process in that place: its id, and Jaeger's ``client-uuid``.

HAZARD: a name depends on one record only. If the records of an instance differ in these attributes, they belong to
different processes, and the instance's clock does not order events between them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final

from ledto.sources.json.typed import text_of
from ledto.sources.rows import BadRecord

INSTANCE_SEPARATOR: Final = "@"
"""Between the service and the instance."""

INSTANCE_ID: Final = "service.instance.id"
CONTAINER_ID: Final = "container.id"
POD_NAME: Final = "k8s.pod.name"
POD_ID: Final = "k8s.pod.uid"
HOST: Final = ("host.name", "hostname", "host.ip", "ip", "host.id")
"""Jaeger's own clients use ``hostname`` and ``ip``."""
PROCESS_ID: Final = "process.pid"
CLIENT_ID: Final = "client-uuid"

IDENTIFYING: Final = (INSTANCE_ID, CONTAINER_ID, POD_NAME, POD_ID, *HOST, PROCESS_ID, CLIENT_ID)
"""Names of attributes that may identify an instance."""

LONGEST_TEXT_CHARACTERS: Final = 1_000
"""The length of a service and of each of these attributes, at most. A name is copied into every row of its process: with a
megabyte in one record there would be gigabytes of rows."""
LONGEST_INSTANCE_CHARACTERS: Final = 60
"""A longer instance is cut, and ends with a digest of the whole."""

_CUT_CHARACTERS = 32
_DIGEST_BYTES = 8
_SHOWN_CHARACTERS = 60


def process_name(service: str, attributes: Mapping[str, Any]) -> str:
    """Name the instance of a service with these attributes; the service alone if none identifies an instance.

    Ignores attributes that the rule does not use. Raises `BadRecord` for one that it uses and that is neither text nor an
    integer (nor, for addresses, a list of them), and for one that is too long.
    """
    check_length("the service's name", service)
    # The first @ of a name ends the service, so an @ in the service is escaped as in a URL.
    service = service.replace("%", "%25").replace(INSTANCE_SEPARATOR, "%40")
    instance_id = attribute_text(attributes, INSTANCE_ID)
    instance = _short(instance_id) if instance_id else _joined([*_place(attributes), *_process(attributes)])
    return f"{service}{INSTANCE_SEPARATOR}{instance}" if instance else service


def attribute_text(attributes: Mapping[str, Any], name: str) -> str | None:
    """Return the text of an attribute, or its integer as text; None if it is absent or empty.

    Raises `BadRecord` for anything else, for a NUL character, and for a text that is too long.
    """
    value = attributes.get(name)
    return None if value is None or value == "" else _text(value, name)


def check_length(name: str, value: str) -> None:
    """Raise `BadRecord` for a text that is too long to be copied into every row."""
    if len(value) > LONGEST_TEXT_CHARACTERS:
        raise BadRecord("bad-field", f"{name} has {len(value)} characters; the limit is {LONGEST_TEXT_CHARACTERS}")


def _place(attributes: Mapping[str, Any]) -> list[str]:
    """Return the texts that identify a machine, or a part of one."""
    if container := attribute_text(attributes, CONTAINER_ID):
        return [container]
    names = (POD_NAME, POD_ID) if attribute_text(attributes, POD_ID) else (POD_NAME, *HOST)
    # Keep each text once: a pod's host often has the pod's name, and OpenTelemetry and Jaeger name the same things twice.
    return list(dict.fromkeys(value for name in names for value in _values(attributes, name)))


def _process(attributes: Mapping[str, Any]) -> list[str]:
    """Return the texts that identify a process among others in the same place."""
    number, client = attribute_text(attributes, PROCESS_ID), attribute_text(attributes, CLIENT_ID)
    return [*([f"pid-{number}"] if number else []), *([client] if client else [])]


def _values(attributes: Mapping[str, Any], name: str) -> list[str]:
    """Return the texts of an attribute that may be a list, sorted: records may list them in any order."""
    value = attributes.get(name)
    if not isinstance(value, list) or name not in HOST:
        text = attribute_text(attributes, name)
        return [text] if text else []
    return sorted({_text(element, name) for element in value if element is not None and element != ""})


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
    """Join the parts by slashes. Other parts give another text, because slashes in parts are escaped as in a URL."""
    return _short("/".join(part.replace("%", "%25").replace("/", "%2F") for part in parts))


def _short(instance: str) -> str:
    if len(instance) <= LONGEST_INSTANCE_CHARACTERS:
        return instance
    digest = hashlib.blake2b(instance.encode("utf-8", "surrogatepass"), digest_size=_DIGEST_BYTES).hexdigest()
    return f"{instance[:_CUT_CHARACTERS]}.{digest}"
