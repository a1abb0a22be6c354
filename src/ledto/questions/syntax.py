"""Parse SQL by DuckDB's own parser, into trees that can be changed and written as SQL again.

A tree is the JSON of ``json_serialize_sql``: an expression is a dict with the key ``class``. Where a reserved word is the
name of an attribute and the query is no SQL because of it, as in ``order = 7``, the word is put in double quotes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import duckdb

Node = dict[str, Any]

MOST_QUOTED = 50
"""The most words of a query that are put in quotes."""
_WORD = re.compile(r"\w+")
_BETWEEN_NAMES = frozenset({"and", "or", "not", "in", "is", "null", "true", "false", "like", "ilike", "between"})
"""Words that are rather repeated by mistake than the names of attributes."""


class NotParsed(ValueError):
    """The text is not SQL, or no query. `is_query` is false if it is SQL of another kind."""

    def __init__(self, message: str, *, is_query: bool = True) -> None:
        super().__init__(message)
        self.is_query = is_query


def closed_connection() -> duckdb.DuckDBPyConnection:
    """Connect to DuckDB without access to files and the network. It has a thread, so share one among conditions."""
    connection = duckdb.connect(
        config={
            "enable_external_access": "false",
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "memory_limit": "512MB",
            "threads": "1",
        }
    )
    connection.execute("SET lock_configuration = true")
    return connection


def may_be_name(word: str) -> bool:
    """Tell whether a reserved word may be the name of an attribute, where attributes are not known."""
    return word.lower() not in _BETWEEN_NAMES


def parse_queries(
    connection: duckdb.DuckDBPyConnection, query: str, is_name: Callable[[str], bool], *, start: int = 0
) -> tuple[str, list[Node]]:
    """Parse queries; return their text, in which names that are reserved words are quoted, and the tree of each.

    Only words from the byte `start` on are quoted. Raises `NotParsed`.
    """
    if "\0" in query:
        # DuckDB would write its texts cut.
        raise NotParsed("it has a NUL character")
    parsed = first = _serialize(connection, query)
    for _ in range(MOST_QUOTED):
        if not parsed.get("error"):
            return query, parsed["statements"]
        quoted = _quote_at_error(query, parsed.get("position"), is_name, start)
        if quoted is None:
            break
        query = quoted
        parsed = _serialize(connection, query)
    message = first_line(first.get("error_message"))
    raise NotParsed(message, is_query=first.get("error_type") != "not implemented")


def write_queries(connection: duckdb.DuckDBPyConnection, statements: list[Node]) -> str:
    """Write trees as SQL."""
    whole = json.dumps({"error": False, "statements": statements})
    (text,) = connection.execute("SELECT json_deserialize_sql(?::JSON)", [whole]).fetchall()[0]
    return str(text)


def _serialize(connection: duckdb.DuckDBPyConnection, query: str) -> dict[str, Any]:
    try:
        (text,) = connection.execute("SELECT json_serialize_sql(?::VARCHAR)", [query]).fetchall()[0]
    except (duckdb.Error, UnicodeError) as fault:
        raise NotParsed(first_line(fault)) from None
    parsed: dict[str, Any] = json.loads(text)
    return parsed


def _quote_at_error(query: str, position: object, is_name: Callable[[str], bool], start: int) -> str | None:
    """Quote the reserved word at which the parser stopped, or the one before; None if neither is a name."""
    if position is None:
        return None
    data = query.encode()
    tokens = [token for token in duckdb.tokenize(query) if token[0] <= int(str(position))]
    for offset, kind in reversed(tokens[-2:]):
        word = _WORD.match(data[offset:].decode(errors="replace"))
        if offset >= start and kind == duckdb.token_type.keyword and word and is_name(word[0]):
            end = offset + len(word[0].encode())
            return (data[:offset] + b'"' + data[offset:end] + b'"' + data[end:]).decode()
    return None


def children_of(node: Node) -> Iterator[Node]:
    """Yield the expressions directly inside an expression."""
    for value in node.values():
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, dict):
                if "class" in part:
                    yield part
                else:
                    yield from children_of(part)


def nodes_of(node: Node) -> Iterator[Node]:
    """Yield an expression, and all that are inside it."""
    yield node
    for child in children_of(node):
        yield from nodes_of(child)


def constant_kind(node: Node) -> str:
    """Return the kind of a constant. Versions of DuckDB write it in different places."""
    literal = node.get("literal") or node.get("value", {}).get("type", {})
    return str(literal.get("kind") or literal.get("id"))


def constant_text(node: Node) -> str:
    """Return the text of a constant. Versions of DuckDB write it in different places."""
    literal = node.get("literal") or node.get("value") or {}
    return str(literal.get("text") or literal.get("value") or "")


def cast_type(node: Node) -> str:
    """Return the type that is cast to, in capitals. Versions of DuckDB write it in different places."""
    target = node.get("type_expr") or node.get("cast_type") or {}
    return str(target.get("type_name") or target.get("id") or "").upper()


def first_line(message: object) -> str:
    """Cut an error of DuckDB after its first line."""
    return str(message).strip().partition("\n")[0]
