"""Conditions in SQL over events, evaluated by DuckDB on the rows that a sweep comes by.

A condition is one expression: ``status >= 500 AND process LIKE 'shop%'``. It names columns of the events and attributes,
no matter which; sub-queries and statements are refused, and DuckDB runs without access to files and the network.

Attributes have no declared types, so each is read as what it is compared with: as a number beside a number, as a truth
value where one is expected, and otherwise as text. Compared with each other, two attributes are numbers where both are.
A value that cannot be read so is missing (null), and a condition that is null is not met.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.types as kinds
from numpy.typing import NDArray

from ledto.history.errors import BadCondition

DERIVED = {
    "id": ("coalesce(id, process || ':' || seq)", ("id", "process", "seq")),
    "message": ("coalesce(receives, sends)", ("receives", "sends")),
}
"""Columns that are not stored as events show them."""
NUMBER_KINDS = frozenset(
    {"INTEGER", "NUMERIC", "BIGINT", "HUGEINT", "DECIMAL", "DOUBLE", "FLOAT", "SMALLINT", "TINYINT"}
)
ARITHMETIC = frozenset({"+", "-", "*", "/", "//", "%", "**", "^", "abs", "round", "floor", "ceil", "sqrt", "ln", "log"})
READINGS = {
    "text": "{}",
    "number": "TRY_CAST({} AS DOUBLE)",
    "boolean": "TRY_CAST({} AS BOOLEAN)",
    "value": (
        "CASE WHEN {0} IS NOT NULL THEN {{'number': TRY_CAST({0} AS DOUBLE), "
        "'text': CASE WHEN TRY_CAST({0} AS DOUBLE) IS NULL THEN {0} END}} END"
    ),
}
"""How the text of an attribute is read in each context."""


def closed_connection() -> duckdb.DuckDBPyConnection:
    """DuckDB without access to files and the network; it has threads of its own, so many conditions share one."""
    connection = duckdb.connect(config={"enable_external_access": "false", "threads": "1"})
    connection.execute("SET lock_configuration = true")
    return connection


class Condition:
    """A condition over rows of a schema that has a column ``attributes`` of JSON.

    `attributes` are the names of the attributes there are; where they are None, nobody knows yet, and every name that is
    no column is that of an attribute, spelt exactly. A row on which the condition fails, such as by an overflow, is not
    met by a lenient one, and otherwise raises `BadCondition`. Uses a DuckDB connection, which threads do not share.
    """

    def __init__(
        self,
        text: str,
        schema: pa.Schema,
        attributes: Sequence[str] | None,
        *,
        connection: duckdb.DuckDBPyConnection | None = None,
        lenient: bool = False,
    ) -> None:
        self._text = text
        self._attributes = None if attributes is None else [str(name) for name in attributes]
        self._types = {name: schema.field(name).type for name in schema.names if name != "attributes"}
        if {"receives", "sends"} <= self._types.keys():
            self._types["message"] = pa.string()
        self._projections: dict[str, str] = {}
        self._columns: set[str] = set()
        self._asked: dict[str, None] = {}
        self._connection = closed_connection() if connection is None else connection
        self._query = self._prepared(lenient=False)
        if lenient:
            # A constant that does not fit, as in ``error = 'disk full'``, fails on every row: that is no row's fault.
            self.test(pa.table({name: pa.nulls(1, self._types.get(name, pa.string())) for name in self.columns}))
            self._query = self._prepared(lenient=True)

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the events that it needs; at least one."""
        return tuple(sorted(self._columns)) or ("seq",)

    def unknown(self, attributes: Collection[str]) -> tuple[str, ...]:
        """The names in it that are neither columns nor attributes among these, as they are spelt there."""
        asked = ((name, name.partition(".")[0]) for name in self._asked)
        return tuple(name for name, outer in asked if name not in attributes and outer not in attributes)

    def test(self, rows: pa.Table) -> NDArray[np.bool_]:
        """Whether each row meets it."""
        self._connection.register("stored", rows)
        try:
            (found,) = self._connection.execute(self._query).fetchnumpy().values()
        except duckdb.Error as fault:
            raise BadCondition(f"the condition {self._text!r} fails: {_first_line(fault)}{self._hint()}") from None
        finally:
            self._connection.unregister("stored")
        return np.ma.filled(found, False).astype(np.bool_)

    def _prepared(self, *, lenient: bool) -> str:
        tree = self._parsed()
        expression = tree["where_clause"]
        self._visit(expression, "boolean")
        whole = {"error": False, "statements": [{"node": tree, "named_param_map": []}]}
        if lenient:
            expression = {"class": "OPERATOR", "type": "OPERATOR_TRY", "alias": "", "children": [expression]}
        tree["select_list"], tree["where_clause"] = [expression], None
        (query,) = self._connection.execute("SELECT json_deserialize_sql(?::JSON)", [json.dumps(whole)]).fetchall()[0]
        projected = ", ".join(f"{how} AS {_quoted(name)}" for name, how in self._projections.items()) or "seq"
        query = f"WITH event AS (SELECT {projected} FROM stored) {query}"
        empty = pa.schema([(name, self._types.get(name, pa.string())) for name in self.columns]).empty_table()
        self._connection.register("stored", empty)
        try:
            (outcome,) = self._connection.execute(f"DESCRIBE {query}").fetchall()
        except duckdb.Error as fault:
            raise BadCondition(
                f"the condition {self._text!r} does not work: {_first_line(fault)}{self._hint()}"
            ) from None
        if outcome[1] != "BOOLEAN":
            raise BadCondition(f"the condition {self._text!r} gives {outcome[1]}, not true or false")
        return query

    def _hint(self) -> str:
        """How to reach an attribute that a column hides, where it may have been meant."""
        hidden = [name for name in self._projections if name in (self._attributes or ("error",))]
        return "".join(f"; the attribute of the name {name} is attributes.{name}" for name in hidden)

    def _parsed(self) -> dict[str, Any]:
        query = f"SELECT 1 FROM event WHERE {self._text}\n"
        (found,) = self._connection.execute("SELECT json_serialize_sql(?::VARCHAR)", [query]).fetchall()[0]
        parsed = json.loads(found)
        if parsed.get("error"):
            raise BadCondition(f"the condition {self._text!r} is not SQL: {_first_line(parsed.get('error_message'))}")
        (first, *more) = parsed["statements"]
        tree: dict[str, Any] = first["node"]
        extra = ("modifiers", "group_expressions", "having", "qualify", "sample")
        if more or tree.get("type") != "SELECT_NODE" or any(tree.get(part) for part in extra):
            raise BadCondition(f"one condition is asked for, without further clauses, not {self._text!r}")
        if any(node.get("class") == "SUBQUERY" for node in _nodes(tree["where_clause"])):
            raise BadCondition(f"a condition looks at one event, without sub-queries: not {self._text!r}")
        return tree

    def _visit(self, node: dict[str, Any], context: str) -> None:
        """Point every column at a projection that reads it as its context asks."""
        kind = node.get("class")
        if kind == "COLUMN_REF":
            node["column_names"] = [self._projection(node["column_names"], context)]
            return
        children = list(children_of(node))
        if kind in ("COMPARISON", "BETWEEN") or node.get("type") in ("COMPARE_IN", "COMPARE_NOT_IN"):
            context = self._compared_as(children)
        elif kind == "CONJUNCTION" or node.get("type") == "OPERATOR_NOT":
            context = "boolean"
        elif kind == "FUNCTION" and node.get("function_name") in ARITHMETIC:
            context = "number"
        else:
            context = "text"
        for child in children:
            self._visit(child, context)

    def _compared_as(self, operands: list[dict[str, Any]]) -> str:
        found = {self._nature(operand) for operand in operands}
        for context in ("number", "boolean", "text"):
            if context in found:
                return context
        return "value"

    def _nature(self, node: dict[str, Any]) -> str:
        if node.get("class") == "CONSTANT":
            literal = node.get("literal") or node.get("value", {}).get("type", {})
            kind = str(literal.get("kind") or literal.get("id"))
            return "number" if kind in NUMBER_KINDS else "boolean" if kind == "BOOLEAN" else "text"
        if node.get("class") == "FUNCTION":
            return "number" if node.get("function_name") in ARITHMETIC else "text"
        if node.get("class") != "COLUMN_REF":
            return "text"
        stored = self._stored(node["column_names"])
        if stored is None:
            return "attribute"
        known = self._types[stored]
        numeric = kinds.is_integer(known) or kinds.is_floating(known) or kinds.is_decimal(known)
        return "number" if numeric else "boolean" if kinds.is_boolean(known) else "text"

    def _stored(self, names: list[str]) -> str | None:
        return _match(".".join(names), self._types)

    def _projection(self, names: list[str], context: str) -> str:
        if (stored := self._stored(names)) is not None:
            how, needed = DERIVED.get(stored, (_quoted(stored), (stored,)))
            self._columns.update(needed)
            self._projections[stored] = how
            return stored
        pointers = self._pointers(names)
        name = f"{context} {pointers[0]}"
        self._columns.add("attributes")
        texts = [f"json_extract_string(attributes, {_literal(each)})" for each in pointers]
        text = texts[0] if len(texts) == 1 else f"coalesce({', '.join(texts)})"
        self._projections[name] = READINGS[context].format(text)
        return name

    def _pointers(self, names: list[str]) -> list[str]:
        """Where an attribute is in the JSON: by its whole name, or by the parts of a nested one."""
        parts = names[1:] if len(names) > 1 and names[0].casefold() == "attributes" else names
        self._asked[".".join(parts)] = None
        if self._attributes is None:
            return [_pointer([".".join(parts)]), *([_pointer(parts)] if len(parts) > 1 else [])]
        if (whole := _match(".".join(parts), self._attributes)) is not None:
            return [_pointer([whole])]
        if (outer := _match(parts[0], self._attributes)) is not None:
            return [_pointer([outer, *parts[1:]])]
        there_are = ", ".join(sorted({*self._types, *self._attributes}))
        raise BadCondition(f"there is no column {'.'.join(names)!r}; there are {there_are}")


def _pointer(parts: list[str]) -> str:
    return "".join("/" + part.replace("~", "~0").replace("/", "~1") for part in parts)


def _match(name: str, known: Any) -> str | None:
    if name in known:
        return name
    alike = [each for each in known if each.casefold() == name.casefold()]
    return alike[0] if len(alike) == 1 else None


def children_of(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The expressions directly inside one."""
    for value in node.values():
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, dict):
                if "class" in part:
                    yield part
                else:
                    yield from children_of(part)


def _nodes(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for child in children_of(node):
        yield from _nodes(child)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _first_line(message: object) -> str:
    return str(message).strip().partition("\n")[0]
