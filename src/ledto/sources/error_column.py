"""Fill the column ``error`` of `REPORTS` from the attributes: whether an event reports a failure.

Each of these attributes reports one::

    {"level": "ERROR"}    {"error": "disk full"}    {"exception.type": "KeyError"}    {"http.status_code": 503}

The column is True if any attribute reports a failure. It is False if none does and one denies it, as ``{"error": false}``
does. Else it is null. A span's status of OpenTelemetry (``otel.status_code``) overrides all other attributes.

Names of attributes match in any case, and also as nested objects: ``{"log": {"level": "error"}}``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Mask: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]

LEVELS: Final = ("level", "severity", "levelname", "loglevel", "log_level", "log.level", "lvl", "severity_text")
"""Attributes that hold the level of a log record, as a word."""
GRAVE: Final = frozenset(
    ("error", "err", "fatal", "critical", "crit", "emergency", "emerg", "alert", "severe", "panic", "dpanic")
)
"""Levels that mean a failure. OpenTelemetry puts a digit after some: ``ERROR2``."""
GRAVE_NUMBERS: Final[Mapping[str, frozenset[int]]] = {
    "level": frozenset((50, 60)),
    "levelno": frozenset((40, 50)),
    "severity_number": frozenset(range(17, 25)),
    "severitynumber": frozenset(range(17, 25)),
    "severity": frozenset(range(4)),
    "syslog.severity": frozenset(range(4)),
    "syslog_severity": frozenset(range(4)),
    "log.syslog.severity.code": frozenset(range(4)),
}
"""The numbers that mean a failure: of bunyan and pino, of Python's logging, of OpenTelemetry, and of syslog."""
ERRORS: Final = ("error", "err")
"""Attributes that hold whether there was an error, or which one."""
TRACES: Final = (
    *("error.type", "error.message", "error.kind", "error.object", "error.stack", "error.stack_trace", "error.code"),
    *("exception", "exception.type", "exception.message", "exception.stacktrace", "exc_info"),
    *("stack_trace", "stacktrace", "traceback"),
)
"""Attributes that only a failure has."""
HTTP_STATUSES: Final = (
    *("http.status_code", "http.response.status_code", "http.status", "http_status", "http_status_code"),
    *("status_code", "statuscode", "res.statuscode", "response.status_code", "response.statuscode"),
)
SPAN_STATUS: Final = "otel.status_code"

NO_ERROR_TEXTS: Final = frozenset(("", "-", "0", "none", "null", "nil", "<nil>", "no", "n/a", "ok", "undefined"))
"""Values that programs write for "no error"."""

_INSIDE: Final = frozenset(
    ("http", "http.response", "log", "log.syslog", "log.syslog.severity", "syslog", "res", "response")
)
"""Nested objects whose members count as attributes."""
_NO_NUMBERS: Final[frozenset[int]] = frozenset()
_SEVERE_STATUSES, _CLIENT_STATUSES = range(500, 600), range(400, 600)


def is_error(attributes: Mapping[str, Any], *, of_client: bool = False) -> bool | None:
    """Return whether these attributes report a failure; None if they do not say.

    An HTTP status of 400 to 499 is a failure of the client only: set `of_client` for the end of a client's span.
    """
    answer: bool | None = None
    for name, value in _with_rules(attributes, ""):
        if name == SPAN_STATUS:
            if isinstance(value, str) and value.lower() in ("ok", "error"):
                return value.lower() == "error"
            continue
        for element in value if isinstance(value, list) else (value,):
            is_failure = _RULES[name](name, element, of_client)
            if is_failure is not None:
                answer = answer or is_failure
    return answer


def errors_of(given: pa.Array, attributes: pa.Array, of_client: Mask | None = None) -> pa.Array:
    """Fill the nulls of the column `given` by `is_error` of the attributes, which are JSON texts or null.

    Decodes only the texts that could say something: one regular expression finds them, in a fraction of the time.
    """
    if attributes.null_count == len(attributes):
        return given
    candidates = pc.and_(pc.match_substring_regex(attributes, _COULD_TELL), given.is_null())
    rows = np.flatnonzero(pc.fill_null(candidates, False).to_numpy(zero_copy_only=False))
    if not len(rows):
        return given
    known = given.is_valid().to_numpy(zero_copy_only=False)
    errors = given.fill_null(False).to_numpy(zero_copy_only=False)
    for row, text in zip(rows.tolist(), attributes.take(pa.array(rows)).to_pylist(), strict=True):
        answer = is_error(_decode_object(text), of_client=of_client is not None and bool(of_client[row]))
        if answer is not None:
            errors[row], known[row] = answer, True
    return pa.array(errors, pa.bool_(), mask=~known)


def with_errors(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Fill the column ``error`` of reports where it is null and their attributes say."""
    given = batch["error"]
    errors = errors_of(given, batch["attributes"])
    at = batch.schema.get_field_index("error")
    return batch if errors is given else batch.set_column(at, batch.schema.field(at), errors)


def errors_of_column(name: str, column: pa.Array) -> pa.Array | None:
    """Apply `is_error` to one attribute that is a column of its own; None for an attribute without a rule."""
    if name.lower() not in _RULES and name.lower() != SPAN_STATUS:
        return None
    if pa.types.is_nested(column.type):
        return pa.array([is_error({name: value}) for value in column.to_pylist()], pa.bool_())
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    by_value = pa.array([is_error({name: value}) for value in encoded.dictionary.to_pylist()], pa.bool_())
    return by_value.take(encoded.indices)


def combine_errors(columns: Iterable[pa.Array]) -> pa.Array | None:
    """Combine columns of truth values: True if any is, else False if any is, else null. None without columns."""
    combined = None
    for column in columns:
        # Kleene's "or" of null and False is null: the value that is not null counts.
        combined = column if combined is None else pc.coalesce(pc.or_kleene(combined, column), combined, column)
    return combined


def _with_rules(attributes: Mapping[str, Any], outer: str) -> Iterator[tuple[str, Any]]:
    """Yield the attributes that have a rule, with their names in lower case and their values."""
    for key, value in attributes.items():
        name = outer + key.lower()
        if name in _LOOKED_AT and value is not None:
            if name not in _INSIDE:
                yield name, value
            elif isinstance(value, dict):
                yield from _with_rules(value, f"{name}.")


def _decode_object(text: str) -> Mapping[str, Any]:
    try:
        value = _decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        # A number of thousands of digits is JSON, but Python refuses to make an integer of it.
        value = json.loads(text, parse_int=str)
    return value if isinstance(value, dict) else {}


_decode = msgspec.json.Decoder().decode


def _by_level(name: str, value: Any, of_client: bool) -> bool | None:
    if isinstance(value, str):
        return True if value.strip().lower().rstrip("1234") in GRAVE else None
    return _by_number(name, value, of_client)


def _by_number(name: str, value: Any, of_client: bool) -> bool | None:
    grave = GRAVE_NUMBERS.get(name, _NO_NUMBERS)
    # In an attribute that usually has a word, digits in quotes may mean anything.
    if isinstance(value, str) and name not in LEVELS:
        return True if value in map(str, grave) else None
    return True if type(value) is int and value in grave else None


def _by_error(name: str, value: Any, of_client: bool) -> bool | None:
    if value is False or (isinstance(value, str) and value.strip().lower() == "false"):
        return False
    return True if _says_something(value) else None


def _by_trace(name: str, value: Any, of_client: bool) -> bool | None:
    return True if value is not False and _says_something(value) else None


def _says_something(value: Any) -> bool:
    if isinstance(value, str):
        return value.strip().lower() not in NO_ERROR_TEXTS
    if isinstance(value, dict):
        return any(map(_says_something, value.values()))
    if isinstance(value, list):
        return any(map(_says_something, value))
    return bool(value)


def _by_http(name: str, value: Any, of_client: bool) -> bool | None:
    if isinstance(value, str) and len(value) == 3 and value.isascii() and value.isdigit():
        value = int(value)
    if type(value) is not int:
        return None
    return True if value in (_CLIENT_STATUSES if of_client else _SEVERE_STATUSES) else None


_RULES: Final[dict[str, Callable[[str, Any, bool], bool | None]]] = {
    **dict.fromkeys(HTTP_STATUSES, _by_http),
    **dict.fromkeys(GRAVE_NUMBERS, _by_number),
    **dict.fromkeys(LEVELS, _by_level),
    **dict.fromkeys(TRACES, _by_trace),
    **dict.fromkeys(ERRORS, _by_error),
}


_LOOKED_AT: Final = frozenset((*_RULES, *_INSIDE, SPAN_STATUS))


def _keys(names: Iterable[str]) -> str:
    """Build an expression for any of these names as a key, in an object or in a nested one, and the colon after it."""
    inner = {name.rpartition(".")[2] for name in names if name.rpartition(".")[0] in _INSIDE}
    return rf'"(?:{"|".join(map(re.escape, sorted({*names, *inner})))})"\s*:\s*'


def _could_tell() -> str:
    """Build an expression that matches every text for which `is_error` is not None, and few others."""
    numbers = sorted({str(number) for grave in GRAVE_NUMBERS.values() for number in grave})
    return "|".join(
        (
            _keys((*ERRORS, *TRACES)) + r'(?:[^n"\s]|"[^"])',
            _keys(LEVELS) + rf'(?:"\s*(?:{"|".join(sorted(GRAVE))})|\[)',
            _keys(GRAVE_NUMBERS) + rf'(?:"?(?:{"|".join(numbers)})(?:[^0-9]|$)|\[)',
            _keys(HTTP_STATUSES) + r'(?:"?[45][0-9][0-9]|\[)',
            _keys((SPAN_STATUS,)) + r'"(?:ok|error)"',
            # A letter may be written as its number.
            r"\\u00",
        )
    )


_COULD_TELL: Final = f"(?i){_could_tell()}"
