"""Answers as tables of Arrow, pandas and polars, and as Python shows them."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import ledto
from ledto.history import BadQuery, HistoryReplaced
from ledto.history.times import to_datetime
from ledto.questions import History
from ledto.questions.answer import Answer, attributes_text

START = 1_700_000_000_123_456_789
"""Not a whole microsecond, and more digits than a float has."""
LINES: list[dict[str, Any]] = [
    {"process": "web", "seq": 1, "time": START, "sends": "m1", "name": "checkout", "status": 200, "note": "ü"},
    {"process": "mail", "seq": 1, "name": "newsletter"},
    {"process": "stock", "seq": 1, "time": START + 20, "receives": "m1", "name": "reserve"},
    {"process": "stock", "seq": 3, "time": START + 30, "sends": "m2", "name": "reserved", "status": 409},
    {"process": "web", "seq": 2, "time": START + 40, "receives": "m2", "name": "shown"},
    {"process": "web", "seq": 3, "time": START + 41, "name": "left"},
]


def observe(folder: Path, lines: list[dict[str, Any]], **options: Any) -> History:
    log = folder / "shop.jsonl"
    log.write_text("".join(json.dumps(line) + "\n" for line in lines) + "{oops\n")
    return ledto.observe(log, folder / "shop.history", policies=["exact"], **options)


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> History:
    return observe(tmp_path_factory.mktemp("answers"), LINES)


ANSWERS: dict[str, Any] = {
    "why": lambda h: h.why("web:2"),
    "why with a filter": lambda h: h.why("web:2", where="status > 300"),
    "impact": lambda h: h.impact("web:1"),
    "concurrent": lambda h: h.concurrent("web:2"),
    "cut": lambda h: h.cut("web:2"),
    "cut by time": lambda h: h.cut(time=START + 30),
    "cut before all": lambda h: h.cut(time=0),
    "related": lambda h: h.related("web:1", "web:2"),
    "explain": lambda h: h.explain("web:1", "web:2"),
    "explain nothing": lambda h: h.explain("mail:1", "web:2"),
    "order": lambda h: h.order(),
    "order of a policy": lambda h: h.order(policy="exact"),
    "sql": lambda h: h.sql("SELECT process, count(*) AS events FROM events GROUP BY ALL ORDER BY ALL"),
    "small integers": lambda h: h.sql("SELECT seq::TINYINT AS n, NULLIF(seq, 1)::UBIGINT AS m FROM events"),
    "no rows": lambda h: h.sql("SELECT * FROM events WHERE false"),
    "clocks": lambda h: h.clocks(),
    "processes": lambda h: h.processes(),
    "quarantine": lambda h: h.quarantine(outcome=None),
}


@pytest.mark.parametrize("question", ANSWERS)
def test_every_answer_becomes_a_table_of_each_library(history: History, question: str) -> None:
    """A notebook goes on with whatever library its author knows; no row and no digit may get lost on the way."""
    answer = ANSWERS[question](history)
    assert isinstance(answer, Answer)
    table = answer.to_arrow()
    frame, polars = answer.to_pandas(), answer.to_polars()
    assert list(frame.columns) == polars.columns == table.column_names
    assert len(frame) == polars.height == len(table)
    for name in table.column_names:
        if pa.types.is_integer(table.schema.field(name).type):
            expected = table[name].to_pylist()
            assert [None if value is _na() else int(value) for value in frame[name]] == expected
            assert polars[name].to_list() == expected
    json.dumps(answer.to_json())
    assert repr(answer).startswith(f"{type(answer).__name__}(")
    assert len(repr(answer)) < 200, "a notebook or a debugger prints it"


def _na() -> Any:
    import pandas

    return pandas.NA


def test_a_table_of_events_has_what_the_events_have(history: History) -> None:
    """Roles tell causes from the event itself; ids, times and attributes are those of the answer."""
    answer = history.why("web:2")
    rows = answer.to_arrow().to_pylist()
    assert [(row["role"], row["id"]) for row in rows] == [
        *(("cause", event.id) for event in answer.causes),
        ("asked", "web:2"),
        *(("possible", possible.event.id) for possible in answer.possible),
    ]
    first, event = rows[0], answer.causes[0]
    assert (first["time"], first["position"], first["sends"]) == (START, event.position, "m1")
    assert json.loads(first["attributes"]) == event.attributes == {"status": 200, "note": "ü"}
    assert "ü" in first["attributes"]
    assert first["missing"] == []


def test_an_attribute_that_is_half_a_character_stays_readable() -> None:
    """JSON of other tools may escape half of a pair, which no column of text can hold: one event must not fail a table."""
    attributes = {"half": "\ud800", "ü": 1}
    text = attributes_text(attributes)
    assert text is not None
    assert pa.array([text]).to_pylist() == [text]
    assert json.loads(text) == attributes


def test_times_are_exact_as_numbers_and_as_datetimes(history: History) -> None:
    """Nanoseconds do not fit a float or a Python datetime: the number stays, and tables have timestamps of the unit."""
    answer = history.why("web:2")
    event = answer.causes[0]
    assert event.time == START
    assert event.datetime == datetime(2023, 11, 14, 22, 13, 20, 123456, tzinfo=UTC)
    assert event.causal_datetime == event.corrected_datetime == event.datetime
    table = answer.to_arrow()
    assert table.schema.field("datetime").type == pa.timestamp("ns", "UTC")
    assert table["datetime"].cast(pa.int64()).to_pylist() == table["time"].to_pylist()
    frame = answer.to_pandas()
    assert frame["datetime"].iloc[0].nanosecond == 789
    assert frame["time"].iloc[0] == START
    assert answer.to_polars()["datetime"].dt.epoch("ns")[0] == START
    assert history.event("mail:1").datetime is None


def test_ticks_are_no_datetimes(tmp_path: Path) -> None:
    """Nobody knows how long a tick is: a date of 1970 would be an invention."""
    history = observe(tmp_path, [{"process": "a", "seq": 1, "time": 5}], unit="tick")
    assert history.event("a:1").datetime is None
    assert "datetime" not in history.why("a:1").to_arrow().column_names
    assert "datetime" not in history.order().to_arrow().column_names


@pytest.mark.parametrize(
    ("time", "unit", "expected"),
    [
        (-1, "ns", datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)),
        (1_500, "ms", datetime(1970, 1, 1, 0, 0, 1, 500000, tzinfo=UTC)),
        (86_400, "s", datetime(1970, 1, 2, tzinfo=UTC)),
        (-62_135_596_800, "s", datetime(1, 1, 1, tzinfo=UTC)),
        (-62_135_596_801, "s", None),
        (1 << 62, "s", None),
        (7, "tick", None),
        (None, "ns", None),
    ],
)
def test_a_time_becomes_the_datetime_before_it(time: int | None, unit: str, expected: datetime | None) -> None:
    """A time before 1970 must not be rounded up, and an absurd one must not raise."""
    assert to_datetime(time, unit) == expected


def test_sql_answers_as_the_command_does(history: History) -> None:
    """The same query from a notebook and from a shell must not give two answers: sums, dates, bytes and NaN included."""
    query = (
        "SELECT process, sum(seq) AS seqs, sum(seq) + 170000000000000000000 AS huge, DATE '2026-01-31' AS day, "
        "'a'::BLOB AS bytes, 'NaN'::DOUBLE AS none, [1, NULL] AS list, {'k': 1.5::DECIMAL(4,1)} AS struct "
        "FROM events GROUP BY process ORDER BY process"
    )
    place = str(history.run.store)
    command = [sys.executable, "-m", "ledto.cli", "sql", place, query, "--json"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    answer = history.sql(query)
    assert answer.to_json() == json.loads(printed)
    assert answer.to_arrow().schema.field("seqs").type == pa.int64()
    assert [row["process"] for row in answer] == ["mail", "stock", "web"]
    assert (len(answer), answer.columns[:2]) == (3, ["process", "seqs"])


def test_columns_of_one_name_are_all_kept(history: History) -> None:
    """Two counts have the same name: an object of JSON, or a table of polars, would lose one of them."""
    answer = history.sql('SELECT count(*), count(DISTINCT process), 7 AS "count_2" FROM events')
    names = answer.columns
    assert answer.to_json() == [dict(zip(names, (6, 3, 7), strict=True))]
    assert len(set(names)) == answer.to_polars().width == 3


def test_sql_keeps_what_a_query_made(history: History) -> None:
    """A notebook works in steps: a table made in one cell is asked in the next."""
    history.sql("CREATE OR REPLACE TABLE late AS SELECT * FROM events WHERE seq > 1")
    assert history.sql("SELECT count(*) AS n FROM late").to_json() == [{"n": 3}]


@pytest.mark.parametrize("query", ["", " ; ", "SELEC 1", "SELECT nothing FROM events"])
def test_a_query_that_is_refused_says_why(history: History, query: str) -> None:
    """The error is one of the history's, as for all questions, with the words of DuckDB."""
    with pytest.raises(BadQuery, match=r"query is empty|SELEC|nothing"):
        history.sql(query)


def test_a_variable_of_the_program_is_no_table(history: History) -> None:
    """A misspelt view that has the name of a variable would be answered from that, and nobody would notice."""
    event = history.processes().to_arrow()
    assert len(event) == 3
    with pytest.raises(BadQuery, match="event does not exist"):
        history.sql("SELECT * FROM event")


def test_sql_is_about_the_run_that_is_open(tmp_path: Path) -> None:
    """A newer run must not answer for the one that the notebook's other answers are about."""
    old = observe(tmp_path, LINES)
    assert old.sql("SELECT count(*) AS n FROM events").to_json() == [{"n": 6}]
    observe(tmp_path, LINES[:2])
    for query in ("SELECT count(DISTINCT name) FROM events", "SELECT * FROM processes"):
        with pytest.raises(HistoryReplaced, match="open it again"):
            old.sql(query)


def test_listing_twice_gives_the_same(history: History) -> None:
    """An order or a quarantine that a first loop used up would be empty in the next cell."""
    order = history.order()
    assert [event.id for event in order] == [event.id for event in order]
    assert len(order) == 6
    reports = history.quarantine()
    assert list(reports) == list(reports) != []
    assert repr(reports) == "QuarantinedReports(1 quarantined)"


def test_order_as_a_table_has_every_event_once(history: History) -> None:
    """All ids, completed where the source gave none, in the order of iteration."""
    for policy in (None, "exact"):
        table = history.order(policy=policy).to_arrow()
        assert table["id"].to_pylist() == [event.id for event in history.order(policy=policy)]
    assert {"at", "waited", "late"} <= set(table.column_names)


def test_what_is_printed_tells_the_answer(history: History) -> None:
    """In a debugger or a console, twenty-five events with all their fields hide what was found."""
    assert repr(history.why("web:2")) == "Why(web:2 'shown': 3 causes, not complete)"
    assert repr(history.event("web:1")) == f"Event(id='web:1', process='web', seq=1, name='checkout', time={START})"
    assert repr(history.related("web:1", "web:2")) == "Related(web:1 'checkout' before web:2 'shown')"
    assert repr(history.processes()) == "ProcessList(3 processes, 6 events)"
    assert history.processes() == tuple(history.processes())
