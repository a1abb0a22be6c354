"""Run a model with a seed: `simulate` gives reports and the truth about them, as tables and files that a source reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from ledto.clocks.bounded.clock import BoundedStamp
from ledto.events.columns import Ints, ReportArrays, TrueOrder
from ledto.simulation.draws import NO_DRAW, last_accepted, seeded
from ledto.simulation.model import Model
from ledto.simulation.observer import KernelPlan, observe
from ledto.simulation.stamper import new_rows, ring_length


def to_arrow(reports: ReportArrays, truth: TrueOrder) -> pa.Table:
    """Make a table of the columns of `ReportArrays` and the truth's ``vector``; ``kn`` and ``vector`` are lists of int32."""
    columns = {name: pa.array(getattr(reports, name)) for name in ("process", "seq", "r", "c")}
    columns |= {"kn": _lists(reports.kn), "arrival": pa.array(reports.arrival), "vector": _lists(truth.vector)}
    return pa.table(columns)


def write_parquet(path: Path, reports: ReportArrays, truth: TrueOrder) -> None:
    """Write `to_arrow` as one Parquet file."""
    pyarrow.parquet.write_table(to_arrow(reports, truth), path, compression="zstd")


def write_json_lines(path: Path, reports: ReportArrays, *, computation: str = "sim") -> None:
    """Write the reports as events in JSON, one on each line, in row order; without the truth."""
    columns = (reports.process, reports.seq, reports.r, reports.c, reports.kn, reports.arrival)
    with path.open("w", encoding="utf-8", newline="\n") as out:
        for process, seq, r, c, kn, arrival in zip(*(column.tolist() for column in columns), strict=True):
            name = f"p{process}"
            event = {
                "computation": computation,
                "process": name,
                "seq": seq,
                "kind": "send",
                "message": f"{name}-{seq}",
                "time": r,
                "arrival": arrival,
                "stamp": BoundedStamp(name, r, c, tuple(kn)).to_json(),
            }
            out.write(json.dumps(event) + "\n")


def _lists(table: Ints) -> pa.LargeListArray:
    """Make a list for each row of a two-dimensional column, without copying the values."""
    count, width = table.shape
    offsets = np.arange(count + 1) * width
    return pa.LargeListArray.from_arrays(offsets, np.ascontiguousarray(table).ravel())


class Simulated(NamedTuple):
    """The result of a simulation, and how long it took."""

    reports: ReportArrays
    truth: TrueOrder
    steps: int
    """How often a clock was incremented, of the processes and the observer."""


def simulate(model: Model, seed: int) -> tuple[ReportArrays, TrueOrder]:
    """Run the model until `model.messages` reports have reached the observer.

    Rows are in the order of arrival; the order of rows that arrive at one tick depends on the run only. The same model
    and seed give the same bytes on every machine. Runs of different seeds are independent.
    """
    reports, truth, _ = run(model, seed)
    return reports, truth


def run(model: Model, seed: int) -> Simulated:
    """Do as `simulate`; also return the number of steps."""
    rows = new_rows(model.messages, model.processes, model.compared)
    steps = observe(_plan(model), model.delay.last_draws(model.delta, model.rounding), seeded(seed), rows)
    reports = ReportArrays(rows.process, rows.seq, rows.r, rows.c, rows.kn, rows.arrival)
    return Simulated(reports, TrueOrder(rows.process, rows.seq, rows.vector), int(steps))


def _plan(model: Model) -> KernelPlan:
    """Turn a model into the integers of the kernel."""
    bursts, relays = model.bursts, model.relays
    return KernelPlan(
        processes=model.processes,
        eps=model.eps,
        width=model.compared,
        known_ring=ring_length(model.compared),
        due_ring=ring_length(model.longest_delay + 1),
        messages=model.messages,
        last_send=last_accepted(model.rate),
        last_loss=last_accepted(model.loss),
        to_all=int(model.recipients == "all"),
        shared_delay=int(model.delays == "shared"),
        by_sender=int(model.arrives_by == "sender"),
        on_arrival=int(model.receives == "on_arrival"),
        send_apart=int(model.receives == "before_send"),
        idle_event=int(model.idle_ticks == "local_event"),
        last_enter=last_accepted(bursts.enter) if bursts else NO_DRAW,
        last_leave=last_accepted(bursts.leave) if bursts else NO_DRAW,
        multiplier=bursts.multiplier if bursts else 1,
        relay_hops=relays.hops if relays else 0,
        relay_count=relays.count if relays else 1,
        relay_period=relays.period if relays else 1,
    )
