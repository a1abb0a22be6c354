"""Which conditions are taken over HTTP: those that take little time, little memory, and say the same of an event every time.

They are the conditions of the command line (`whence.history.questions.conditions`) with these operators: comparisons,
AND, OR, NOT, IN, BETWEEN, IS NULL, CASE and casts, and the functions in `FUNCTIONS`. Others are refused, such as
``repeat``, which takes memory, or ``random``, which never says the same. Regular expressions are RE2's, which never
backtrack, but take a time proportional to the text times their own size, repetitions written out: so that is bounded, too.
They and the patterns of LIKE must be constants.
"""

from __future__ import annotations

import json
import re
from threading import Lock
from typing import Any, Final

import duckdb

from whence.history.errors import BadCondition
from whence.history.questions.conditions import children_of, closed_connection

MOST_CHARACTERS: Final = 2_000
MOST_PARTS: Final = 500
MOST_DEPTH: Final = 40
MOST_WILDCARDS: Final = 8
"""Percent signs in a pattern of LIKE."""
MOST_EXPRESSION: Final = 1_000
"""Size of all regular expressions of a condition: two seconds for each megabyte of the worst text."""
MOST_REPEATED: Final = 1_000

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
    """Refuses conditions beyond these limits. Threads may share it."""

    def __init__(self) -> None:
        self._connection = closed_connection()
        self._lock = Lock()

    def check(self, text: str) -> None:
        """Raise `BadCondition`, which says what to write instead, unless the condition is within the limits."""
        if len(text) > MOST_CHARACTERS:
            raise BadCondition(f"a condition has up to {MOST_CHARACTERS:,} characters, not {len(text):,}")
        parts = size = 0
        waiting = [(0, node) for node in children_of(self._tree(text))]
        while waiting:
            depth, node = waiting.pop()
            parts += 1
            if depth > MOST_DEPTH or parts > MOST_PARTS:
                raise BadCondition(f"a condition has up to {MOST_PARTS} parts, nested up to {MOST_DEPTH} deep")
            size += _check_node(node)
            if size > MOST_EXPRESSION:
                raise BadCondition(
                    f"the regular expressions of a condition over HTTP have up to {MOST_EXPRESSION:,} parts together, "
                    "repetitions such as {50} written out"
                )
            waiting += ((depth + 1, part) for part in children_of(node))

    def _tree(self, text: str) -> dict[str, Any]:
        query = f"SELECT 1 FROM event WHERE {text}\n"
        try:
            with self._lock:
                found = self._connection.execute("SELECT json_serialize_sql(?::VARCHAR)", [query]).fetchall()
        except (duckdb.Error, UnicodeError):
            raise BadCondition("the condition is not SQL") from None
        parsed = json.loads(found[0][0])
        if parsed.get("error"):
            told = str(parsed.get("error_message")).strip().partition("\n")[0]
            raise BadCondition(f"the condition is not SQL: {told}")
        statements = parsed["statements"]
        tree = statements[0]["node"].get("where_clause") if len(statements) == 1 else None
        if not isinstance(tree, dict):
            raise BadCondition("one condition is asked for, without further clauses")
        return {"of": tree}


def expression_size(text: str) -> int:
    """About how many instructions RE2 makes of a regular expression; too many rather than too few."""
    sizes = [0]
    last = 0
    for part in _PART.finditer(text):
        found = part[0]
        if found == "(":
            sizes.append(0)
            last = 0
        elif found == ")":
            last = sizes.pop() if len(sizes) > 1 else 1
            if not sizes:
                sizes = [0]
            sizes[-1] += last + 1
        elif found[0] == "{" and part["least"]:
            times = max(int(part["least"]), int(part["most"] or 0)) + (part["open"] is not None)
            sizes[-1] += last * max(0, min(times, MOST_REPEATED) - 1)
            last *= max(1, min(times, MOST_REPEATED))
        else:
            last = 100 if found[:2] in ("\\p", "\\P") else 10 if found[0] in ".[\\" else 1
            sizes[-1] += last
    return sum(sizes)


_PART = re.compile(
    r"\\[pP](?:\{[^}]*\}|.)|\\.|\[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]\\])*\]|\{(?P<least>\d{1,9})(?P<open>,(?P<most>\d{1,9})?)?\}|.",
    re.DOTALL,
)
"""An escape, a class, a repetition, or one character."""


def _check_node(node: dict[str, Any]) -> int:
    """Raise `BadCondition` for what is not taken; gives the size of a regular expression, and 0 for anything else."""
    kind = node["class"]
    if kind == "SUBQUERY":
        raise BadCondition("a condition looks at one event, without sub-queries")
    if kind not in CLASSES:
        raise BadCondition(f"a condition over HTTP compares values: {str(kind).lower().replace('_', ' ')} is not taken")
    if kind == "CAST":
        wanted = _type_of(node)
        if wanted not in TYPES:
            raise BadCondition(f"a condition over HTTP casts to {', '.join(sorted(TYPES))}, not to {wanted!r:.60}")
    return _check_function(node) if kind == "FUNCTION" else 0


def _check_function(node: dict[str, Any]) -> int:
    name = str(node.get("function_name")).lower()
    if name not in FUNCTIONS:
        known = ", ".join(sorted(each for each in FUNCTIONS if each.isidentifier() and not each.endswith("_escape")))
        raise BadCondition(f"a condition over HTTP has no function {name!r:.60}; there are {known}")
    if name not in PATTERNED:
        return 0
    pattern, *further = [*children_of(node)][1:] or [{}]
    if any(each.get("class") != "CONSTANT" for each in (pattern, *further)):
        raise BadCondition("a pattern over HTTP is a constant, such as in name LIKE 'order%'")
    if name not in LIKE:
        return expression_size(_text_of(pattern))
    if _text_of(pattern).count("%") > MOST_WILDCARDS:
        raise BadCondition(f"a pattern of LIKE over HTTP has up to {MOST_WILDCARDS} percent signs")
    return 0


def _type_of(cast: dict[str, Any]) -> str:
    """Versions of DuckDB differ in where they tell."""
    named = cast.get("type_expr") or cast.get("cast_type") or {}
    return str(named.get("type_name") or named.get("id") or "")


def _text_of(constant: dict[str, Any]) -> str:
    held = constant.get("literal") or constant.get("value") or {}
    return str(held.get("text") or held.get("value") or "")
