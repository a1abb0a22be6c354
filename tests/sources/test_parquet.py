"""Parquet without Spark: what its rows mean, told by a reading of the documentation, row by row."""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledto.events.schema import COLUMNS, REPORTS
from ledto.sources import SourceError
from ledto.sources.files import find_files
from ledto.sources.parquet import as_attributes, map_schema, parquet_schema, read_parquet_rows, reports_of
from ledto.sources.parquet.files import PART_BYTES
from ledto.sources.parquet.json_text import json_text
from tests.sources.parquet_oracle import told_rows
from tests.sources.parquet_tables import NATIVE, table

tables = st.integers(0, 1 << 40).map(lambda seed: table(Random(seed)))
units = st.sampled_from(["ns", "us", "ms", "s"])


def read(given: pa.Table, unit: str = "ns", **how: Any) -> pa.Table:
    return reports_of(given, map_schema(given.schema, "f", unit), "f", 0, **how)


def parsed(text: str | None) -> Any:
    return None if text is None else json.loads(text, parse_float=Decimal)


@given(tables, units)
def test_every_row_means_what_the_documentation_says(given: pa.Table, unit: str) -> None:
    """A report would be misread, or quarantined without a fault, or a fault would go into the history."""
    found = read(given, unit).to_pylist()
    assert len(found) == given.num_rows
    for place, (row, (report, wrong)) in enumerate(zip(found, told_rows(given, unit), strict=True)):
        assert (row["place"], row["file"]) == (place, "f")
        assert (row["computation"], row["process"]) == (report["computation"], report["process"])
        if wrong:
            assert (row["reason"] or "").partition(":")[0] in wrong, (row, report)
            assert row["kind"] is row["sends"] is row["stamp"] is None
            # Where its process lacks it is told by its number and time.
            assert row["seq"] == report["given_seq"]
            assert row["time"] in (report["time"], None if "bad-field" in wrong else report["time"])
            continue
        assert row["reason"] is row["text"] is None, (row, report)
        received = [key for key in (row["receives"], *(row["receives_more"] or ())) if key is not None]
        assert received == report["received"]
        for name in ("seq", "time", "arrival", "kind", "sends", "id", "name"):
            assert row[name] == report[name], name
        for name in ("clock_name", "line", "line_parent", "line_phase", "line_joins"):
            assert row[name] == report.get(name), name
        assert parsed(row["stamp"]) == report["stamp"]
        assert parsed(row["attributes"]) == report["attributes"]


def test_vector_stamps_are_read_alike_however_they_are_spelled() -> None:
    """Most are read by column and odd ones one by one: a blank in the text would change the causes of an event."""
    plain, odd = '{"clock":"vector","counters":%s}', '{ "counters": %s, "clock": "vector" }'
    counters = ['{"p":3,"b":2,"a":1}', '{"p":1}', '{"p":0,"a":1}', '{"p":1,"p":2}', '{"p":-1}', '{"p":1.0}', "{}", "[]"]
    texts = [spelling % each for each in counters for spelling in (plain, odd)]
    rows = read(pa.table({"process": ["p"] * 16, "kind": ["receive"] * 16, "stamp": texts})).to_pylist()
    shown = [tuple(row[name] for name in ("seq", "sends", "receives", "receives_more")) for row in rows]
    assert shown[0::2] == shown[1::2]
    assert shown[0] == (3, "stamp of p:3", "stamp of a:1", ["stamp of b:2"])
    # A process that knows of no other may say that it received: the message came from where nobody reports.
    assert shown[2] == (1, "stamp of p:1", None, None)
    assert [(row["reason"] or "").partition(":")[0] for row in rows] == [""] * 4 + ["bad-stamp"] * 12


@given(tables, st.data())
def test_rows_do_not_depend_on_where_a_file_is_cut(given: pa.Table, data: st.DataObject) -> None:
    """The same file would give another history with other row groups, or when another task reads it."""
    mapping = map_schema(given.schema, "f", "ns")
    whole = reports_of(given, mapping, "f", 0)
    assert whole.schema == mapping.schema
    at = data.draw(st.integers(0, given.num_rows))
    parts = [reports_of(given.slice(0, at), mapping, "f", 0), reports_of(given.slice(at), mapping, "f", at)]
    assert pa.concat_tables(parts).to_pylist() == whole.to_pylist()
    few = reports_of(given, mapping, "f", 0, keep_dictionaries=True)
    assert pa.types.is_dictionary(few["process"].type)
    assert few.cast(mapping.schema).to_pylist() == whole.to_pylist()


@given(tables)
def test_bad_rows_show_what_stood_in_them(given: pa.Table) -> None:
    """A user could not find out what to correct."""
    for row, stood in zip(read(given).to_pylist(), given.to_batches()[0].to_struct_array(), strict=True):
        if row["reason"] is not None:
            whole = json_text(pa.array([stood.as_py()], stood.type))[0].as_py() if fits_python(stood) else row["text"]
            assert row["text"] == whole[:2000]
            if len(whole) <= 2000:
                assert {*json.loads(row["text"])} <= {*given.column_names}


def fits_python(value: pa.Scalar) -> bool:
    try:
        value.as_py()
    except (OverflowError, ValueError):
        return False
    return True


@given(st.integers(0, 1 << 40))
def test_further_columns_keep_their_values(seed: int) -> None:
    """Queries over a history would find other numbers than the file has."""
    random = Random(seed)
    given = table(random)
    found = read(given)
    for name, alias, kind in map_schema(given.schema, "f", "ns").native:
        assert found.schema.field(alias).type == kind
        stored = given[name].cast(pa.int64()) if given[name].type == pa.timestamp("ns") else given[name]
        assert found[alias].to_pylist() == stored.to_pylist()
    assert {name for name in given.column_names if name in NATIVE} <= {
        name.removesuffix("_given") for name in found.column_names
    }


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        (pa.array([1], pa.timestamp("ns", "UTC")), pa.int64()),
        (pa.array([1], pa.timestamp("ms", "Asia/Tokyo")), pa.timestamp("us", "UTC")),
        (pa.array([1], pa.timestamp("us")), pa.timestamp("us")),
        (pa.array([2**64 - 1], pa.uint64()), pa.decimal128(20, 0)),
        (pa.array([255], pa.uint8()), pa.int16()),
        (pa.array([1], pa.duration("ms")), pa.int64()),
        (pa.array([b"xy"], pa.binary(2)), pa.binary()),
        (pa.array([{"a": [1]}], pa.struct([("a", pa.large_list(pa.uint32()))])), pa.struct([("a", pa.list_(pa.int64()))])),
        (pa.array([{"a": None}], pa.struct([("a", pa.null())])), pa.struct([("a", pa.string())])),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)  # fmt: skip
def test_further_columns_get_a_type_that_spark_has(tmp_path: Path, column: pa.Array, kind: pa.DataType) -> None:
    """Histories of the same files would differ by the engine that made them."""
    pq.write_table(pa.table({"process": ["a"], "seq": [1], "x": column}), tmp_path / "f.parquet")
    (file,) = find_files([str(tmp_path / "f.parquet")], ())
    (found,) = read_parquet_rows(file, parquet_schema(file, "ns"))
    assert found.schema.field("x").type == kind
    assert found["x"].to_pylist() == column.cast(kind).to_pylist()


@pytest.mark.parametrize(
    "column",
    [pa.array([1], pa.time32("s")), pa.array([1], pa.time64("us")), pa.array([Decimal(1)], pa.decimal256(50, 0))],
    ids=lambda column: str(column.type),
)
def test_a_type_that_no_history_can_hold_is_named_at_once(column: pa.Array) -> None:
    """The run would end in a task, after an hour, with a message about Arrow."""
    given = pa.table({"process": ["a"], "seq": [1], "x": column})
    with pytest.raises(SourceError, match=r"f: the column x is .*, which Spark has no type for"):
        map_schema(given.schema, "f", "ns")


def test_a_column_without_type_is_left_out() -> None:
    """Pandas writes one where all values are missing, and the next file, which has some, could not be read with it."""
    given = pa.table({"process": ["a"], "seq": [1], "kind": pa.nulls(1), "x": pa.nulls(1)})
    assert read(given).column_names == list(COLUMNS)
    assert read(given)["kind"].to_pylist() == ["local"]


def text_of_bytes(*values: bytes) -> pa.Array:
    return pa.array(values, pa.binary()).view(pa.string())


@pytest.mark.parametrize("encode", [False, True])
def test_text_that_is_not_utf8_is_quarantined(encode: bool) -> None:
    """Python's readers would stop the whole run at the first such value, or a name would be unreadable for ever."""
    name = text_of_bytes(b"fine", b"caf\xe9", b"")
    inner = pa.StructArray.from_arrays([text_of_bytes(b"x", b"y", b"\xff")], ["a"])
    given = pa.table(
        {"process": ["p"] * 3, "seq": [1, 2, 3], "name": name.dictionary_encode() if encode else name, "inner": inner}
    )
    good, bad, worse = read(given).to_pylist()
    assert (good["reason"], good["name"], good["inner"]) == (None, "fine", {"a": "x"})
    assert bad["reason"].startswith("not-utf8")
    assert json.loads(bad["text"])["name"] == r"caf\xe9"
    assert worse["reason"].startswith("not-utf8")


def test_a_time_that_a_type_cannot_hold_is_quarantined() -> None:
    """One absurd value in a column that nobody asked about would stop the run."""
    given = pa.table({"process": ["p"] * 2, "seq": [1, 2], "x": pa.array([2**62, 5], pa.timestamp("ms"))})
    bad, good = read(given).to_pylist()
    assert bad["reason"] == "bad-field: x is beyond what timestamp[us] can hold"
    assert good["reason"] is None


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (pa.array([1.0]), "1.0"),
        (pa.array([1e300]), "1e+300"),
        (pa.array([0.1], pa.float32()), "0.1"),
        (pa.array(['a"\\\n\t\x01é\u2028']), r'"a\"\\\n\t\u0001é' + '\u2028"'),
        (pa.array([{"b": None, "a": {}}], pa.struct([("b", pa.int8()), ("a", pa.struct([]))])), '{"a":{}}'),
        (pa.array([[(1, None), (2, True)]], pa.map_(pa.int64(), pa.bool_())), '{"1":null,"2":true}'),
        (pa.array([[None, ["x"]]], pa.large_list(pa.list_(pa.string()))), '[null,["x"]]'),
        (pa.array([-1], pa.timestamp("ns", "Asia/Tokyo")), '"1969-12-31T23:59:59.999999999Z"'),
        (pa.array([2**62], pa.timestamp("ms", "UTC")), "4611686018427387904"),
        (pa.array([1_500], pa.timestamp("ms")), '"1970-01-01T00:00:01.500"'),
        (pa.array([date(2024, 5, 1)]), '"2024-05-01"'),
        (pa.array([b"\xff\0"]), '"/wA="'),
        (pa.array(["x", "x"]).dictionary_encode().slice(1), '"x"'),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)
def test_values_have_one_spelling_as_json(value: pa.Array, text: str) -> None:
    """The same file would give other attributes from one release, or engine, to the next."""
    assert json_text(value).to_pylist() == [text]
    assert json_text(pa.concat_arrays([pa.nulls(1, value.type), value]).slice(1)).to_pylist() == [text]


def test_a_file_is_read_in_parts_with_the_numbers_of_its_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large file would not fit in memory, or a bad row be looked for in the wrong place."""
    monkeypatch.setattr("ledto.sources.parquet.files.PART_ROWS", 40)
    given = pa.table({"process": ["p", None] * 250, "seq": list(range(500))})
    pq.write_table(given, tmp_path / "f.parquet", row_group_size=100)
    (file,) = find_files([f"file://{tmp_path}/f.parquet"], ())
    mapping = parquet_schema(file, "ns")
    parts = list(read_parquet_rows(file, mapping))
    assert max(map(len, parts)) == 40
    rows = pa.concat_tables(parts)
    assert rows["place"].to_pylist() == list(range(500))
    assert rows["seq"].to_pylist() == list(range(500))
    assert rows["reason"].is_null().to_pylist() == [True, False] * 250


def test_a_small_file_that_holds_very_much_is_read_in_small_parts(tmp_path: Path) -> None:
    """59 kB with one text of a megabyte in 20,000 rows asked for 20 GB at once."""
    text = "x" * 200_000
    given = {"process": ["p"] * 1_000, "seq": range(1_000), "name": [text] * 1_000, "own": [text] * 1_000}
    pq.write_table(pa.table(given), tmp_path / "f.parquet", compression="zstd")
    assert (tmp_path / "f.parquet").stat().st_size < 100_000
    (file,) = find_files([f"file://{tmp_path}/f.parquet"], ())
    sizes, places = [], []
    for part in read_parquet_rows(file, parquet_schema(file, "ns")):
        sizes.append(part.nbytes)
        places += part["place"].to_pylist()
    assert places == list(range(1_000))
    assert max(sizes) < PART_BYTES + 1_000_000


@pytest.mark.parametrize("kind", [pa.list_(pa.string()), pa.large_string(), pa.binary()], ids=str)
def test_other_columns_that_repeat_are_read_a_few_rows_at_a_time(tmp_path: Path, kind: pa.DataType) -> None:
    """Their dictionaries cannot be kept as such; 131,072 rows of one entry were looked up at once."""
    text = "x" * 1_000_000
    large = pa.array([[text] if pa.types.is_list(kind) else text], kind)
    own = pa.chunked_array([pa.concat_arrays([large] * 100)] * 10)
    given = pa.table({"process": ["p"] * 1_000, "seq": range(1_000), "own": own})
    pq.write_table(given, tmp_path / "f.parquet", compression="zstd")
    (file,) = find_files([f"file://{tmp_path}/f.parquet"], ())
    first = next(read_parquet_rows(file, parquet_schema(file, "ns")))
    assert first.nbytes < 300_000_000


def test_what_is_damaged_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    """A hole in a file would be a hole in the history, or a message that does not say where."""
    good = pa.table({"process": ["a"] * 5000, "seq": list(range(5000)), "x": [1.5] * 5000})
    pq.write_table(good, tmp_path / "good.parquet", compression="zstd")
    raw = (tmp_path / "good.parquet").read_bytes()
    for name, data in (("cut.parquet", raw[:-40]), ("empty.parquet", b""), ("text.pq", b"process,seq\n")):
        (tmp_path / name).write_bytes(data)
        (file,) = find_files([str(tmp_path / name)], ())
        with pytest.raises(SourceError, match=rf"{name} cannot be read as Parquet: .*[^.]\. Write it again"):
            parquet_schema(file, "ns")
    (tmp_path / "torn.parquet").write_bytes(raw[:4] + b"\xff" * 600 + raw[604:])
    (file,) = find_files([str(tmp_path / "torn.parquet")], ())
    mapping = parquet_schema(file, "ns")
    with pytest.raises(SourceError, match=r"torn.parquet cannot be read as Parquet"):
        list(read_parquet_rows(file, mapping))
    (tmp_path / "torn.parquet").unlink()
    with pytest.raises(SourceError, match=r"torn.parquet cannot be read as Parquet"):
        list(read_parquet_rows(file, mapping))


@pytest.mark.parametrize("moment", [1_714_564_800_123_456_000, -1_000, 10**18 * 9])
def test_old_timestamps_of_96_bits_are_read(tmp_path: Path, moment: int) -> None:
    """Spark and Hive wrote them for years; beyond 2262 they would come out as some other century."""
    given = pa.table({"process": ["a"], "time": pa.array([moment // 1000], pa.timestamp("us"))})
    pq.write_table(given, tmp_path / "f.parquet", use_deprecated_int96_timestamps=True)
    (file,) = find_files([str(tmp_path / "f.parquet")], ())
    for unit, factor in (("ns", 1), ("us", 1_000), ("s", 10**9)):
        (found,) = read_parquet_rows(file, parquet_schema(file, unit))
        assert found["time"].to_pylist() == [moment // factor]
    far = given.set_column(1, "time", pa.array([10**17], pa.timestamp("us")))
    pq.write_table(far, tmp_path / "f.parquet", use_deprecated_int96_timestamps=True)
    (found,) = read_parquet_rows(file, parquet_schema(file, "us"))
    assert found["time"].to_pylist() == [10**17]


def test_further_columns_become_attributes_beside_those_given() -> None:
    """Reports of Parquet among others of JSON lines would lose what their columns say."""
    given = pa.table(
        {
            "process": ["p"] * 5 + [None],
            "seq": [1] * 6,
            "attributes": ['{"a":1}', " { } ", None, '{"x":1}', '{"\\u0078":1}', '{"a":1}'],
            "x": [1.5, 2.5, None, 3.5, 4.5, 5.5],
            "file": ["g"] * 6,
        }
    )
    mapping = map_schema(given.schema, "f", "ns")
    rows = as_attributes(reports_of(given, mapping, "f", 0), mapping)
    assert rows.schema == REPORTS
    assert rows["attributes"].to_pylist() == [
        '{"a":1,"x":1.5,"file":"g"}',
        '{"x":2.5,"file":"g"}',
        '{"file":"g"}',
        None,
        None,
        None,
    ]
    codes = [(reason or "").partition(":")[0] for reason in rows["reason"].to_pylist()]
    assert codes == ["", "", "", "duplicate-key", "duplicate-key", "no-process"]


def test_lines_are_told_by_columns_of_text_and_lines_of_code_stay_numbers() -> None:
    """Requests of one process would be told as one after the other; numbers of code lines would be taken for requests."""
    told = pa.table(
        {
            "process": ["a"] * 5,
            "seq": [1, 2, 3, 4, 5],
            "line": ["main", "task", None, "", "main"],
            "line_parent": [None, "main", None, None, ""],
            "line_joins": [None, [], ["task", "main"], ["x"], None],
        }
    )
    found = read(told).to_pylist()
    assert [(row["line"], row["line_parent"], row["line_joins"]) for row in found] == [
        ("main", None, None),
        ("task", "main", None),
        (None, None, ["task", "main"]),
        (None, None, ["x"]),
        (None, None, None),
    ]
    assert [row["reason"] for row in found] == [None] * 4 + ["bad-field: line_parent is empty"]
    one_each = read(told.set_column(4, "line_joins", pa.array(["x", None, "y", None, None]))).to_pylist()
    assert [row["line_joins"] for row in one_each] == [["x"], None, ["y"], None, None]
    of_code = read(pa.table({"process": ["a"], "seq": [1], "line": [42]})).to_pylist()[0]
    assert (of_code["line"], of_code["line_given"]) == (None, 42)
    with pytest.raises(SourceError, match="the column line_joins is int64; it must be text or a list of texts"):
        read(pa.table({"process": ["a"], "seq": [1], "line_joins": [1]}))
    alone = read(pa.table({"process": ["a"], "seq": [1], "line_parent": ["main"]})).to_pylist()[0]
    assert alone["reason"] == "bad-field: line_parent names what started a line: give line as well"
