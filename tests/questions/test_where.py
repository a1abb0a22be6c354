from __future__ import annotations

import json
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from ledto.history import BadCondition
from ledto.live.delivery_log import DELIVERED
from ledto.questions import History
from ledto.questions.where import Condition
from tests.history.building import Made, draw, write_history


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[History, list[Made]]:
    folder = tmp_path_factory.mktemp("conditions") / "history"
    events = draw(Random(3), "", 3, 60, ids=True)
    for number, event in enumerate(events):
        event.attributes = {"status": number % 12, "who": "ab"[number % 2], "a b": 5, "error": "disk full"}
        if number % 7 == 0:
            event.attributes = {"status": "unknown", "who": 7, "a b": None}
        if number % 11 == 0:
            event.attributes = None
        event.error = (True, None, False)[number % 3]
    written = write_history(folder, [(events, [])], [])
    return History(folder), written


def attribute(event: Made, name: str) -> object:
    return (event.attributes or {}).get(name)


def number(event: Made, name: str) -> float | None:
    value = attribute(event, name)
    return value if isinstance(value, int) else None


CONDITIONS = {
    "status >= 9": lambda e: (number(e, "status") or 0) >= 9,
    "status between 9 and 10": lambda e: number(e, "status") in (9, 10),
    "status in (2, 10)": lambda e: number(e, "status") in (2, 10),
    "status = 'unknown'": lambda e: attribute(e, "status") == "unknown",
    'status > "a b"': lambda e: None not in (n := (number(e, "status"), number(e, "a b"))) and n[0] > n[1],
    "status + 1 = 3": lambda e: number(e, "status") == 2,
    "status is null": lambda e: attribute(e, "status") is None,
    "not (status > 3)": lambda e: number(e, "status") is not None and number(e, "status") <= 3,
    "who = 'a' and kind = 'send'": lambda e: attribute(e, "who") == "a" and e.kind == "send",
    "WHO LIKE 'b%' or Name = 'pay'": lambda e: attribute(e, "who") == "b" or e.name == "pay",
    "attributes.status = 4": lambda e: number(e, "status") == 4,
    "error": lambda e: e.error is True,
    "error = true": lambda e: e.error is True,
    "not error": lambda e: e.error is False,
    "error is null": lambda e: e.error is None,
    "error and status >= 9": lambda e: e.error is True and (number(e, "status") or 0) >= 9,
    "attributes.error = 'disk full'": lambda e: attribute(e, "error") == "disk full",
    "time > 1100": lambda e: e.time is not None and e.time > 1100,
    "id = '/7'": lambda e: e.id == "/7",
    "message like 'm-p1:%'": lambda e: (
        e.causes[0].process == "p1" if e.causes else e.kind == "send" and e.process == "p1"
    ),
}


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_condition_is_met_by_the_events_that_meet_it(condition: str, made: tuple[History, list[Made]]) -> None:
    """Numbers that compare as text would put 10 before 9, and one odd value must not fail the search."""
    history, events = made
    parsed = Condition(condition, history.run.event_schema(), history.run.manifest.attributes)
    met = parsed.test(history.run.events(0, parsed.columns, 0, len(events)))
    expected = [bool(CONDITIONS[condition](event)) for event in events]
    assert met.tolist() == expected
    assert 0 < np.count_nonzero(met) < len(events)


@pytest.mark.parametrize(
    ("condition", "says"),
    [
        ("stauts >= 500", "there is no column 'stauts' (did you mean status?); there are \"a b\", arrival, "),
        ('name = "order failed"', "write it in single quotes: 'order failed'"),
        ("\"a b\" >= '4'", "a b is a number: compare it with 4, without quotes"),
        ("'a b' > 5 and", "names with spaces or signs, and reserved words, in double quotes"),
        ("status >=", "is not SQL"),
        ("1 = 1; DROP TABLE stored", "not SQL"),
        ("1 = 1 ORDER BY 1", "without further clauses"),
        ("1 = 1 UNION SELECT 1", "without further clauses"),
        ("status IN (SELECT 1)", "without sub-queries"),
        ("EXISTS (FROM read_text('/etc/passwd'))", "without sub-queries"),
        ("time", "not true or false"),
        ("nonsense(status) = 1", "does not work"),
        ("error = 'disk full'", "the attribute of the name error is attributes.error"),
        ("error LIKE 'disk%'", "the attribute of the name error is attributes.error"),
        ("", "the condition is empty"),
        (" ", "the condition is empty"),
        ("sum(seq) > 1", "without aggregates and window functions"),
        ("geomean(seq) > 1 AND process = 'p1'", "without aggregates and window functions"),
        ("row_number() OVER () = 1", "without aggregates and window functions"),
        ("unnest([true, false])", "does not work"),
    ],
)
def test_what_is_no_condition_is_refused(condition: str, says: str, made: tuple[History, list[Made]]) -> None:
    """A search that quietly finds nothing would be taken for an answer."""
    with pytest.raises(BadCondition) as refused:
        made[0].why(50, where=condition)
    assert says in str(refused.value)


@pytest.mark.parametrize("condition", ["error = 'disk full'", "late IN ('yes', 'never')"])
def test_a_lenient_condition_that_no_row_can_meet_is_refused(condition: str) -> None:
    """A subscription to it would be silent for ever: it is not a row that is wrong, but the condition."""
    with pytest.raises(BadCondition, match="Could not convert"):
        Condition(condition, DELIVERED, None, lenient=True)


def test_a_condition_names_the_attributes_that_are_unknown() -> None:
    """As it spells them; what is inside one that is known may be there."""
    condition = Condition(
        "statsu > 5 AND error AND http.code = 7 AND attributes.who = 'a'", DELIVERED, None, lenient=True
    )
    assert condition.unknown(["http", "who"]) == ("statsu",)
    assert condition.unknown([]) == ("statsu", "http.code", "who")


@pytest.mark.parametrize(
    "attributes", [None, {"end": "integer", "case": "integer", "order.from": "text", "äöü": "text"}]
)
def test_reserved_words_are_names_where_nothing_else_makes_sense(attributes: dict[str, str] | None) -> None:
    """Shops have orders and spans have ends; who subscribes must not have to know the words of SQL."""
    condition = (
        "äöü = 'ü' AND (end = 5 OR case = 3) AND order.from = 'here' AND CASE WHEN end = 5 THEN true ELSE true END"
    )
    parsed = Condition(condition, DELIVERED, attributes, lenient=True)
    given = [{"end": 5, "order.from": "here"}, {"case": 3, "order": {"from": "here"}}, {"end": 5, "order": "here"}]
    rows = pa.Table.from_pylist([{"attributes": json.dumps({"äöü": "ü", **each})} for each in given], DELIVERED)
    expected = [True, attributes is None, False]
    assert parsed.test(rows.select(parsed.columns)).tolist() == expected
    for typo in ("end = 5 AND AND", "end = 5 OR OR case = 3", "end = = 5", "end = 5 end", "end = 5 GROUP BY end"):
        with pytest.raises(BadCondition):
            Condition(typo, DELIVERED, attributes, lenient=True)
