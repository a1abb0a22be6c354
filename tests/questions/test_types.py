"""Conditions, SQL and subscriptions read attributes by one rule, which this module says once more, value by value."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from ledto.history import BadCondition
from ledto.history.attribute_types import TEXT
from ledto.live.delivery_log import DELIVERED
from ledto.questions import History, connect
from ledto.questions.names import Names, quote_name, quote_text
from ledto.questions.prepare import prepare
from ledto.questions.syntax import closed_connection
from ledto.questions.where import Condition
from tests.history.building import draw, write_history

BIG = 2**53
NAMES = ("status", "order", "http.status_code", "user", "plain", "flag", "big")
KINDS: dict[str, list[Any]] = {
    "integers": [0, 5, 7, 40, 99, 402, 500, 1000, -3],
    "big": [BIG, BIG + 1, BIG + 2, -BIG - 1, 2**62, 2**62 + 1, 7],
    "numbers": [0.5, 99.5, 402, 1000.0, -2.25, 7],
    "booleans": [True, False],
    "texts": [
        "",
        "402",
        "99",
        " 7 ",
        "1e3",
        "nan",
        "inf",
        "unknown",
        "true",
        "no",
        "0x10",
        f"{BIG + 1}",
        "007",
        "Ünal",
    ],
    "others": [[], [1, 2], {"in": 1}, {}],
}
NUMBER = re.compile(r"\s*[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?\s*")
YES, NO = {"true", "t", "yes", "y", "1"}, {"false", "f", "no", "n", "0"}

Value = Any
Truth = Callable[[dict[str, Any]], Value]
"""The value of an expression for an event's attributes; None is null."""


def value_of(attributes: dict[str, Any], name: str) -> Value:
    outer, _, inner = name.partition(".")
    nested = attributes.get(outer)
    flat = attributes.get(name)
    return nested.get(inner) if flat is None and inner and isinstance(nested, dict) else flat


def text_of(value: Value) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, separators=(",", ":"))


def number_of(value: Value) -> tuple[float, int] | None:
    """The number, and what is left of it where floats are too coarse."""
    if isinstance(value, str) and NUMBER.fullmatch(value):
        value = int(value) if re.fullmatch(r"\s*[+-]?\d+\s*", value) else float(value)
    if type(value) not in (int, float):
        return None
    return float(value), int(value) if abs(value) >= BIG else 0


def boolean_of(value: Value) -> bool | None:
    text = (text_of(value) or "").lower()
    return True if text in YES else False if text in NO else None


def cast_to_number(value: Value) -> float | None:
    """What SQL makes of a value when asked: also of true and false, and of what is not finite."""
    text = text_of(value) or ""
    if text in ("nan", "inf"):
        return math.inf
    found = number_of(text)
    return float(text == "true") if text in ("true", "false") else None if found is None else found[0]


OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def compared(operator: str, left: Value, right: Value) -> bool | None:
    return None if left is None or right is None else OPERATORS[operator](left, right)


def either(left: Value, right: Value) -> bool | None:
    return True if True in (left, right) else None if None in (left, right) else False


def negated(value: Value) -> bool | None:
    return None if value is None else not value


@dataclass(frozen=True)
class Draw:
    """Draws conditions, each with its truth, over attributes of these types."""

    random: Random
    types: dict[str, str]

    def condition(self, depth: int = 2) -> tuple[str, Truth]:
        if depth and self.random.random() < 0.4:
            (a, first), (b, second) = self.condition(depth - 1), self.condition(depth - 1)
            match self.random.choice(("and", "or", "not")):
                case "and":
                    return f"({a} AND {b})", lambda e: negated(either(negated(first(e)), negated(second(e))))
                case "or":
                    return f"({a} OR {b})", lambda e: either(first(e), second(e))
            return f"NOT ({a})", lambda e: negated(first(e))
        return self.random.choice(
            (
                self.number,
                self.number,
                self.text,
                self.boolean,
                self.attributes,
                self.members,
                self.null,
                self.number_of,
            )
        )()

    def name(self) -> str:
        return self.random.choice(NAMES)

    def literal(self) -> int | float:
        return self.random.choice([*KINDS["integers"], *KINDS["big"], 0.5, 99.5])

    def number(self) -> tuple[str, Truth]:
        name, operator, literal = self.name(), self.random.choice([*OPERATORS]), self.literal()
        if self.random.random() < 0.2:
            lower, upper = sorted((literal, self.literal()))
            return f"{name} BETWEEN {lower} AND {upper}", lambda e: negated(
                either(
                    compared("<", number_of(value_of(e, name)), number_of(lower)),
                    compared(">", number_of(value_of(e, name)), number_of(upper)),
                )
            )
        return f"{name} {operator} {literal}", lambda e: compared(
            operator, number_of(value_of(e, name)), number_of(literal)
        )

    def number_of(self) -> tuple[str, Truth]:
        """Expressions that are numbers, of small ones."""
        name, literal = self.random.choice(NAMES[:-1]), self.random.choice(KINDS["integers"])

        def small(e: dict[str, Any]) -> float | None:
            found = number_of(value_of(e, name))
            return None if found is None else found[0]

        if self.random.random() < 0.5:
            return (
                f"{name} // 3 = {literal // 3}",
                lambda e: None if (found := small(e)) is None else int(found / 3) == literal // 3,
            )
        return (
            f"coalesce({name}, 99) + 1 > {literal}",
            lambda e: (99 if (found := small(e)) is None else found) + 1 > literal,
        )

    def text(self) -> tuple[str, Truth]:
        name, operator, literal = self.name(), self.random.choice([*OPERATORS]), self.random.choice(KINDS["texts"])
        if operator not in ("=", "<>") and NUMBER.fullmatch(literal):
            # Refused for attributes that are numbers, so that nobody sorts 1000 before 500.
            operator = "="
        if operator not in ("=", "<>") and literal in ("nan", "inf"):
            operator = "<>"
        return f"{name} {operator} {quote_text(literal)}", lambda e: compared(
            operator, text_of(value_of(e, name)), literal
        )

    def boolean(self) -> tuple[str, Truth]:
        name = self.name()
        if self.random.random() < 0.5:
            return f"({name})", lambda e: boolean_of(value_of(e, name))
        return f"{name} = false", lambda e: negated(boolean_of(value_of(e, name)))

    def attributes(self) -> tuple[str, Truth]:
        first, second, operator = self.name(), self.name(), self.random.choice([*OPERATORS])

        def truth(e: dict[str, Any]) -> bool | None:
            left, right = value_of(e, first), value_of(e, second)
            if all(type(value) in (int, float) for value in (left, right)):
                return compared(operator, number_of(left), number_of(right))
            return compared(operator, text_of(left), text_of(right))

        return f"{first} {operator} {second}", truth

    def members(self) -> tuple[str, Truth]:
        """Lists of numbers and texts: each is compared as it is."""
        name = self.name()
        some = self.random.sample([*KINDS["integers"], "unknown", "402", "true"], 3)
        listed = ", ".join(quote_text(each) if isinstance(each, str) else str(each) for each in some)

        def truth(e: dict[str, Any]) -> bool | None:
            found = value_of(e, name)
            outcome: bool | None = False
            for each in some:
                mine = text_of(found) if isinstance(each, str) else number_of(found)
                outcome = either(outcome, compared("=", mine, each if isinstance(each, str) else number_of(each)))
            return outcome

        return f"{name} IN ({listed})", truth

    def null(self) -> tuple[str, Truth]:
        name = self.name()
        return f"{name} IS NULL", lambda e: value_of(e, name) is None


@pytest.mark.parametrize("seed", range(5))
def test_conditions_queries_and_subscriptions_find_the_same_events(seed: int, tmp_path: Path) -> None:
    """Whoever tries a condition in SQL, and then subscribes to it, must not be told of other events, or of none."""
    random = Random(seed)
    kinds = {name: random.sample([*KINDS], random.choice((1, 1, 2, 3))) for name in NAMES}
    kinds["big"] = ["big"] + kinds["big"][:1] * (seed % 2)
    for name in NAMES[:-1]:
        kinds[name] = [kind for kind in kinds[name] if kind != "big"] or ["integers"]
    events = draw(random, "", 3, 50)
    for event in events:
        given = {name: random.choice(KINDS[random.choice(kinds[name])]) for name in NAMES if random.random() < 0.8}
        if "http.status_code" in given and random.random() < 0.5:
            given["http"] = {"status_code": given.pop("http.status_code")}
        if random.random() < 0.1:
            given["order"] = None
        event.attributes = given
    written = write_history(tmp_path, [(events, [20])], [])
    history = History(tmp_path)
    types = history.run.manifest.attributes
    drawing = Draw(random, types)
    conditions = dict(drawing.condition() for _ in range(40))

    lists = ", ".join(f"list(position ORDER BY position) FILTER (WHERE {each})" for each in conditions)
    with connect(tmp_path) as sql:
        (by_query,) = sql.execute(prepare(f"SELECT {lists} FROM events", history.run, sql)).fetchall()
    rows = pa.Table.from_pylist([{"attributes": json.dumps(event.attributes)} for event in written], DELIVERED)
    closed = closed_connection()
    for (condition, truth), listed in zip(conditions.items(), by_query, strict=True):
        expected = [event.position for event in written if truth(event.attributes or {}) is True]
        assert (listed or []) == expected, condition
        asked = Condition(condition, history.run.event_schema(), types, connection=closed)
        met = asked.test(history.run.rows(list(range(len(written))), asked.columns))
        assert met.nonzero()[0].tolist() == expected, condition
        subscribed = Condition(condition, DELIVERED, None, connection=closed, lenient=True)
        assert subscribed.test(rows.select(subscribed.columns)).nonzero()[0].tolist() == expected, condition


HOSTILE = (
    "order",
    "select",
    "a.b.c",
    'a"b',
    "a'b",
    "x; DROP TABLE events",
    "x -- y",
    "/* c */ z",
    "a b",
    "é",
    "日本",
    "*",
)
HOSTILE += (
    "attributes",
    "TIME",
    "Position",
    "message",
    "reading 0",
    "event",
    "stored",
    "events",
    "line\nbreak",
    "\\",
    "~/0",
)


def test_names_of_any_kind_can_be_asked_for(tmp_path: Path) -> None:
    """A log may have attributes of any name; in quotes each must be itself, and nothing else must be run."""
    events = draw(Random(4), "", 2, len(HOSTILE))
    for name, event in zip(HOSTILE, events, strict=True):
        event.attributes = {name: f"of {name}"}
    written = write_history(tmp_path, [(events, [])], [])
    history = History(tmp_path)
    names = {next(iter(event.attributes or {})): event.position for event in written}
    with connect(tmp_path) as sql:
        for name, position in names.items():
            condition = f"attributes.{quote_name(name)} = {quote_text(f'of {name}')}"
            assert [event.position for event in history.order() if name in event.attributes] == [position]
            asked = Condition(condition, history.run.event_schema(), history.run.manifest.attributes)
            assert asked.test(history.run.rows(range(len(written)), asked.columns)).nonzero()[0].tolist() == [position]
            query = prepare(f"SELECT position FROM events WHERE {condition}", history.run, sql)
            assert sql.execute(query).fetchall() == [(position,)], name
    for condition in ("who = 'a\0b'", '"nul\0x" = 1'):
        # DuckDB's parser would cut the text, and find what has only its beginning.
        with pytest.raises(BadCondition, match="NUL"):
            history.why("@1", where=condition)


def test_joins_and_groups_keep_the_meaning_of_sql(tmp_path: Path) -> None:
    """Names of results, of other tables and of tables of one's own come before attributes, as SQL has it."""
    events = draw(Random(6), "", 2, 30)
    for number, event in enumerate(events):
        event.attributes = {
            "order": number % 5,
            "effect": "none",
            "status": "unknown" if number % 3 else number,
            "flag": number < 4,
        }
    write_history(tmp_path, [(events, [])], [])
    run = History(tmp_path).run
    count = {each: sum(number % 3 == 0 and number >= each for number in range(30)) for each in (5, 20)}
    queries = {
        "SELECT count(*) FROM events WHERE status >= 5": [(count[5],)],
        "SELECT count(*) FROM events AS e WHERE e.status >= 20": [(count[20],)],
        "SELECT order, count(*) AS n FROM events WHERE order < 2 GROUP BY order ORDER BY order": [(0, 6), (1, 6)],
        "SELECT max(order) AS status FROM events HAVING status >= 4": [(4,)],
        "SELECT max(status) >= 27, avg(status) FROM events": [(True, 13.5)],
        "SELECT sum(CAST(flag AS INTEGER)), count(*) FILTER (WHERE flag) FROM events": [(4, 4)],
        "SELECT string_agg(order, '' ORDER BY order DESC) FROM events WHERE status < 13": [("43210",)],
        "SELECT DISTINCT sum(status) OVER (PARTITION BY flag) AS n FROM events ORDER BY n": [(3.0,), (132.0,)],
        "SELECT count(*) FROM events WHERE CAST(status AS INTEGER) >= 5": [(count[5],)],
        "SELECT count(*) FROM causes JOIN events ON causes.effect = position WHERE status >= 100": [(0,)],
        "SELECT count(*) FROM events WHERE (SELECT count(*) FROM causes WHERE effect = position) > 99": [(0,)],
        "WITH events AS (SELECT 'a' AS status) SELECT count(*) FROM events WHERE status = 'a'": [(1,)],
        "SELECT count(*) FROM (SELECT order AS o FROM events) WHERE o = 3": [(6,)],
        "SELECT count(*) FROM events a JOIN events b ON a.order = b.order AND a.position = b.position": [(30,)],
    }
    with connect(tmp_path) as sql:
        for query, expected in queries.items():
            assert sql.execute(prepare(query, run, sql)).fetchall() == expected, query
        assert [
            column[0] for column in sql.execute(prepare("SELECT status >= 5 FROM events", run, sql)).description
        ] == ["status >= 5"]
        with pytest.raises(BadCondition, match="order is a number: compare it with 3, without quotes"):
            prepare("SELECT * FROM events WHERE order >= '3'", run, sql)
        for unchanged in ("PIVOT events ON kind USING count(*)", "SELECT order FROM", "SELECT 1"):
            assert prepare(unchanged, run, sql) == unchanged
        with pytest.raises(duckdb.BinderException, match="Ambiguous"):
            sql.execute(prepare("SELECT * FROM causes JOIN events ON effect = position", run, sql))
        with pytest.raises(duckdb.BinderException, match="stauts"):
            sql.execute(prepare("SELECT stauts FROM events", run, sql))


def test_errors_stay_short_with_ten_thousand_attributes() -> None:
    """The sentence that helps would be lost among the names."""
    said = Names({"seq": "integer"}, {f"attr{number}": TEXT for number in range(10_000)}).describe_unknown(
        ["attr10000"]
    )
    assert "did you mean attr1000" in said
    assert "more" in said
    assert len(said) < 1_500
