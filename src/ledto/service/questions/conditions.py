"""Check that a condition from HTTP takes little time and memory, and always gives the same result for an event.

Such a condition is one of the command line (`ledto.questions.where`) with comparisons, AND, OR, NOT, IN,
BETWEEN, IS NULL, CASE, casts, and the functions in `FUNCTIONS`. Others are refused, such as ``repeat``, which takes much
memory, or ``random``, whose result changes. RE2 runs regular expressions and never backtracks, but its time is
proportional to the length of the text times the size of the expression with its repetitions written out, so that size is
bounded. Regular expressions and patterns of LIKE must be constants.
"""

from __future__ import annotations

import re
from threading import Lock
from typing import Any, Final

from ledto.history.errors import BadCondition
from ledto.questions.names import HOW_TO_QUOTE
from ledto.questions.syntax import (
    NotParsed,
    cast_type,
    children_of,
    closed_connection,
    constant_text,
    may_be_name,
    parse_queries,
)
from ledto.questions.where import BEFORE, EMPTY, ONE_EVENT

MOST_CHARACTERS: Final = 2_000
MOST_PARTS: Final = 500
MOST_DEPTH: Final = 40
MOST_WILDCARDS: Final = 8
"""The most percent signs in a pattern of LIKE."""
MOST_EXPRESSION: Final = 1_000
"""The most size of all regular expressions of a condition. At this size, a megabyte of the worst text takes two seconds."""
MOST_REPEATED: Final = 1_000
"""The most repetitions that RE2 accepts."""

LIKE: Final = frozenset(
    {"~~", "!~~", "~~*", "!~~*", "like_escape", "not_like_escape", "ilike_escape", "not_ilike_escape"}
)
PATTERNED: Final = LIKE | {"regexp_matches", "regexp_full_match"}
FUNCTIONS: Final = PATTERNED | {
    *("+", "-", "*", "/", "//", "%", "abs", "round", "floor", "ceil"),
    *("||", "lower", "upper", "length", "strlen", "trim", "ltrim", "rtrim", "substr", "substring", "left", "right"),
    *("contains", "starts_with", "ends_with", "prefix", "suffix", "^@", "strpos", "instr", "position"),
    *("list_contains", "list_value", "len", "nullif", "ifnull", "greatest", "least"),
}
CLASSES: Final = frozenset(
    {"COMPARISON", "CONJUNCTION", "OPERATOR", "CONSTANT", "COLUMN_REF", "BETWEEN", "CASE", "CAST", "FUNCTION", "TYPE"}
)
TYPES: Final = frozenset(
    {"BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "FLOAT", "DOUBLE", "DECIMAL", "VARCHAR"}
)


class ConditionLimits:
    """Refuses conditions beyond these limits. May be used from several threads."""

    def __init__(self) -> None:
        self._connection = closed_connection()
        self._lock = Lock()

    def check(self, text: str) -> None:
        """Raise `BadCondition`, which says what to write instead, if the condition is beyond the limits."""
        if len(text) > MOST_CHARACTERS:
            raise BadCondition(f"a condition has up to {MOST_CHARACTERS:,} characters, not {len(text):,}")
        parts = size = 0
        waiting = [(0, node) for node in children_of(self._parse(text))]
        while waiting:
            depth, node = waiting.pop()
            parts += 1
            if depth > MOST_DEPTH or parts > MOST_PARTS:
                raise BadCondition(f"a condition has up to {MOST_PARTS} parts, nested up to {MOST_DEPTH} deep")
            size += self._check_node(node)
            if size > MOST_EXPRESSION:
                raise BadCondition(
                    f"the regular expressions of a condition over HTTP have up to {MOST_EXPRESSION:,} parts together, "
                    "repetitions such as {50} written out"
                )
            waiting += ((depth + 1, part) for part in children_of(node))

    def _parse(self, text: str) -> dict[str, Any]:
        """Parse a condition; return DuckDB's syntax tree. Raises `BadCondition`."""
        if not text.strip():
            raise BadCondition(EMPTY)
        try:
            with self._lock:
                _, statements = parse_queries(
                    self._connection, f"{BEFORE}{text}\n", may_be_name, start=len(BEFORE.encode())
                )
        except NotParsed as fault:
            raise BadCondition(f"the condition is not SQL: {fault}; {HOW_TO_QUOTE}") from None
        tree = statements[0]["node"].get("where_clause") if len(statements) == 1 else None
        if not isinstance(tree, dict):
            raise BadCondition("give one condition, without further clauses")
        return {"of": tree}

    def _check_node(self, node: dict[str, Any]) -> int:
        """Raise `BadCondition` if this node is not allowed; return the size of its regular expression, or 0."""
        kind = node["class"]
        if kind == "SUBQUERY":
            raise BadCondition("a condition looks at one event, without sub-queries")
        if kind == "WINDOW":
            raise BadCondition(ONE_EVENT)
        if kind not in CLASSES:
            kind_name = str(kind).lower().replace("_", " ")
            raise BadCondition(f"a condition over HTTP compares values: {kind_name} is not allowed")
        if kind == "CAST":
            type_name = cast_type(node)
            if type_name not in TYPES:
                raise BadCondition(
                    f"a condition over HTTP casts to {', '.join(sorted(TYPES))}, not to {type_name!r:.60}"
                )
        return self._check_function(node) if kind == "FUNCTION" else 0

    def _check_function(self, node: dict[str, Any]) -> int:
        name = str(node.get("function_name")).lower()
        if name not in FUNCTIONS:
            if self._is_aggregate(name):
                raise BadCondition(f"{ONE_EVENT}: {name} is an aggregate")
            allowed = sorted(word for word in FUNCTIONS if word.isidentifier() and not word.endswith("_escape"))
            raise BadCondition(f"a condition over HTTP has no function {name!r:.60}; there are {', '.join(allowed)}")
        if name not in PATTERNED:
            return 0
        pattern, *options = [*children_of(node)][1:] or [{}]
        if any(argument.get("class") != "CONSTANT" for argument in (pattern, *options)):
            raise BadCondition("a pattern over HTTP is a constant, such as in name LIKE 'order%'")
        if name not in LIKE:
            return expression_size(constant_text(pattern))
        if constant_text(pattern).count("%") > MOST_WILDCARDS:
            raise BadCondition(f"a pattern of LIKE over HTTP has up to {MOST_WILDCARDS} percent signs")
        return 0

    def _is_aggregate(self, name: str) -> bool:
        query = "SELECT count(*) FROM duckdb_functions() WHERE function_name = ? AND function_type = 'aggregate'"
        with self._lock:
            return self._connection.execute(query, [name]).fetchall() != [(0,)]


def expression_size(text: str) -> int:
    """Estimate how many instructions RE2 makes of a regular expression; rather too many than too few."""
    # By nesting of open groups: the size of what is inside so far.
    sizes = [0]
    last = 0
    for match in _PART.finditer(text):
        part = match[0]
        if part == "(":
            sizes.append(0)
            last = 0
        elif part == ")":
            last = sizes.pop() if len(sizes) > 1 else 1
            sizes[-1] += last + 1
        elif part[0] == "{" and match["least"]:
            times = max(int(match["least"]), int(match["most"] or 0)) + (match["open"] is not None)
            sizes[-1] += last * max(0, min(times, MOST_REPEATED) - 1)
            last *= max(1, min(times, MOST_REPEATED))
        else:
            last = 100 if part[:2] in ("\\p", "\\P") else 10 if part[0] in ".[\\" else 1
            sizes[-1] += last
    return sum(sizes)


_PART = re.compile(
    r"\\[pP](?:\{[^}]*\}|.)|\\.|\[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]\\])*\]|\{(?P<least>\d{1,9})(?P<open>,(?P<most>\d{1,9})?)?\}|.",
    re.DOTALL,
)
"""Matches an escape, a class, a repetition, or one character."""
