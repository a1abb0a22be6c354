"""What a row of a Parquet file means, told row by row from docs/sources.md, in plain Python, with no thought of speed."""

from __future__ import annotations

import base64
import json
import math
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

NANOSECONDS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
STAMP_KEY = "stamp of "


def told_rows(table: pa.Table, unit: str) -> list[tuple[dict[str, Any], set[str]]]:
    """For each row the values of the report, and the codes of all that is wrong with it."""
    return [told(row, table.schema, unit) for row in plain_rows(table)]


def plain_rows(table: pa.Table) -> list[dict[str, Any]]:
    """The rows without nulls; timestamps are their counts."""
    columns = {
        name: (column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column).to_pylist()
        for name, column in zip(table.column_names, table.columns, strict=True)
    }
    return [
        {name: values[row] for name, values in columns.items() if values[row] is not None}
        for row in range(table.num_rows)
    ]


def told(row: dict[str, Any], schema: pa.Schema, unit: str) -> tuple[dict[str, Any], set[str]]:
    wrong: set[str] = set()
    report: dict[str, Any] = {"computation": row.get("computation", ""), "process": row.get("process") or None}
    if "process" not in row:
        wrong.add("no-process")
    if row.get("process") == "":
        wrong.add("bad-field")
    known = [name for name in ("clock_name", "line") if column_is_text(schema, name)]
    texts = ["computation", "process", "kind", "name", "line_parent", "line_phase", *known]
    if any("\0" in row.get(name, "") for name in texts):
        wrong.add("bad-field")
    for name in ("time", "arrival"):
        report[name] = in_unit(row.get(name), schema, name, unit)
        if report[name] is not None and not -(2**63) <= report[name] < 2**63:
            wrong.add("bad-field")
    report["id"] = None if "id" not in row else str(row["id"])
    report["name"] = row.get("name")
    report |= {name: row.get(name) or None for name in known}
    set_lines(row, report, wrong)
    report["attributes"] = attributes(row.get("attributes"), schema, wrong)
    report["seq"] = report["given_seq"] = row.get("seq")
    set_messages(row, schema, report, wrong)
    if report["seq"] is None and report["time"] is None:
        wrong.add("no-order")
    if not usable(report["id"]) or not all(map(usable, [report["sends"], *report["received"]])):
        wrong.add("bad-field")
    return report, wrong


def usable(key: str | None) -> bool:
    return key is None or (key != "" and "\0" not in key)


def set_lines(row: dict[str, Any], report: dict[str, Any], wrong: set[str]) -> None:
    report["line_parent"] = row.get("line_parent")
    if report["line_parent"] is not None and (report["line_parent"] == "" or report.get("line") is None):
        wrong.add("bad-field")
    report["line_phase"] = row.get("line_phase")
    if report["line_phase"] is not None and (report["line_phase"] != "first" or report.get("line") is None):
        wrong.add("bad-field")
    given = row.get("line_joins") or []
    report["line_joins"] = ([given] if isinstance(given, str) else given) or None
    if row.get("line_joins") == "" or any(each is None or not usable(each) for each in report["line_joins"] or ()):
        wrong.add("bad-field")


def column_is_text(schema: pa.Schema, name: str) -> bool:
    if name not in schema.names:
        return False
    kind = schema.field(name).type
    return pa.types.is_null(kind) or str(kind) in ("string", "large_string") or pa.types.is_dictionary(kind)


def in_unit(count: int | None, schema: pa.Schema, name: str, unit: str) -> int | None:
    if count is None or not pa.types.is_timestamp(schema.field(name).type):
        return count
    return count * NANOSECONDS[schema.field(name).type.unit] // NANOSECONDS[unit]


def attributes(value: Any, schema: pa.Schema, wrong: set[str]) -> Any:
    if value is None:
        return None
    if not isinstance(value, str):
        return as_json(value, schema.field("attributes").type) or None
    try:
        found = json.loads(value)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        wrong.add("bad-field")
    return found


def set_messages(row: dict[str, Any], schema: pa.Schema, report: dict[str, Any], wrong: set[str]) -> None:
    kind = row.get("kind")
    if kind not in (None, "local", "send", "receive"):
        wrong.add("bad-kind")
    message, received = keys(row.get("message")), keys(row.get("receives"))
    sends = None if "sends" not in row else str(row["sends"])
    if (None in message and kind in ("send", "receive")) or None in received:
        wrong.add("bad-field")
    vector = stamp(row, schema, report, wrong)
    report["kind"] = kind
    if not message and not received and sends is None and vector is not None:
        of_vector(vector, kind, report, wrong)
        return
    if message:
        if kind is None:
            wrong.add("no-kind")
        elif kind == "local":
            wrong.add("bad-kind")
        elif kind == "send":
            wrong |= {"bad-field"} if sends is not None or len(message) > 1 else set()
            sends = sends if sends is not None else message[0]
        elif kind == "receive":
            wrong |= {"bad-field"} if received else set()
            received = received or message
    if (kind == "send" and sends is None) or (kind == "receive" and not received):
        wrong.add("no-message")
    if kind == "local" and received:
        wrong.add("bad-kind")
    report["sends"], report["received"] = sends, received
    report["kind"] = kind or ("receive" if received else "send" if sends is not None else "local")


def of_vector(vector: dict[str, Any], kind: str | None, report: dict[str, Any], wrong: set[str]) -> None:
    """A record with a vector stamp and no message: known by its own entry, caused by the foreign ones."""
    process = report["process"]
    report["sends"], report["received"] = None, []
    if not vector or not vector.get(process):
        wrong.add("bad-stamp")
        return
    foreign = sorted(name for name in vector if name != process and vector[name] > 0)
    report["sends"] = f"{STAMP_KEY}{process}:{vector[process]}"
    if kind != "local":
        report["received"] = [f"{STAMP_KEY}{name}:{vector[name]}" for name in foreign]
    report["seq"] = vector[process] if report["seq"] is None else report["seq"]
    report["kind"] = kind or ("receive" if report["received"] else "local")


def stamp(row: dict[str, Any], schema: pa.Schema, report: dict[str, Any], wrong: set[str]) -> dict[str, Any] | None:
    """The counters of a vector stamp; nothing in them if they make no sense. None for other stamps, and for none."""
    value = row.get("stamp")
    report["stamp"] = None
    if value is None:
        return None
    try:
        found = json.loads(value) if isinstance(value, str) else as_json(value, schema.field("stamp").type)
    except ValueError:
        found = None
    report["stamp"] = found
    if not isinstance(found, dict) or found.get("clock") is None:
        wrong.add("bad-stamp")
        return None
    if found["clock"] != "vector":
        return None
    counters = found.get("counters")
    sound = isinstance(counters, dict) and all(type(count) is int and count >= 0 for count in counters.values())
    return counters if sound else {}


def keys(value: Any) -> list[str | None]:
    many = value if isinstance(value, list) else [] if value is None else [value]
    return [None if key is None else str(key) for key in many]


def as_json(value: Any, kind: pa.DataType) -> Any:
    """What JSON can say of a value: an object for a struct, without what is null, and for a map, with it."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        members = {field.name: as_json(value[field.name], field.type) for field in kind}
        return {name: member for name, member in members.items() if member is not None}
    if pa.types.is_map(kind):
        return {str(key): as_json(item, kind.item_type) for key, item in value}
    if isinstance(value, list):
        return [as_json(each, kind.value_type) for each in value]
    if isinstance(value, float):
        if math.isfinite(value):
            return Decimal(repr(value))
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, date | datetime):
        return value.isoformat()
    return value
