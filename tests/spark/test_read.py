"""Files as a DataFrame of reports: cut, compressed, mixed, and as Parquet."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, date, datetime
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from ledto.events.schema import COLUMNS
from ledto.sources import SourceError
from ledto.sources.files import find_files
from ledto.sources.inputs import find_inputs
from ledto.sources.parquet import parquet_schema, read_parquet_rows
from ledto.spark import read as reading
from ledto.spark.read import find_input_error
from tests.sources.parquet_tables import table
from tests.spark.running import observe, read_reports

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOON_NS = 1_714_564_800_123_456_789


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Each test has a current folder of its own."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def rows(spark: SparkSession, *inputs: str, **how: Any) -> list[dict[str, Any]]:
    """The rows in order of file and place, without columns that are null."""
    collected = [row.asDict() for row in read_reports(spark, inputs, **how).frame.collect()]
    collected.sort(key=lambda row: (row["file"], row["place"]))
    return [{name: value for name, value in row.items() if value is not None} for row in collected]


def test_a_file_read_by_many_tasks_has_its_lines_and_their_numbers(
    spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Large files are cut by bytes; a line lost or doubled at a cut, or a wrong number, could not be traced to its file."""
    lines = [json.dumps({"process": "p", "seq": n, "name": "é" * (n % 40)}) if n % 7 else "" for n in range(1, 400)]
    (folder / "a.jsonl").write_text("\n".join(lines))
    (folder / "b.jsonl.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    (folder / "c.jsonl").write_text("rubbish\n")
    monkeypatch.setattr(reading, "SPLIT_BYTES", 4_000)
    found = read_reports(spark, ["."])
    assert found.frame.rdd.getNumPartitions() > 10
    assert found.frame.columns == list(COLUMNS)
    assert (found.native_columns, found.needs_staging) == ((), True)
    assert [(file.name, file.size_bytes) for file in find_inputs(["."]).files] == [
        (name, (folder / name).stat().st_size) for name in ("a.jsonl", "b.jsonl.gz", "c.jsonl")
    ]
    expected = [n for n in range(1, 400) if n % 7]
    for name in ("a.jsonl", "b.jsonl.gz"):
        kept = found.frame.where(f"file = '{name}' and reason is null").select("seq", "place").collect()
        assert sorted((row.seq, row.place) for row in kept) == [(n, n) for n in expected]
    assert [row.reason[:8] for row in found.frame.where("file = 'c.jsonl'").collect()] == ["not-json"]


RECORDS: list[dict[str, Any]] = [
    {"process": "a", "seq": 1, "time": 10, "kind": "send", "message": "m1", "name": "first", "arrival": 12},
    {"process": "b", "seq": 1, "time": 11, "kind": "receive", "message": "m1", "id": "x"},
    {"process": "b", "seq": 2, "kind": "local", "computation": "c"},
    {"process": "b", "time": 5},
    {"process": "c", "seq": 1, "sends": "k"},
    {"process": "c", "seq": 2, "receives": "k"},
    {"process": "d", "stamp": '{"clock":"vector","counters":{"d":4,"c":2,"a":1,"z":0}}'},
    {"process": "d", "kind": "send", "stamp": '{"clock":"vector","counters":{"d":5}}'},
    {"process": "d", "seq": 9, "kind": "send", "message": "m9", "stamp": '{"clock":"lamport","time":1,"process":"d"}'},
    {"seq": 1},
    {"process": "", "seq": 1},
    {"process": "a"},
    {"process": "a", "seq": 1, "kind": "sent"},
    {"process": "a", "seq": 1, "message": "m"},
    {"process": "a", "seq": 1, "kind": "local", "message": "m"},
    {"process": "a", "seq": 1, "kind": "local", "receives": "m"},
    {"process": "a", "seq": 1, "kind": "send"},
    {"process": "a", "seq": 1, "kind": "receive"},
    {"process": "a", "seq": 1, "kind": "send", "message": "m", "sends": "n"},
    {"process": "a", "seq": 1, "kind": "receive", "message": "m", "receives": "n"},
    {"process": "a", "seq": 1, "kind": "send", "message": ""},
    {"process": "a", "seq": 1, "id": ""},
    {"process": "a", "seq": 1, "stamp": "{}"},
    {"process": "a", "seq": 1, "stamp": '{"clock":"vector","counters":{"b":1}}'},
]


@pytest.mark.parametrize("with_stamps", [True, False])
def test_parquet_and_json_lines_mean_the_same(spark: SparkSession, folder: Path, with_stamps: bool) -> None:
    """One format has two forms, each with a reader of its own, and a user may mix them."""
    records = RECORDS if with_stamps else [record for record in RECORDS if "stamp" not in record]
    as_json = [r | {"stamp": json.loads(r["stamp"])} if "stamp" in r else r for r in records]
    (folder / "r.jsonl").write_text("".join(json.dumps(record, separators=(",", ":")) + "\n" for record in as_json))
    names = sorted({name for record in records for name in record})
    columns = {name: [record.get(name) for record in records] for name in names}
    pyarrow.parquet.write_table(pa.table(columns), folder / "r.parquet", row_group_size=5)
    found = rows(spark, "r.parquet", "r.jsonl")
    text, parquet = found[: len(records)], found[len(records) :]
    assert [row["place"] for row in text] == list(range(1, len(records) + 1))
    assert [row["place"] for row in parquet] == list(range(len(records)))
    for row in (*text, *parquet):
        for name in ("file", "place", "text"):
            row.pop(name, None)
        if "reason" in row:
            row["reason"] = row["reason"].partition(":")[0]
    assert parquet == text
    assert sum("reason" in row for row in text) == (15 if with_stamps else 13)


def timestamps(unit: str, zone: str | None = None) -> pa.Array:
    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    return pa.array([NOON_NS * per_second // 10**9, -1, None], pa.timestamp(unit, zone))


@pytest.mark.parametrize(
    ("column", "how", "expected"),
    [
        (pa.array([NOON_NS, -1, None]), {}, [NOON_NS, -1]),
        (pa.array([7, -1, None], pa.int16()), {}, [7, -1]),
        (timestamps("ns"), {}, [NOON_NS, -1]),
        (timestamps("ns", "Asia/Tokyo"), {}, [NOON_NS, -1]),
        (timestamps("us"), {}, [NOON_NS // 1000 * 1000, -1000]),
        (timestamps("us", "America/New_York"), {}, [NOON_NS // 1000 * 1000, -1000]),
        (timestamps("us"), {"use_deprecated_int96_timestamps": True}, [NOON_NS // 1000 * 1000, -1000]),
        (timestamps("ms"), {}, [NOON_NS // 10**6 * 10**6, -(10**6)]),
    ],
    ids=str,
)
def test_times_of_every_type_are_the_same_moments(
    spark: SparkSession, folder: Path, column: pa.Array, how: dict[str, Any], expected: list[int]
) -> None:
    """Spark's timestamps are microseconds in the session's zone: taken so, nanoseconds or hours would be lost.

    The session is the user's: what he reads with it afterwards must not come out otherwise than before.
    """
    settings = {**spark.conf.getAll}
    given = pa.table({"process": ["a", "b", "c"], "time": column, "seq": [1, 1, 1]})
    pyarrow.parquet.write_table(given, folder / "t.parquet", **how)
    before = spark.conf.get("spark.sql.session.timeZone")
    try:
        spark.conf.set("spark.sql.session.timeZone", "America/St_Johns")
        found = rows(spark, "t.parquet")
        assert [row.get("time") for row in found] == [*expected, None]
        by_unit = rows(spark, "t.parquet", options={"unit": "ms"})
        if pa.types.is_timestamp(column.type):
            assert [row.get("time") for row in by_unit] == [expected[0] // 10**6, -1, None]
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    assert {**spark.conf.getAll} == settings


def test_columns_that_mean_nothing_here_are_kept_as_they_are(spark: SparkSession, folder: Path) -> None:
    """Queries over a history use them; as JSON text they would be slow, and floats would be rounded."""
    first = {
        "process": ["a"],
        "seq": [1],
        "latency": [0.1],
        "tags": [["x", "y"]],
        "file": ["given"],
        "a b.c": [1],
    }
    second = {"process": ["b"], "seq": pa.array([1], pa.uint32()), "when": [datetime(2024, 5, 1, tzinfo=UTC)]}
    second |= {"attributes": pa.array([[("k", "v")]], pa.map_(pa.string(), pa.string()))}
    third = {"process": ["c"], "seq": [1], "attributes": [{"x": 1}], "message": pa.array([[1, 2]]), "kind": ["receive"]}
    for number, columns in enumerate((first, second, third)):
        pyarrow.parquet.write_table(pa.table(columns), folder / f"{number}.parquet")
    found = read_reports(spark, ["*.parquet"])
    assert found.native_columns == ("latency", "tags", "file_given", "a b.c", "when")
    assert found.needs_staging is False
    assert found.frame.columns == [*COLUMNS, *found.native_columns]
    a, b, c = rows(spark, "*.parquet")
    assert (a["latency"], a["tags"], a["file_given"], a["file"], a["a b.c"]) == (
        0.1,
        ["x", "y"],
        "given",
        "0.parquet",
        1,
    )
    assert (b["attributes"], b["seq"]) == ('{"k":"v"}', 1)
    assert (c["attributes"], c["receives"], c["receives_more"]) == ('{"x":1}', "1", ["2"])


@pytest.mark.parametrize(
    ("columns", "complaint"),
    [
        ({"proc": ["a"], "seq": [1]}, "has no column process.*it has proc, seq"),
        ({"process": ["a"], "kind": ["local"]}, "neither a column seq nor a column time"),
        ({"process": [1], "seq": [1]}, "column process is int64; it must be text"),
        ({"process": ["a"], "seq": [1.0]}, "column seq is double; it must be an integer"),
        ({"process": ["a"], "seq": pa.array([1], pa.uint64())}, "column seq is uint64"),
        ({"process": ["a"], "time": [date(2024, 5, 1)]}, r"column time is date32\[day\]; it must be an integer or"),
        ({"process": ["a"], "time": ["2024-05-01T00:00:00Z"]}, "column time is string"),
        ({"process": ["a"], "seq": [1], "message": [1.5]}, "column message is double"),
        ({"process": ["a"], "seq": [1], "attributes": [1]}, "column attributes is int64"),
        ({"process": ["a"], "seq": [1], "Kind": ["local"]}, "rename it to 'kind'"),
        ({"process": ["a"], "seq": [1], "x": [1], "X": [1]}, "cannot tell apart"),
    ],
)  # fmt: skip
def test_columns_of_the_wrong_type_are_named_at_once(
    spark: SparkSession, folder: Path, columns: dict[str, Any], complaint: str
) -> None:
    """Before any task runs, in one sentence, with the file: not a trace-back from a worker an hour later."""
    pyarrow.parquet.write_table(pa.table(columns), folder / "bad.parquet")
    with pytest.raises(SourceError, match=rf"bad\.parquet.*{complaint}"):
        read_reports(spark, ["bad.parquet"])


def test_what_cannot_be_read_is_an_error_that_names_it(spark: SparkSession, folder: Path) -> None:
    """A broken file that was passed over would be a history with a hole."""
    good = pa.table({"process": ["a"] * 5000, "seq": list(range(5000)), "x": [1.5] * 5000})
    pyarrow.parquet.write_table(good, folder / "good.parquet")
    raw = (folder / "good.parquet").read_bytes()
    for name, data in (("cut.parquet", raw[:-40]), ("empty.parquet", b""), ("text.pq", b"process,seq\n")):
        (folder / name).write_bytes(data)
        with pytest.raises(SourceError, match=rf"{name} cannot be read as Parquet"):
            read_reports(spark, ["good.parquet", name])
    (folder / "torn.parquet").write_bytes(raw[:4] + b"\xff" * 60 + raw[64:])
    with pytest.raises((PySparkException, Py4JError)) as caught:
        read_reports(spark, ["torn.parquet"]).frame.where("name is null").collect()
    explanation = find_input_error(caught.value)
    assert explanation is not None
    assert "torn.parquet cannot be read" in str(explanation)
    assert find_input_error(ValueError("another")) is None
    with pytest.raises(SourceError, match=r"torn.parquet cannot be read as Parquet: .*Write it again"):
        observe(spark, ["torn.parquet"], folder / "h")
    pyarrow.parquet.write_table(good.set_column(2, "x", good["process"]), folder / "other.parquet")
    with pytest.raises(SourceError, match="the column x is double and string in different inputs"):
        read_reports(spark, ["good.parquet", "other.parquet"])
    with pytest.raises(SourceError, match="there is no format 'xml'; there are ledto, "):
        read_reports(spark, ["good.parquet"], format="xml")
    with pytest.raises(SourceError, match="no input is of a format that has the option 'regex'"):
        read_reports(spark, ["good.parquet"], format="ledto", options={"regex": "x"})
    with pytest.raises(SourceError, match="is Parquet, which the format shiviz does not read"):
        read_reports(spark, ["good.parquet"], format="shiviz")


def test_names_of_files_survive_spark(spark: SparkSession, folder: Path) -> None:
    """Spark takes paths for patterns and URIs; a file must be found and named whatever it is called."""
    odd = folder / "a [1]{b}*+%20 ü=1"
    odd.mkdir()
    pyarrow.parquet.write_table(pa.table({"process": ["a"], "seq": [1]}), odd / "x y.parquet")
    (odd / "x y.jsonl").write_text('{"process":"a","seq":1}\n')
    found = rows(spark, str(odd))
    assert [row["file"] for row in found] == [f"{odd.name}/x y.jsonl", f"{odd.name}/x y.parquet"]


def test_native_columns_beside_text_are_attributes(spark: SparkSession, folder: Path) -> None:
    """Half of a run's events would have no attributes, or a query would have to look in two places."""
    given = {"process": ["a"], "seq": [1], "latency": [0.5], "attributes": ['{"x":1}']}
    pyarrow.parquet.write_table(pa.table(given), folder / "a.parquet")
    (folder / "b.jsonl").write_text('{"process":"b","seq":1,"latency":0.25}\n')
    found = read_reports(spark, ["a.parquet", "b.jsonl"])
    assert (found.native_columns, found.frame.columns) == ((), list(COLUMNS))
    assert [row["attributes"] for row in rows(spark, "a.parquet", "b.jsonl")] == [
        '{"x":1,"latency":0.5}',
        '{"latency":0.25}',
    ]


def test_columns_of_every_type_pass_through_spark(spark: SparkSession, folder: Path) -> None:
    """A history that Spark made would differ from one made without it."""
    for seed in range(12):
        given = table(Random(seed))
        pyarrow.parquet.write_table(given, folder / f"{seed}.parquet", row_group_size=15)
        (file,) = find_files([f"{seed}.parquet"], ())
        mapping = parquet_schema(file, "us")
        plain = pa.concat_tables(read_parquet_rows(file, mapping))
        found = read_reports(spark, [file.name], options={"unit": "us"})
        assert found.native_columns == mapping.native_names
        through = found.frame.toArrow().sort_by("place")
        assert through.to_pylist() == plain.to_pylist()


def test_shiviz_logs_of_several_files_are_one_computation(spark: SparkSession, folder: Path) -> None:
    """GoVector writes one file a process: a cause in another file is no error of this one."""
    (folder / "a.log").write_text('a {"a":1}\nsend\n')
    (folder / "b.log").write_text('b {"b":1, "a":1}\nreceive\n')
    found = rows(spark, "*.log", format="shiviz")
    assert [(row["process"], row["sends"], row.get("receives")) for row in found] == [
        ("a", "a:1", None),
        ("b", "b:1", "a:1"),
    ]
    assert all("reason" not in row for row in found)
    alone = rows(spark, "b.log", format="shiviz")
    assert alone[0]["reason"].startswith("unknown-process")


def test_parquet_may_say_whose_clock_it_was(spark: SparkSession, folder: Path) -> None:
    """Processes that share a clock would be told to disagree, or be called broken one by one."""
    shared = pa.table({"process": ["a", "b"], "time": [1, 2], "clock_name": ["host", ""]})
    pyarrow.parquet.write_table(shared, folder / "shared.parquet")
    pyarrow.parquet.write_table(shared.set_column(2, "clock_name", pa.array([7, 8])), folder / "own.parquet")
    assert [row.get("clock_name") for row in rows(spark, "shared.parquet")] == ["host", None]
    own = read_reports(spark, ["own.parquet"])
    assert own.native_columns == ("clock_name_given",)
