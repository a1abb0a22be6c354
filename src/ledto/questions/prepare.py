"""Prepare SQL queries over a history: names and readings of attributes are those of conditions.

The views of `ledto.questions.sql` have attributes in their own types. On top of that, a query may name attributes without
quotes (`ledto.questions.names`), and compares them as a condition does (`ledto.questions.readings`): ``WHERE status >= 500``
finds the same events as ``--where "status >= 500"``, also where some event has the status ``unknown``. Both hold for
attributes of ``events`` itself; columns of sub-queries and of tables of one's own are DuckDB's alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import duckdb

from ledto.history import layout
from ledto.history.attribute_types import BOOLEAN
from ledto.history.run import Run
from ledto.questions.names import HOW_TO_QUOTE, Attribute, Names, quote_name
from ledto.questions.readings import Readings, Referent
from ledto.questions.sql import names_of
from ledto.questions.syntax import Node, NotParsed, parse_queries, write_queries

_NO_COLUMN = re.compile(r'Referenced (?:column|table) "((?:[^"]|"")+)" (?:was )?not found')
_NO_MEMBER = re.compile(r"Cannot extract field '([^']+)' from expression \"([^\"]+)\"")


def prepare(text: str, run: Run, connection: duckdb.DuckDBPyConnection) -> str:
    """Write a query so that DuckDB reads names and attributes by our rules. What is not a SELECT stays as it is.

    Any connection will do: it only parses. Raises `BadCondition` if a number is ordered among texts.
    """
    names = names_of(run)
    try:
        text, statements = parse_queries(connection, text, names.is_name)
    except NotParsed:
        # DuckDB's own error shows the place.
        return text
    readings = _QueryReadings(names, text, hidden=_defines_events(statements))
    try:
        for statement in statements:
            readings.visit_query(statement["node"])
    except RecursionError:
        return text
    if not readings.changes:
        return text
    prepared = write_queries(connection, statements)
    for name, sql in readings.sql.items():
        prepared = prepared.replace(quote_name(name), f"({sql})")
    return prepared


def hint_for(fault: duckdb.Error, run: Run) -> str | None:
    """Say how to quote, and which names are similar, if DuckDB refused a query for its syntax or a name in it."""
    if isinstance(fault, duckdb.ParserException):
        return HOW_TO_QUOTE
    names = names_of(run)
    if missing := _NO_COLUMN.search(str(fault)):
        return names.describe_unknown([missing[1].replace('""', '"')])
    missing = _NO_MEMBER.search(str(fault))
    return names.describe_unknown([missing[2], missing[1]]) if missing else None


COLUMNS = {
    "causes": frozenset({"effect", "cause", "kind"}),
    "deliveries": frozenset({"position", "policy", "at", "waited", "late"}),
    "processes": frozenset(layout.PROCESSES.names),
    "quarantine": frozenset(layout.QUARANTINE.names),
}
"""The columns of the other views."""


@dataclass(slots=True)
class _SelectTables:
    """The tables of one SELECT, by the names that it gives them."""

    events: list[str] = field(default_factory=list)
    others: dict[str, str] = field(default_factory=dict)
    """Other tables: the name in this query, in lower case, and the name of the view, or nothing."""
    aliases: frozenset[str] = frozenset()
    """What its results are called: after the grouping, these names come before those of columns."""

    def may_be_of_others(self, name: str) -> bool:
        """Tell whether a table besides events may have a column of this name."""
        return any(view not in COLUMNS or name.lower() in COLUMNS[view] for view in self.others.values())

    def add(self, node: Any, hidden: bool) -> None:
        """Add the tables of a FROM clause, without those inside sub-queries. `hidden` if ``events`` is not the view."""
        if not isinstance(node, dict):
            return
        alias = str(node.get("alias") or "")
        if node.get("type") == "JOIN":
            self.add(node.get("left"), hidden)
            self.add(node.get("right"), hidden)
        elif node.get("type") == "BASE_TABLE" and node.get("schema_name") in (None, "", "main"):
            name = str(node.get("table_name"))
            if name.lower() == "events" and not hidden:
                self.events.append(alias or name)
            else:
                self.others[(alias or name).lower()] = "" if hidden else name.lower()
        elif node.get("type") != "EMPTY":
            self.others[alias.lower()] = ""


class _QueryReadings(Readings):
    """Reads attributes from the columns of ``events``, in whatever SELECT it is a table of."""

    def __init__(self, names: Names, text: str, *, hidden: bool) -> None:
        super().__init__()
        while self.mark in text:
            self.mark += "of "
        self._known = names
        self._text = text.encode()
        self._scopes: list[_SelectTables] = []
        self._after_grouping = False
        """Whether names may be those of results."""
        self._grouped = False
        """Whether only what is grouped by can be read."""
        self._hidden = hidden
        """Whether the query has a table of its own that is called events."""
        self._parts: dict[str, list[str]] = {}
        """By SQL of a column: its name in a tree."""

    def visit_query(self, node: Any) -> None:
        """Replace names in a query, or in any part of its tree that is no expression."""
        if isinstance(node, list):
            for part in node:
                self.visit_query(part)
        elif not isinstance(node, dict):
            return
        elif node.get("type") == "SELECT_NODE":
            self._visit_select(node)
        elif "class" in node:
            self.visit(node)
        else:
            for name, part in node.items():
                if name == "condition" and isinstance(part, dict) and "class" in part:
                    self.visit(part, BOOLEAN)
                else:
                    self.visit_query(part)

    def visit_subquery(self, node: Node) -> None:
        self.visit_query(node)

    def _visit_select(self, node: Node) -> None:
        outside = self._after_grouping, self._grouped
        self._after_grouping = self._grouped = False
        self.visit_query(node.get("cte_map"))
        scope = _SelectTables()
        scope.add(node.get("from_table"), hidden=self._hidden)
        self._scopes.append(scope)
        self.visit_query(node.get("from_table"))
        self.visit_query(node.get("group_expressions"))
        if node.get("where_clause"):
            self.visit(node["where_clause"], BOOLEAN)
        self._grouped = bool(node.get("group_expressions")) or node.get("aggregate_handling") == "FORCE_AGGREGATES"
        results = node.get("select_list", [])
        for part in results:
            self._visit_result(part)
        scope.aliases = frozenset(str(part.get("alias", "")).lower() for part in results)
        self._after_grouping = True
        for name in ("having", "qualify"):
            if node.get(name):
                self.visit(node[name], BOOLEAN)
        self.visit_query(node.get("modifiers"))
        self._scopes.pop()
        self._after_grouping, self._grouped = outside

    def _visit_result(self, node: Node) -> None:
        """Replace names in what is selected, and keep what the result is called."""
        start, length = node.get("query_location"), node.get("query_location_length")
        before = self.changes
        is_name = node.get("class") == "COLUMN_REF"
        self.visit(node)
        if self.changes > before and not is_name and not node.get("alias") and start is not None and length is not None:
            node["alias"] = self._text[start : start + length].decode(errors="replace")

    def find(self, parts: list[str]) -> Referent | None:
        table = self._table(parts)
        if table is None:
            return None
        named = parts[1:] if len(parts) > 1 and parts[0].lower() == table.lower() else parts
        if (column := self._known.column(named)) is not None:
            return Referent(self._known.columns[column], self._column(table, column))
        attribute = self._known.attribute(named)
        return None if attribute is None else self._referent(table, attribute)

    def _referent(self, table: str, attribute: Attribute) -> Referent:
        json = self._column(table, "attributes")
        shown = self._known.attribute([attribute.name])
        is_column = (
            shown is not None and shown.paths == attribute.paths and self._known.column([attribute.name]) is None
        )
        own = self._column(table, attribute.name) if is_column and attribute.name else attribute.typed(json)
        return Referent(attribute.type, own, attribute, None if self._grouped else json)

    def _column(self, table: str, name: str) -> str:
        sql = f"{quote_name(table)}.{quote_name(name)}"
        self._parts[sql] = [table, name]
        return sql

    def _table(self, parts: list[str]) -> str | None:
        """Find the table of events that a name belongs to: the one it names, or the only one of the nearest SELECT."""
        first = parts[0].lower()
        for scope in reversed(self._scopes) if len(parts) > 1 else ():
            if first in scope.others:
                return None
            if named := [table for table in scope.events if table.lower() == first]:
                return named[0]
        for scope in reversed(self._scopes):
            if len(parts) == 1 and (scope.may_be_of_others(first) or (self._after_grouping and first in scope.aliases)):
                return None
            if scope.events:
                return scope.events[0] if len(scope.events) == 1 else None
        return None

    def replace_own(self, node: Node, referent: Referent) -> None:
        if referent.attribute is None:
            return
        parts = self._parts.get(referent.own)
        if parts is None:
            self.replace(node, referent.own)
            return
        written, wanted = ([name.lower() for name in names] for names in (node["column_names"], parts))
        if written not in (wanted, wanted[1:]):
            node["column_names"] = parts
            self.changes += 1


def _defines_events(statements: Any) -> bool:
    """Tell whether queries have a table of their own that is called events."""
    if isinstance(statements, list):
        return any(map(_defines_events, statements))
    if not isinstance(statements, dict):
        return False
    tables = (statements.get("cte_map") or {}).get("map") or ()
    return any(str(table.get("key")).lower() == "events" for table in tables) or _defines_events([*statements.values()])
