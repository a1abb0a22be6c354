from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from ledto.events.schema import REPORTS
from ledto.history.attribute_types import INTEGER, TEXT
from ledto.history.store import Store
from ledto.questions import connect, views
from ledto.questions.sql import VIEWS, views_in
from tests.history.building import REASON, Made, draw, write_history
from tests.history.computations import observe_cut
from tests.history.manifests import rewrite
from tests.questions.test_model import Execution, observed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVENTS = 'SELECT position, process, seq, id, status, "a b" FROM events ORDER BY position'


@pytest.fixture(scope="module", params=[True, False], ids=["numbered", "counted"])
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Made]]:
    folder = tmp_path_factory.mktemp("sql") / "it's a history"
    random = Random(5)
    large = [(draw(random, "shop", 3, 40), [15, 30])]
    small = [[draw(random, "bank", 2, 8, ids=True)]]
    return folder, write_history(folder, large, small, numbered=request.param)


def expected_events(events: list[Made]) -> list[tuple[object, ...]]:
    values = [event.attributes or {} for event in events]
    return [
        (event.position, event.process, event.seq, event.id or event.key, value.get("status"), value.get("a b"))
        for event, value in zip(events, values, strict=True)
    ]


def test_duckdb_sees_the_history(made: tuple[Path, list[Made]]) -> None:
    """Reports and notebooks query the views; they must say what the questions say."""
    folder, events = made
    with connect(folder) as sql:
        assert sql.execute(EVENTS).fetchall() == expected_events(events)
        causes = sorted((event.position, cause.position) for event in events for cause in event.causes)
        assert sql.execute("SELECT effect, cause FROM causes ORDER BY ALL").fetchall() == causes
        assert sql.execute("SELECT reason FROM quarantine").fetchall() == [(REASON,)]
        assert sql.execute("SELECT * FROM deliveries").fetchall() == []
        counted = sql.execute("SELECT computation, sum(events) FROM processes GROUP BY ALL ORDER BY ALL").fetchall()
    assert counted == [("bank", 8), ("shop", 40)]


def test_spark_sees_the_history(made: tuple[Path, list[Made]], spark: SparkSession) -> None:
    """The same views at a scale that DuckDB does not reach."""
    folder, events = made
    for statement in views(folder, dialect="spark").split(";\n"):
        spark.sql(statement.rstrip(";"))
    found = [tuple(row) for row in spark.sql(EVENTS.replace('"', "`")).collect()]
    assert found == expected_events(events)
    causes = sorted((event.position, cause.position) for event in events for cause in event.causes)
    assert sorted((row.effect, row.cause) for row in spark.sql("SELECT * FROM causes").collect()) == causes
    assert spark.sql("SELECT * FROM deliveries").collect() == []
    assert [row.reason for row in spark.sql("SELECT * FROM quarantine").collect()] == [REASON]


@pytest.fixture(scope="module")
def of_lines(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Execution]:
    """A history of processes that do several things at once, cut so that lines, answers and messages cross."""
    folder = tmp_path_factory.mktemp("lines") / "history"
    execution = Execution(Random(8), processes=3, events=160, skew=6)
    observed(folder, execution, numbered=True, cuts=[60, 130, 200], eps=7)
    return folder, execution


LINES = "SELECT position, id, line FROM events"
EDGES = "SELECT effect, cause, kind FROM causes"


def check_edges(execution: Execution, events: list[tuple[Any, ...]], edges: list[tuple[Any, ...]]) -> None:
    """Paths over recorded rows are the recorded past; with assumed ones and the order of processes, the wide one."""
    names = {position: name for position, name, _ in events}
    assert {name: line for _, name, line in events} == {event.id: event.line for event in execution.done}
    assert {kind for *_, kind in edges} == {"message", "line", "answer"}
    assert {(effect, cause) for effect, cause, kind in edges if kind == "answer"} == {
        (place[event.id], place[cause.id])
        for place in ({name: position for position, name in names.items()},)
        for event in execution.done
        for cause in event.assumed
    }
    before: dict[str, list[tuple[str, str]]] = {event.id: [] for event in execution.done}
    for effect, cause, kind in edges:
        before[names[effect]].append((names[cause], kind))
    recorded, wide = execution.paths()
    reached: dict[str, set[str]] = {}
    possible: dict[str, set[str]] = {}
    for event in execution.done:
        own = before[event.id]
        reached[event.id] = {each for name, kind in own if kind != "answer" for each in (name, *reached[name])}
        own = [*own, *([(event.previous.id, "process")] if event.previous else [])]
        possible[event.id] = {each for name, _ in own for each in (name, *possible[name])}
        assert reached[event.id] == {each.id for each in recorded[event]}
        assert possible[event.id] == {each.id for each in wide[event]}


def test_causes_say_what_is_recorded(of_lines: tuple[Path, Execution]) -> None:
    """A query that follows causes would blame what only ran beside, or lose what started a request."""
    folder, execution = of_lines
    with connect(folder) as sql:
        check_edges(execution, sql.execute(LINES).fetchall(), sql.execute(EDGES).fetchall())


def test_causes_say_what_is_recorded_on_spark(of_lines: tuple[Path, Execution], spark: SparkSession) -> None:
    """The same there."""
    folder, execution = of_lines
    for statement in views(folder, dialect="spark").split(";\n"):
        spark.sql(statement.rstrip(";"))
    events, edges = ([tuple(row) for row in spark.sql(query).collect()] for query in (LINES, EDGES))
    check_edges(execution, events, edges)


@pytest.mark.parametrize("cuts", [[], [60, 130, 200]], ids=["one segment", "several"])
def test_a_message_between_events_at_one_time_is_a_tie_and_no_answer(tmp_path: Path, cuts: list[int]) -> None:
    """Who trusts answers would blame an innocent that a coarse clock gave the same time as what led to the failure."""
    execution = Execution(Random(8), processes=3, events=160, skew=6, ties=0.4)
    history = observed(tmp_path / "history", execution, numbered=False, cuts=cuts, eps=200)
    by_id = {event.id: event for event in execution.done}
    done = {event.position: by_id[event.id] for event in history.order()}
    with connect(tmp_path / "history") as sql:
        edges = [(done[effect], done[cause], kind) for effect, cause, kind in sql.execute(EDGES).fetchall()]
    assert {kind for *_, kind in edges} == {"message", "line", "answer", "tie"}
    for effect, cause, kind in edges:
        assert (cause in effect.recorded) == (kind == "message") or kind == "line"
        assert (cause in effect.assumed) == (kind == "answer")
        if kind == "tie":
            sent = {
                sender for sender in execution.done if sender.time == cause.time and sender.process == cause.process
            }
            received = [
                receiver
                for receiver in execution.done
                if receiver.time == effect.time and receiver.process == effect.process
            ]
            assert any(sent & {*receiver.recorded, *receiver.assumed} for receiver in received)


def test_what_does_not_fit_into_memory_goes_to_a_private_folder(
    made: tuple[Path, list[Made]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sort of all events failed in a container whose current folder is read-only; elsewhere all users could read them."""
    monkeypatch.chdir(tmp_path)
    connection = connect(made[0])
    [[folder]] = connection.execute("SELECT current_setting('temp_directory')").fetchall()
    assert Path(folder).stat().st_mode & 0o777 == 0o700
    connection.execute("SET memory_limit = '20MB'")
    connection.execute("SET threads = 1")
    numbers = "SELECT range AS number, repeat('x', 40) AS text FROM range(1_000_000)"
    [[last]] = connection.execute(
        f"SELECT max(number) FROM ({numbers} ORDER BY text, number DESC LIMIT 900_000)"
    ).fetchall()
    assert last == 999_999
    assert [*tmp_path.iterdir()] == []


def test_another_dialect_is_refused(made: tuple[Path, list[Made]]) -> None:
    """The error names those there are."""
    with pytest.raises(ValueError, match="duckdb, spark"):
        views(made[0], dialect="oracle")


ODD = ("", 'a"b', "a'b", "a.b", "a/b", "a~b", "select", "0", "*", "?", "x]y", "\n", "\\", "`", "$", "  ")
ODD += ("nth", "before", "from_file")
"""Names of attributes that are hard to quote, to point at, or to tell from what the views use themselves."""


@pytest.fixture(scope="module")
def oddly_named(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Each event has one attribute, whose value tells its name; then three that differ in case, and two named as columns."""
    folder = tmp_path_factory.mktemp("odd") / "history"
    names = [*ODD, "Status", "status", "STATUS", "time", "Position"]
    rows = [
        {
            "computation": "",
            "process": "p",
            "seq": None,
            "time": at,
            "kind": "local",
            "attributes": json.dumps({name: f"of {name}"}),
            "file": "log",
            "place": at,
        }
        for at, name in enumerate(names)
    ]
    run = observe_cut(folder, pa.Table.from_pylist(rows, REPORTS), [], 10)
    rewrite(run.store, attributes=dict.fromkeys(sorted(names), TEXT))
    return folder


def columns_of_attributes(names: list[str], rows: list[tuple[object, ...]]) -> dict[str, list[object]]:
    """By column that holds a text of an attribute: these texts."""
    return {
        name: found
        for at, name in enumerate(names)
        if name not in ("attributes", "name", "time", "position")
        and (found := [row[at] for row in rows if str(row[at]).startswith("of ")])
    }


ODD_COLUMNS = {name: [f"of {name}"] for name in ODD if name} | {"STATUS": ["of Status", "of status", "of STATUS"]}


def test_attributes_of_any_name_are_columns(oddly_named: Path) -> None:
    """One strange attribute in a log of millions would break every query, also those that do not ask for it."""
    with connect(oddly_named) as sql:
        found = sql.execute("SELECT * FROM events ORDER BY position")
        names = [column[0] for column in found.description or ()]
        assert columns_of_attributes(names, found.fetchall()) == ODD_COLUMNS
        (empty,) = sql.execute("SELECT attributes ->> '/' FROM events ORDER BY position").fetchall()[0]
        assert empty == "of "
        assert sql.execute("SELECT count(*), max(time) FROM events").fetchall() == [(24, 23)]


def test_spark_has_the_same_columns(oddly_named: Path, spark: SparkSession) -> None:
    """Whoever moves a query to Spark must not find other columns, or empty ones."""
    for statement in views(oddly_named, dialect="spark").split(";\n"):
        spark.sql(statement.rstrip(";"))
    found = spark.sql("SELECT * FROM events ORDER BY position")
    assert columns_of_attributes(found.columns, [tuple(row) for row in found.collect()]) == ODD_COLUMNS


def test_spark_has_the_same_types(tmp_path: Path, spark: SparkSession) -> None:
    """A sum in a report would be right on one engine, and on the other fail or compare texts."""
    events = draw(Random(2), "", 2, 12)
    for number, event in enumerate(events):
        code = {"http": {"status_code": 500 + number}} if number % 2 else {"http.status_code": 400 + number}
        odd = {"a?b": {"c'd": number}} if number % 3 else {"a?b": [number]}
        event.attributes = {**code, **odd, "flag": number > 5, "share": number / 4, "mixed": number or "none"}
    write_history(tmp_path, [(events, [])], [])
    for statement in views(tmp_path, dialect="spark").split(";\n"):
        spark.sql(statement.rstrip(";"))
    names = ("position", "http.status_code", "a?b.c'd", "flag", "share", "mixed")
    query = f"SELECT {', '.join(f'`{name}`' for name in names)} FROM events ORDER BY position"
    found = spark.sql(query)
    assert [kind for _, kind in found.dtypes] == ["bigint", "bigint", "bigint", "boolean", "double", "string"]
    with connect(tmp_path) as sql:
        rows = sql.execute(query.replace("`", '"')).fetchall()
    assert [tuple(row) for row in found.collect()] == rows
    assert [row[1:] for row in rows[:2]] == [(400, None, False, 0.0, "none"), (501, 1, False, 0.25, "1")]


def test_ten_thousand_attributes_can_be_queried(tmp_path: Path) -> None:
    """Logs that put an id into the name of an attribute are common enough."""
    write_history(tmp_path, [], [[draw(Random(1), "", 1, 9)]])
    rewrite(Store(tmp_path), attributes={"status": INTEGER} | {f"attr {at}": TEXT for at in range(10_000)})
    with connect(tmp_path) as sql:
        assert sql.execute('SELECT count(status) > 0, count("attr 9999") FROM events').fetchall() == [(True, 0)]


def test_only_the_files_of_a_query_are_read(made: tuple[Path, list[Made]]) -> None:
    """A question about few processes must not take as long as reading all events."""
    assert [*views_in("SELECT count(*) FROM Processes, nothing")] == ["processes"]
    assert [*views_in("SELECT 1; SELECT 2")] == [*views_in("no SQL at all")] == [*VIEWS]
    with connect(made[0], only=["processes"]) as sql:
        assert sql.execute("SHOW TABLES").fetchall() == [("processes",)]
