"""Simulated reports as files that any reader of reports understands."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet

from ledto.clocks.bounded.clock import BoundedStamp
from ledto.simulation import closest, simulate
from ledto.simulation.simulate import to_arrow, write_json_lines, write_parquet

RUN = simulate(closest(3, eps=2, delta=4, rate=0.5, messages=50), 6)


def test_parquet_gives_the_columns_back(tmp_path: Path) -> None:
    """What is stored is what was simulated, the truth included."""
    reports, truth = RUN
    write_parquet(tmp_path / "run.parquet", reports, truth)
    table = pyarrow.parquet.read_table(tmp_path / "run.parquet")
    assert table.equals(to_arrow(reports, truth))
    found = table.to_pydict()
    for name in ("process", "seq", "r", "c", "kn", "arrival"):
        assert found[name] == getattr(reports, name).tolist()
    assert found["vector"] == truth.vector.tolist()


def test_json_lines_hold_the_stamps(tmp_path: Path) -> None:
    """A collector that reads events in JSON must be able to deliver a simulation, and must not see the truth."""
    reports, _ = RUN
    write_json_lines(tmp_path / "run.jsonl", reports, computation="study")
    lines = [json.loads(line) for line in (tmp_path / "run.jsonl").read_text().splitlines()]
    assert len(lines) == len(reports)
    for row, line in enumerate(lines):
        name, seq = f"p{reports.process[row]}", int(reports.seq[row])
        stamp = line.pop("stamp")
        kn = tuple(reports.kn[row].tolist())
        assert BoundedStamp.from_json(stamp) == BoundedStamp(name, int(reports.r[row]), int(reports.c[row]), kn)
        assert line == {
            "computation": "study",
            "process": name,
            "seq": seq,
            "kind": "send",
            "message": f"{name}-{seq}",
            "time": int(reports.r[row]),
            "arrival": int(reports.arrival[row]),
        }
    assert len({line["message"] for line in lines}) == len(lines)
