"""List the fields of ledto's own records with their types, and the rules that hold between them.

This is the one table for all readers of such records: JSON lines (`ledto.sources.native`), the compiled scanner
(`ledto.sources.json.scanner`), Parquet files (`ledto.sources.parquet`) and exported events in OTLP
(`ledto.sources.otlp.exported`). One literal record::

    {"process": "shop", "seq": 2, "kind": "send", "message": "m1", "name": "order placed"}
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from ledto.events.schema import LOCAL, RECEIVE, SEND


class FieldType(Enum):
    """What a field may hold. The value says it in words, as the type of a Parquet column."""

    TEXT = "text"
    TEXT_OR_ATTRIBUTE = "text, else it is an attribute"
    """A value of another type is an attribute: in many logs ``line`` is the number of a line of code."""
    TRUTH_OR_ATTRIBUTE = "a boolean, else it is an attribute"
    INTEGER = "an integer"
    TIME = "an integer or a timestamp"
    KEY = "text or an integer"
    KEYS = "text, an integer, or a list of them"
    TEXTS = "text or a list of texts"
    STAMP = "JSON text or a struct"
    ATTRIBUTES = "JSON text, a map of text, or a struct"


FIELD_TYPES: Final = {
    "computation": FieldType.TEXT,
    "process": FieldType.TEXT,
    "seq": FieldType.INTEGER,
    "time": FieldType.TIME,
    "arrival": FieldType.TIME,
    "kind": FieldType.TEXT,
    "message": FieldType.KEYS,
    "sends": FieldType.KEY,
    "receives": FieldType.KEYS,
    "id": FieldType.KEY,
    "name": FieldType.TEXT,
    "stamp": FieldType.STAMP,
    "attributes": FieldType.ATTRIBUTES,
    "error": FieldType.TRUTH_OR_ATTRIBUTE,
    "clock_name": FieldType.TEXT_OR_ATTRIBUTE,
    "line": FieldType.TEXT_OR_ATTRIBUTE,
    "line_parent": FieldType.TEXT,
    "line_joins": FieldType.TEXTS,
    "line_phase": FieldType.TEXT,
}
"""The fields that have a meaning, with their types. Every other field of a record is an attribute."""

JSON_FIELDS: Final = tuple(name for name in FIELD_TYPES if name not in ("error", "clock_name"))
"""The fields that have a meaning in JSON lines. The other two are attributes there."""

TRACE_IDS: Final = ("trace_id", "traceId", "trace.id")
SPAN_IDS: Final = ("span_id", "spanId", "span.id")
REQUEST_IDS: Final = ("request_id", "requestId")
"""Fields that name the trace, span or request of a record. If a record has several, the first usable one counts. They
stay attributes."""

LOCAL_HAS_MESSAGE: Final = "bad-kind", "a local event has no message"
LOCAL_RECEIVES: Final = "bad-kind", "a local event receives nothing"
SEND_WITHOUT_MESSAGE: Final = "no-message", "a send needs the id of its message"
RECEIVE_WITHOUT_MESSAGE: Final = "no-message", "a receive needs the id of its message"
PARENT_WITHOUT_LINE: Final = "bad-field", "line_parent names what started a line: give line as well"
BAD_LINE_PHASE: Final = "bad-field", "line_phase can only be first, on the first event of a line: give line as well"
"""Broken rules between fields: the code of the reason, and what is wrong."""


def implied_kind(*, sends: bool, receives: bool) -> str:
    """Return the kind of an event whose record does not say it."""
    return RECEIVE if receives else SEND if sends else LOCAL
