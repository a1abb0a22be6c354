"""How the columns of a Parquet file in the format ``whence`` become those of `REPORTS`: types checked, SQL written.

The expressions are Spark's SQL; that they are written here, as text, lets them be looked at without Spark.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
from pyarrow import types as kinds

from whence.events.schema import COLUMNS, REPORTS, STAMPED, TEXT_LIMIT_CHARACTERS
from whence.sources.contract import SourceError
from whence.sources.records import FIELDS
from whence.sources.rows import MOST_CAUSES
from whence.sources.times import NANOSECONDS_IN

TAKEN: Final = ("causal_time", "correction", "corrected_time", "missing", "level", "index", "position")

RESERVED: Final = frozenset({*COLUMNS, *FIELDS, *TAKEN})
"""Names that the tables of a history give a meaning of their own."""

_WANTED: Final = {
    "computation": "text",
    "process": "text",
    "seq": "an integer",
    "time": "an integer or a timestamp",
    "arrival": "an integer or a timestamp",
    "kind": "text",
    "message": "text, an integer, or a list of them",
    "sends": "text or an integer",
    "receives": "text, an integer, or a list of them",
    "id": "text or an integer",
    "name": "text",
    "stamp": "JSON text or a struct",
    "attributes": "JSON text, a map of text, or a struct",
}


@dataclass(slots=True)
class Mapping:
    """What to select: `steps` add columns one after the other, `columns` gives those of `REPORTS`."""

    raw_times: frozenset[str]
    """Columns to read as the integers that are stored."""
    timestamps: frozenset[str]
    """Those, and the ones that are stored in an old way that has no integer."""
    has_nanoseconds: bool
    native: dict[str, str]
    """Further columns, and the names that they get."""
    steps: list[dict[str, str]] = field(default_factory=list)
    columns: dict[str, str] = field(default_factory=dict)


def map_columns(schema: pa.Schema, file: str, unit: str, *, int96: Collection[str] = ()) -> Mapping:
    """The mapping of a file with this schema; raises `SourceError`, which names the file, where it does not fit.

    `int96` names the columns that hold timestamps of the deprecated kind with 96 bits, as Spark writes by default.
    """
    _check_names(schema, file)
    for name in _WANTED:
        if name in schema.names:
            _check_type(name, schema.field(name).type, file, unit)
    times = [
        name for name in ("time", "arrival") if name in schema.names and kinds.is_timestamp(schema.field(name).type)
    ]
    native = {
        name: _native_name(name, schema) for name in schema.names if name not in FIELDS and not _is_clock(name, schema)
    }
    mapping = Mapping(
        raw_times=frozenset(times) - {*int96},
        timestamps=frozenset(times),
        has_nanoseconds=any(
            kinds.is_timestamp(column.type) and column.type.unit == "ns" and column.name not in int96
            for column in schema
        ),
        native=native,
    )
    _Writer(schema, unit, mapping).write()
    return mapping


def _native_name(name: str, schema: pa.Schema) -> str:
    if name not in RESERVED:
        return name
    name += "_given"
    while name in schema.names:
        name += "_given"
    return name


def _is_clock(name: str, schema: pa.Schema) -> bool:
    """Whether the column says whose clock times are from; one of another type is the user's own."""
    return name == "clock_name" and name in schema.names and _is_text(schema.field(name).type)


def _check_names(schema: pa.Schema, file: str) -> None:
    spelled: dict[str, str] = {}
    for name in schema.names:
        other = spelled.setdefault(name.lower(), name)
        if other != name or schema.names.count(name) > 1:
            raise SourceError(
                f"{file} has the columns {other!r} and {name!r}, which Spark cannot tell apart; rename one"
            )
        if name != name.lower() and name.lower() in RESERVED:
            raise SourceError(f"{file} has a column {name!r}; rename it to {name.lower()!r}, or to something else")
        if name.startswith("__") or not name or "`" in name:
            raise SourceError(
                f"{file} has a column {name!r}; rename it: it must not be empty, begin with __ or hold a `"
            )
    if "process" not in schema.names:
        raise SourceError(f"{file} has no column process, which says where an event happened; {_has(schema)}")
    if not {"seq", "time", "stamp"} & {*schema.names}:
        raise SourceError(f"{file} has neither a column seq nor a column time to order events by; {_has(schema)}")


def _has(schema: pa.Schema) -> str:
    return f"it has {', '.join(schema.names[:20])}; rename one of them" if schema.names else "it has no columns"


def _check_type(name: str, kind: pa.DataType, file: str, unit: str) -> None:
    text, integer = _is_text(kind), _is_integer(kind)
    key = text or integer
    keys = key or (_is_list(kind) and (_is_text(kind.value_type) or _is_integer(kind.value_type)))
    fits = {
        "seq": integer,
        "time": integer or kinds.is_timestamp(kind),
        "arrival": integer or kinds.is_timestamp(kind),
        "message": keys,
        "sends": key,
        "receives": keys,
        "id": key,
        "stamp": text or kinds.is_struct(kind),
        "attributes": text or kinds.is_struct(kind) or (kinds.is_map(kind) and _is_text(kind.key_type)),
    }.get(name, text)
    if not fits:
        raise SourceError(f"{file}: the column {name} is {kind}; it must be {_WANTED[name]}. Cast it, or rename it")
    if kinds.is_timestamp(kind) and unit not in NANOSECONDS_IN:
        raise SourceError(f"{file}: the column {name} is {kind}, and the unit {unit!r} is no unit of time; cast it")


def _is_text(kind: pa.DataType) -> bool:
    if kinds.is_dictionary(kind):
        kind = kind.value_type
    return bool(kinds.is_string(kind) or kinds.is_large_string(kind) or kinds.is_null(kind))


def _is_integer(kind: pa.DataType) -> bool:
    # Spark reads unsigned 64-bit integers as decimals.
    return bool(kinds.is_integer(kind) and not kinds.is_uint64(kind))


def _is_list(kind: pa.DataType) -> bool:
    return bool(kinds.is_list(kind) or kinds.is_large_list(kind))


class _Writer:
    """Writes the expressions."""

    def __init__(self, schema: pa.Schema, unit: str, mapping: Mapping) -> None:
        self._schema = schema
        self._unit = unit
        self._mapping = mapping
        # Arrays are dear, so a file whose events have one cause at most does without.
        self._several = "stamp" in schema.names or any(
            name in schema.names and _is_list(schema.field(name).type) for name in ("message", "receives")
        )

    def write(self) -> None:
        """Fill the mapping's steps and columns."""
        keyed = {
            "__time": self._time("time"),
            "__arrival": self._time("arrival"),
            "__message": self._keys("message"),
            "__sent": self._key("sends"),
            "__received": self._keys("receives"),
            "__stamp": self._json("stamp"),
            "__kind": self._or_null("kind"),
        }
        no_messages = "__message IS NULL AND __sent IS NULL AND __received IS NULL"
        is_vector = "get_json_object(__stamp, '$.clock') = 'vector'"
        counters = "from_json(__stamp, 'struct<counters: map<string, bigint>>').counters"
        foreign = "filter(map_entries(__counters), e -> e.key <> process AND e.value > 0)"
        derived = f"transform(array_sort({foreign}), e -> concat('{STAMPED}', e.key, ':', e.value))"
        vector = {"__counters": f"CASE WHEN {no_messages} AND {is_vector} THEN {counters} END"}
        own = {"__own": "element_at(__counters, process)"}
        when_vector = (
            f"WHEN __own IS NOT NULL THEN concat('{STAMPED}', process, ':', __own)",
            f"WHEN __own IS NOT NULL THEN {derived}",
        )
        if "stamp" not in self._schema.names:
            vector, own = {}, {"__own": "CAST(NULL AS BIGINT)", "__counters": "CAST(NULL AS BIGINT)"}
            when_vector = ("", "")
        one_message = "__message[0]" if self._several else "__message"
        messages = {
            "__sends": f"CASE {when_vector[0]} WHEN __kind = 'send' THEN coalesce(__sent, {one_message}) ELSE __sent END",
            "__receives": f"CASE {when_vector[1]} "
            "WHEN __kind = 'receive' THEN coalesce(__received, __message) ELSE __received END",
            "__seq": f"coalesce({self._or_null('seq', 'BIGINT')}, __own)",
        }
        reason = {"__reason": self._reason()}
        self._mapping.steps = [step for step in (keyed, vector, own, messages, reason) if step]
        self._mapping.columns = self._columns()

    def _columns(self) -> dict[str, str]:
        good = "__reason IS NULL"
        default_kind = (
            f"CASE WHEN {self._received()} THEN 'receive' WHEN __sent IS NOT NULL THEN 'send' ELSE 'local' END"
        )
        legible = {
            "computation": f"coalesce({self._or_null('computation')}, '')",
            "process": "nullif(process, '')",
            "file": "__file",
            "place": "__row",
            "reason": "__reason",
            "text": f"CASE WHEN __reason IS NOT NULL THEN left({self._row_text()}, {TEXT_LIMIT_CHARACTERS}) END",
        }
        others = {
            "seq": "__seq",
            "time": "__time",
            "arrival": "__arrival",
            "kind": f"coalesce(__kind, {default_kind})",
            "sends": "__sends",
            "receives": "get(__receives, 0)" if self._several else "__receives",
            "receives_more": "CASE WHEN size(__receives) > 1 THEN slice(__receives, 2, size(__receives) - 1) END"
            if self._several
            else "CAST(NULL AS ARRAY<STRING>)",
            "id": self._key("id"),
            "name": self._or_null("name"),
            "stamp": "__stamp",
            "attributes": self._json("attributes"),
        }
        if _is_clock("clock_name", self._schema):
            others["clock_name"] = "nullif(clock_name, '')"
        found = legible | {name: f"CASE WHEN {good} THEN {sql} END" for name, sql in others.items()}
        # Spans and channels are what other formats have.
        kinds_of = {each.name: "BIGINT" if kinds.is_integer(each.type) else "STRING" for each in REPORTS}
        return {name: found.get(name, f"CAST(NULL AS {kind})") for name, kind in kinds_of.items()}

    def _reason(self) -> str:
        """The same codes as for JSON lines, by what the columns of one row show."""
        cases = [
            ("process IS NULL", "no-process: the column process is null"),
            ("process = ''", "bad-field: process is empty"),
            ("__kind NOT IN ('local', 'send', 'receive')", "bad-kind: kind is local, send or receive"),
        ]
        cases += [
            (f"{name} IS NOT NULL AND __{name} IS NULL", f"bad-field: {name} is beyond 64 bits of {self._unit}")
            for name in sorted(self._mapping.timestamps)
        ]
        cases += [
            (
                "__stamp IS NOT NULL AND get_json_object(__stamp, '$.clock') IS NULL",
                "bad-stamp: it is no JSON with a clock",
            ),
            (
                "__counters IS NOT NULL AND __own IS NULL",
                "bad-stamp: the vector stamp has no entry for its own process",
            ),
            ("__message IS NOT NULL AND __kind IS NULL", "no-kind: a message needs a kind, send or receive"),
            ("__message IS NOT NULL AND __kind = 'local'", "bad-kind: a local event has no message"),
            (
                "__message IS NOT NULL AND __kind = 'send' AND __sent IS NOT NULL",
                "bad-field: message and sends are both given",
            ),
            (
                "__message IS NOT NULL AND __kind = 'receive' AND __received IS NOT NULL",
                "bad-field: message and receives are both given",
            ),
            (f"__kind = 'send' AND {self._more_than('__message', 1)}", "bad-field: a send has one message"),
            ("__kind = 'send' AND __sends IS NULL", "no-message: a send needs the id of its message"),
            (
                f"__kind = 'receive' AND __own IS NULL AND NOT {self._received()}",
                "no-message: a receive needs the id of its message",
            ),
            (f"__kind = 'local' AND __own IS NULL AND {self._received()}", "bad-kind: a local event receives nothing"),
            (f"{self._key('id')} = ''", "bad-field: id is empty"),
            (f"__sends = '' OR {self._bad_key()}", "bad-field: a message's id is empty or null"),
            (self._more_than("__receives", MOST_CAUSES), f"too-many-causes: the limit is {MOST_CAUSES}"),
            ("__seq IS NULL AND __time IS NULL", "no-order: both seq and time are null"),
        ]
        whens = " ".join(f"WHEN {condition} THEN {_literal(reason)}" for condition, reason in cases)
        return f"CASE {whens} END"

    def _received(self) -> str:
        return "coalesce(size(__receives), 0) > 0" if self._several else "__receives IS NOT NULL"

    def _more_than(self, name: str, count: int) -> str:
        return f"size({name}) > {count}" if self._several else "FALSE"

    def _bad_key(self) -> str:
        return "exists(__receives, m -> m IS NULL OR m = '')" if self._several else "__receives = ''"

    def _or_null(self, name: str, kind: str = "STRING") -> str:
        return f"CAST({name} AS {kind})" if name in self._schema.names else f"CAST(NULL AS {kind})"

    def _key(self, name: str) -> str:
        return self._or_null(name)

    def _keys(self, name: str) -> str:
        if not self._several:
            return self._key(name)
        if name not in self._schema.names:
            return "CAST(NULL AS ARRAY<STRING>)"
        if _is_list(self._schema.field(name).type):
            return f"CASE WHEN size({name}) > 0 THEN transform({name}, m -> CAST(m AS STRING)) END"
        return f"CASE WHEN {name} IS NOT NULL THEN array(CAST({name} AS STRING)) END"

    def _json(self, name: str) -> str:
        if name not in self._schema.names:
            return "CAST(NULL AS STRING)"
        return name if _is_text(self._schema.field(name).type) else f"to_json({name})"

    def _time(self, name: str) -> str:
        """A column's time in the run's unit; null where it does not fit."""
        if name not in self._mapping.timestamps:
            return self._or_null(name, "BIGINT")
        count, unit = name, self._schema.field(name).type.unit
        if name not in self._mapping.raw_times:
            count, unit = f"unix_micros({name})", "us"
        have, want = NANOSECONDS_IN[unit], NANOSECONDS_IN[self._unit]
        if have >= want:
            return f"try_multiply({count}, {have // want}L)"
        # DIV cuts towards zero; times before 1970 must go down as well.
        return f"({count} - pmod({count}, {want // have}L)) DIV {want // have}L"

    def _row_text(self) -> str:
        given = ", ".join(f"`{name}`" for name in self._schema.names)
        return f"to_json(struct({given}))"


def _literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
