"""Evaluate SQL conditions on rows of events with DuckDB.

A condition is one expression: ``status >= 500 AND process LIKE 'shop%'``. It may name columns of the events
and attributes. Statements are refused, and so are sub-queries, aggregates and window functions. DuckDB runs without access
to files and the network.

Attributes have no declared types, so each is read as what it is compared with: as a number if compared with a number, as
a boolean where one is expected, and otherwise as text. Two attributes are compared as numbers if both are numbers.
A value that cannot be read so is null, and a row for which the condition is null does not meet it.
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

EMPTY = "the condition is empty: give one such as status >= 500"
DERIVED = {
    "id": ("coalesce(id, process || ':' || seq)", ("id", "process", "seq")),
    "message": ("coalesce(receives, sends)", ("receives", "sends")),
}
"""Columns that are computed from stored ones: the expression, and the stored columns."""
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
"""How the text of an attribute is read in each context; ``{}`` is the text."""


def closed_connection() -> duckdb.DuckDBPyConnection:
    """Connect to DuckDB without access to files and the network. It has a thread, so share one among conditions."""
    connection = duckdb.connect(config={"enable_external_access": "false", "threads": "1"})
    connection.execute("SET lock_configuration = true")
    return connection


class Condition:
    """A condition over rows with a column ``attributes`` of JSON.

    `attributes` are the names of all attributes. If it is None, they are not known yet: every name that is no column is an
    attribute of exactly that name. If the condition fails on a row, such as by an overflow, a lenient one is not met, and
    others raise `BadCondition`. Not for use by several threads: it has one DuckDB connection.
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
            # A constant of a wrong type, as in ``error = 'disk full'``, fails on every row: refuse it at once.
            self.test(pa.table({name: pa.nulls(1, self._types.get(name, pa.string())) for name in self.columns}))
            self._query = self._prepared(lenient=True)

    @property
    def columns(self) -> tuple[str, ...]:
        """The stored columns that it reads; at least one."""
        return tuple(sorted(self._columns)) or ("seq",)

    def unknown(self, attributes: Collection[str]) -> tuple[str, ...]:
        """List the names in the condition that are neither columns nor among these attributes."""
        asked = ((name, name.partition(".")[0]) for name in self._asked)
        return tuple(name for name, outer in asked if name not in attributes and outer not in attributes)

    def test(self, rows: pa.Table) -> NDArray[np.bool_]:
        """Tell for each row whether it meets the condition; raise `BadCondition` if it fails and is not lenient."""
        self._connection.register("stored", rows)
        try:
            (met,) = self._connection.execute(self._query).fetchnumpy().values()
        except duckdb.Error as fault:
            raise BadCondition(f"the condition {self._text!r} fails: {_first_line(fault)}{self._hint()}") from None
        finally:
            self._connection.unregister("stored")
        return np.ma.filled(met, False).astype(np.bool_)

    def _prepared(self, *, lenient: bool) -> str:
        """Turn the condition into a query; raise `BadCondition` if it is not one boolean expression."""
        tree = self._parsed()
        expression = tree["where_clause"]
        self._visit(expression, "boolean")
        as_filter = self._query_of(tree)
        if lenient:
            expression = {"class": "OPERATOR", "type": "OPERATOR_TRY", "alias": "", "children": [expression]}
        tree["select_list"], tree["where_clause"] = [expression], None
        query = self._query_of(tree)
        empty = pa.schema([(name, self._types.get(name, pa.string())) for name in self.columns]).empty_table()
        self._connection.register("stored", empty)
        try:
            # DuckDB refuses in a filter what looks at several rows. Selected, it would answer for a batch of rows.
            self._connection.execute(f"DESCRIBE {as_filter}")
            (outcome,) = self._connection.execute(f"DESCRIBE {query}").fetchall()
        except duckdb.Error as fault:
            if "WHERE clause cannot contain" in str(fault):
                raise BadCondition(
                    f"a condition looks at one event, without aggregates and window functions: not {self._text!r}"
                ) from None
            raise BadCondition(
                f"the condition {self._text!r} does not work: {_first_line(fault)}{self._hint()}"
            ) from None
        if outcome[1] != "BOOLEAN":
            raise BadCondition(f"the condition {self._text!r} gives {outcome[1]}, not true or false")
        return query

    def _query_of(self, tree: dict[str, Any]) -> str:
        """Turn a tree of a SELECT into a query over the projections of ``stored``."""
        whole = {"error": False, "statements": [{"node": tree, "named_param_map": []}]}
        (query,) = self._connection.execute("SELECT json_deserialize_sql(?::JSON)", [json.dumps(whole)]).fetchall()[0]
        projected = ", ".join(f"{how} AS {_quoted(name)}" for name, how in self._projections.items()) or "seq"
        return f"WITH event AS (SELECT {projected} FROM stored) {query}"

    def _hint(self) -> str:
        """Say how to name an attribute that has the name of a column, in case that was meant."""
        hidden = [name for name in self._projections if name in (self._attributes or ("error",))]
        return "".join(f"; the attribute of the name {name} is attributes.{name}" for name in hidden)

    def _parsed(self) -> dict[str, Any]:
        """Parse the condition into DuckDB's tree of a SELECT; raise `BadCondition` if it has more than a condition."""
        if not self._text.strip():
            raise BadCondition(EMPTY)
        query = f"SELECT 1 FROM event WHERE {self._text}\n"
        (text,) = self._connection.execute("SELECT json_serialize_sql(?::VARCHAR)", [query]).fetchall()[0]
        parsed = json.loads(text)
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
        """Replace every column of an expression by the projection that reads it for its context."""
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
        """Choose the context in which the attributes among the operands are read."""
        natures = {self._nature(operand) for operand in operands}
        for context in ("number", "boolean", "text"):
            if context in natures:
                return context
        return "value"

    def _nature(self, node: dict[str, Any]) -> str:
        """Say what an operand is: number, boolean, text, or an attribute, which may be any of them."""
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
        declared = self._types[stored]
        numeric = kinds.is_integer(declared) or kinds.is_floating(declared) or kinds.is_decimal(declared)
        return "number" if numeric else "boolean" if kinds.is_boolean(declared) else "text"

    def _stored(self, names: list[str]) -> str | None:
        """Find the column of this name; None if it is an attribute."""
        return _match(".".join(names), self._types)

    def _projection(self, names: list[str], context: str) -> str:
        """Add the projection of a column or attribute; return its name."""
        if (stored := self._stored(names)) is not None:
            how, needed = DERIVED.get(stored, (_quoted(stored), (stored,)))
            self._columns.update(needed)
            self._projections[stored] = how
            return stored
        pointers = self._pointers(names)
        name = f"{context} {pointers[0]}"
        self._columns.add("attributes")
        texts = [f"json_extract_string(attributes, {_literal(pointer)})" for pointer in pointers]
        text = texts[0] if len(texts) == 1 else f"coalesce({', '.join(texts)})"
        self._projections[name] = READINGS[context].format(text)
        return name

    def _pointers(self, names: list[str]) -> list[str]:
        """Make JSON pointers to an attribute: by its whole name, or by the parts of a nested one."""
        parts = names[1:] if len(names) > 1 and names[0].casefold() == "attributes" else names
        self._asked[".".join(parts)] = None
        if self._attributes is None:
            return [_pointer([".".join(parts)]), *([_pointer(parts)] if len(parts) > 1 else [])]
        if (whole := _match(".".join(parts), self._attributes)) is not None:
            return [_pointer([whole])]
        if (outer := _match(parts[0], self._attributes)) is not None:
            return [_pointer([outer, *parts[1:]])]
        names_known = ", ".join(sorted({*self._types, *self._attributes}))
        raise BadCondition(f"there is no column {'.'.join(names)!r}; there are {names_known}")


def _pointer(parts: list[str]) -> str:
    return "".join("/" + part.replace("~", "~0").replace("/", "~1") for part in parts)


def _match(name: str, names: Any) -> str | None:
    """Find a name among others: exactly, or else the only one that differs in case."""
    if name in names:
        return name
    matches = [candidate for candidate in names if candidate.casefold() == name.casefold()]
    return matches[0] if len(matches) == 1 else None


def children_of(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the expressions directly inside an expression."""
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
