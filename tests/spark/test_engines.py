"""Spark and the inline engine carry out the same steps: they must leave the same bytes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ledto.batch.inline import InlineEngine
from ledto.batch.observe import Delivering, RunSettings
from ledto.batch.observe import observe as observe_with
from ledto.history import layout
from ledto.sources.inputs import find_inputs
from tests.history.computations import draw, reports
from tests.spark.running import observe

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

POLICIES = Delivering(("exact", "cbd:0.5"))
ATTEMPT = re.compile(r"-[0-9a-f]{12}(?=[-.])")


def contents(history: Path) -> tuple[dict[str, Any], dict[str, bytes], list[str]]:
    """The manifest without names; the files' bytes by name without attempts; what is quarantined."""
    manifest = json.loads((history / layout.MANIFEST).read_text())
    run = history / layout.run_folder(manifest.pop("run"))
    files, quarantined = {}, []
    for file in sorted(run.iterdir()):
        if file.name.startswith("quarantine-"):
            quarantined += [json.dumps(row) for row in pq.read_table(file).to_pylist()]
        elif file.name.startswith("segments"):
            files["segments"] = ATTEMPT.sub("", json.dumps(pq.read_table(file).to_pylist())).encode()
        else:
            files[ATTEMPT.sub("", file.name)] = file.read_bytes()
    manifest["tables"].pop("segments")  # Its name sums up the names of attempts.
    for name in ("created", "quarantine_files", "checksum"):
        manifest.pop(name, None)
    return json.loads(ATTEMPT.sub("", json.dumps(manifest))), files, sorted(quarantined)


def write_lines(path: Path, table: pa.Table) -> None:
    """As JSON lines, some of them broken."""
    rows = []
    for row in table.to_pylist():
        causes = [row["receives"], *(row["receives_more"] or [])] if row["receives"] else None
        told = {name: row[name] for name in ("computation", "process", "seq", "time", "kind", "sends", "id")}
        rows.append(json.dumps({name: value for name, value in {**told, "receives": causes}.items() if value}))
    rows[7:7] = ["rubbish", '{"process": "", "time": 3}']
    path.write_text("\n".join(rows))


@pytest.mark.parametrize("seed", [pytest.param(0, marks=pytest.mark.slow), 1, 2])
def test_both_engines_leave_the_same_bytes(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    """What a user tried on a laptop would come out otherwise on the cluster."""
    random = Random(seed)
    drawn = draw(random, processes=5, events=900, skew=30, loss=0.02)
    write_lines(tmp_path / "large.jsonl", reports(drawn, random, numbered=seed != 1, copies=0.05))
    for number in range(5):
        few = reports(draw(random, processes=2, events=20, skew=5, loss=0.1), random, numbered=True, copies=0.1)
        named = few.set_column(0, "computation", pa.repeat(f"c{number}", len(few)))
        write_lines(tmp_path / f"small-{number}.jsonl", named)
    inputs = [str(tmp_path / "large.jsonl"), *(str(tmp_path / f"small-{n}.jsonl") for n in range(5 if seed else 0))]
    settings = RunSettings(epoch_rows=150, delivering=POLICIES)
    observe_with(InlineEngine(), find_inputs(inputs), tmp_path / "inline", settings)
    observe(spark, inputs, tmp_path / "spark", epoch_rows=150, delivering=POLICIES)
    observe(spark, inputs, tmp_path / "at once", epoch_rows=150, delivering=POLICIES, at_once_bytes=1 << 30)
    expected = contents(tmp_path / "inline")
    assert expected[0]["segments"] > 4
    assert any(name.startswith("words-") for name in expected[1])
    assert expected[2]
    assert contents(tmp_path / "spark") == expected
    assert contents(tmp_path / "at once") == expected


def write_parquet(path: Path, table: pa.Table) -> None:
    """As Parquet, with a column of the user's own."""
    named = {"process": table["process"], "time": table["time"], "sends": table["sends"]}
    named |= {"receives": table["receives"], "id": table["id"]}
    pq.write_table(pa.table({**named, "size": pa.array(range(len(table)))}), path, row_group_size=100)


@pytest.mark.parametrize("mixed", [False, True])
def test_both_engines_read_the_same_columns(spark: SparkSession, tmp_path: Path, mixed: bool) -> None:
    """Parquet, alone or beside text, would mean something else where there is no Spark."""
    random = Random(9)
    table = reports(draw(random, processes=4, events=500, skew=10, loss=0.02), random, numbered=False, copies=0.05)
    write_parquet(tmp_path / "a.parquet", table.slice(0, 250))
    (write_lines if mixed else write_parquet)(tmp_path / ("b.jsonl" if mixed else "b.parquet"), table.slice(250))
    inputs = [str(tmp_path / name) for name in ("a.parquet", "b.jsonl" if mixed else "b.parquet")]
    observe_with(InlineEngine(), find_inputs(inputs), tmp_path / "inline", RunSettings(epoch_rows=100))
    observe(spark, inputs, tmp_path / "spark", epoch_rows=100)
    expected = contents(tmp_path / "inline")
    assert expected[0]["segments"] > 1
    assert (expected[0]["native_columns"], expected[0]["attributes"]) == (
        ([], {"size": "integer"}) if mixed else (["size"], {})
    )
    assert contents(tmp_path / "spark") == expected
