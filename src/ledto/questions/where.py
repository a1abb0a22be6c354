"""Evaluate SQL conditions on rows of events with DuckDB.

A condition is one expression: ``status >= 500 AND process LIKE 'shop%'``. It may name columns of the events
and attributes; `ledto.questions.names` finds them, and `ledto.questions.readings` says how attributes are read. Statements
are refused, and so are sub-queries, aggregates and window functions. DuckDB runs without access to files and the network.

A row for which the condition is null does not meet it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.types as kinds
from numpy.typing import NDArray

from ledto.history.attribute_types import BOOLEAN, INTEGER, NUMBER, TEXT
from ledto.history.errors import BadCondition
from ledto.questions.names import HOW_TO_QUOTE, Names, quote_name
from ledto.questions.readings import Readings, Referent
from ledto.questions.syntax import (
    Node,
    NotParsed,
    closed_connection,
    first_line,
    may_be_name,
    nodes_of,
    parse_queries,
    write_queries,
)

EMPTY = "the condition is empty: give one such as status >= 500"
ONE_EVENT = "a condition looks at one event, without aggregates and window functions"
BEFORE = "SELECT 1 FROM event WHERE "
DERIVED = {
    "id": ("coalesce(id, process || ':' || seq)", ("id", "process", "seq")),
    "message": ("coalesce(receives, sends)", ("receives", "sends")),
}
"""Columns that are computed from stored ones: the expression, and the stored columns."""
NOT_IN_CONDITIONS = ("position",)
"""Columns of ``events`` in SQL that conditions do not have. An attribute of the name is ``attributes.position`` in both."""


def column_types(schema: pa.Schema) -> dict[str, str]:
    """Give the columns that SQL may name, stored and derived, with types in the words of attributes."""
    types = {name: _type_word(schema.field(name).type) for name in schema.names}
    return types | ({"message": TEXT} if {"receives", "sends"} <= types.keys() else {})


class Condition:
    """A condition over rows with a column ``attributes`` of JSON.

    `attributes` are all attributes with their types. If it is None, they are not known yet: every name that is no column is
    an attribute of exactly that name. If the condition fails on a row, such as by an overflow, a lenient one is not met, and
    others raise `BadCondition`. Not for use by several threads: it has one DuckDB connection.
    """

    def __init__(
        self,
        text: str,
        schema: pa.Schema,
        attributes: Mapping[str, str] | None,
        *,
        connection: duckdb.DuckDBPyConnection | None = None,
        lenient: bool = False,
    ) -> None:
        self._text = text
        self._schema = schema
        self._names = Names(column_types(schema), attributes)
        self._connection = closed_connection() if connection is None else connection
        self._readings = _ConditionReadings(self._names)
        self._query = self._prepared(lenient=lenient)

    @property
    def columns(self) -> tuple[str, ...]:
        """The stored columns that it reads; at least one."""
        return tuple(sorted(self._readings.columns)) or ("seq",)

    def unknown(self, attributes: Collection[str]) -> tuple[str, ...]:
        """List the names in the condition that are neither columns nor among these attributes."""
        asked = ((name, name.partition(".")[0]) for name in self._readings.attributes)
        return tuple(name for name, outer in asked if name not in attributes and outer not in attributes)

    def test(self, rows: pa.Table) -> NDArray[np.bool_]:
        """Tell for each row whether it meets the condition; raise `BadCondition` if it fails and is not lenient."""
        return self._test(self._query, rows)

    def _test(self, query: str, rows: pa.Table) -> NDArray[np.bool_]:
        self._connection.register("stored", rows)
        try:
            (met,) = self._connection.execute(query).fetchnumpy().values()
        except duckdb.Error as fault:
            raise BadCondition(f"the condition {self._text!r} fails: {first_line(fault)}{self._hint()}") from None
        finally:
            self._connection.unregister("stored")
        return np.ma.filled(met, False).astype(np.bool_)

    def _prepared(self, *, lenient: bool) -> str:
        """Turn the condition into a query; raise `BadCondition` if it is not one boolean expression."""
        tree = self._parsed()
        expression = tree["where_clause"]
        try:
            self._readings.visit(expression, BOOLEAN)
        except RecursionError:
            raise BadCondition("the condition is nested too deeply: make it simpler") from None
        as_filter = self._query_of(tree)
        tree["select_list"], tree["where_clause"] = [expression], None
        query = self._query_of(tree)
        types = {name: self._schema.field(name).type for name in self._schema.names}
        empty = pa.schema([(name, types.get(name, pa.string())) for name in self.columns]).empty_table()
        self._connection.register("stored", empty)
        try:
            # DuckDB refuses in a filter what looks at several rows. Selected, it would answer for a batch of rows.
            self._connection.execute(f"DESCRIBE {as_filter}")
            (outcome,) = self._connection.execute(f"DESCRIBE {query}").fetchall()
        except duckdb.Error as fault:
            if "WHERE clause cannot contain" in str(fault):
                raise BadCondition(f"{ONE_EVENT}: not {self._text!r}") from None
            raise BadCondition(
                f"the condition {self._text!r} does not work: {first_line(fault)}{self._hint()}"
            ) from None
        if outcome[1] != "BOOLEAN":
            raise BadCondition(f"the condition {self._text!r} gives {outcome[1]}, not true or false")
        if not lenient:
            return query
        # A constant of a wrong type, as in ``error = 'disk full'``, fails on every row: refuse it at once.
        self._test(query, pa.table({name: pa.nulls(1, types.get(name, pa.string())) for name in self.columns}))
        tree["select_list"] = [{"class": "OPERATOR", "type": "OPERATOR_TRY", "alias": "", "children": [expression]}]
        return self._query_of(tree)

    def _query_of(self, tree: Node) -> str:
        """Turn a tree of a SELECT into a query over the readings of ``stored``."""
        query = write_queries(self._connection, [{"node": tree, "named_param_map": []}])
        read = ", ".join(f"{how} AS {quote_name(name)}" for name, how in self._readings.sql.items()) or "seq"
        return f"WITH event AS (SELECT {read} FROM stored) {query}"

    def _hint(self) -> str:
        """Say how to name an attribute that has the name of a column, in case that was meant."""
        attributes = self._names.attributes
        hidden = [name for name in self._readings.named if name in (("error",) if attributes is None else attributes)]
        return "".join(f"; the attribute of the name {name} is attributes.{name}" for name in hidden)

    def _parsed(self) -> Node:
        """Parse the condition into DuckDB's tree of a SELECT; raise `BadCondition` if it has more than a condition."""
        if not self._text.strip():
            raise BadCondition(EMPTY)
        is_name = may_be_name if self._names.attributes is None else self._names.is_name
        try:
            _, (first, *more) = parse_queries(
                self._connection, f"{BEFORE}{self._text}\n", is_name, start=len(BEFORE.encode())
            )
        except NotParsed as fault:
            raise BadCondition(f"the condition {self._text!r} is not SQL: {fault}; {HOW_TO_QUOTE}") from None
        tree: Node = first["node"]
        extra = ("modifiers", "group_expressions", "having", "qualify", "sample")
        if more or tree.get("type") != "SELECT_NODE" or any(tree.get(part) for part in extra):
            raise BadCondition(f"one condition is asked for, without further clauses, not {self._text!r}")
        if any(node.get("class") == "SUBQUERY" for node in nodes_of(tree["where_clause"])):
            raise BadCondition(f"a condition looks at one event, without sub-queries: not {self._text!r}")
        return tree


class _ConditionReadings(Readings):
    """Reads columns and attributes from the rows themselves."""

    def __init__(self, names: Names) -> None:
        super().__init__()
        self._known = names
        self.columns: set[str] = set()
        """The stored columns that are read."""
        self.named: dict[str, None] = {}
        """The columns that the condition names."""
        self.attributes: dict[str, None] = {}
        """The attributes that the condition names, as it spells them."""

    def find(self, parts: list[str]) -> Referent:
        if (column := self._known.column(parts)) is not None:
            sql, needed = DERIVED.get(column, (quote_name(column), (column,)))
            self.columns.update(needed)
            self.named[column] = None
            return Referent(self._known.columns[column], sql)
        attribute = self._known.attribute(parts)
        hidden = self._known.attributes is not None and ".".join(parts).lower() in NOT_IN_CONDITIONS
        if attribute is None or hidden:
            hint = "; the attribute of the name is attributes.position" if attribute else ""
            raise BadCondition(f"{self._known.describe_unknown(parts)}{hint}")
        self.columns.add("attributes")
        self.attributes[attribute.name if self._known.attributes is None else ".".join(parts)] = None
        return Referent(attribute.type, attribute.typed(), attribute, "attributes")

    def replace_own(self, node: Node, referent: Referent) -> None:
        self.replace(node, referent.own)

    def visit_subquery(self, node: Node) -> None:
        """Conditions with sub-queries are refused before."""
        raise NotImplementedError


def _type_word(stored: pa.DataType) -> str:
    if kinds.is_integer(stored):
        return INTEGER
    if kinds.is_floating(stored) or kinds.is_decimal(stored):
        return NUMBER
    return BOOLEAN if kinds.is_boolean(stored) else TEXT
