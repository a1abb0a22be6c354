"""The collector under load: reports acknowledged when the broker has them on disk, and what overload does to them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.histories import is_trial
from benchmarks.otlp_traces import requests, with_base64_ids
from benchmarks.posting import BATCH, Found, Task
from benchmarks.report import Goal, Section
from benchmarks.service import Service, served, stored

REPORTS_A_SECOND = 20_000
CLIENTS = 8
SECONDS, WARM_UP_SECONDS = 12.0, 4.0
START_SECONDS = 1.5
"""For the clients' processes to be there."""
OVERLOAD, CONNECTIONS = 3, 24
"""Times the rate that was reached, and connections a client has open then: more than the collector works on at once."""


def post(service: Service, name: str, seconds: float, *, clients: int = CLIENTS, **given: object) -> Found:
    """What came of clients that send for so long, each in a process of its own."""
    parts, start = urlsplit(service.http), time.time() + START_SECONDS
    started = []
    for number in range(clients):
        task = Task(
            name=f"{name}-{number}",
            host=str(parts.hostname),
            port=int(parts.port or 0),
            start=start,
            seconds=seconds,
            **given,  # type: ignore[arg-type]
        )
        command = [sys.executable, "-m", "benchmarks.posting", json.dumps(asdict(task))]
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parent.parent))
    whole = Found()
    try:
        for client in started:
            said = client.communicate(timeout=20 * seconds + 60)[0]
            if client.returncode:
                raise RuntimeError(f"a client of {name} failed")
            found = Found(**json.loads(said))
            whole.waits += found.waits
            whole.acknowledged += [tuple(each) for each in found.acknowledged]  # type: ignore[misc]
            whole.begun += found.begun
            whole.last = max(whole.last, found.last)
            for status, count in found.statuses.items():
                whole.statuses[status] = whole.statuses.get(status, 0) + count
    finally:
        for client in started:
            if client.poll() is None:
                client.kill()
                client.wait()
    whole.last -= start
    return whole


def section() -> Section:
    seconds = SECONDS / 2 if is_trial() else SECONDS
    with served("collector", "--no-stream") as service:
        post(service, "warm-up", WARM_UP_SECONDS)
        lines = post(service, "lines", seconds)
        reached = _rate(lines)
        overload = post(
            service,
            "overload",
            seconds,
            connections=CONNECTIONS,
            batches_a_second=OVERLOAD * reached / BATCH / CLIENTS,
        )
        lost, twice = compared(stored(service), [lines, overload])
        template, old, spans = otlp_template(service.history.parent / "template.pb")
        post(service, "warm-otlp", WARM_UP_SECONDS, template=str(template), old=old, batch=spans)
        otlp = post(service, "otlp", seconds, template=str(template), old=old, batch=spans)
    due = round(OVERLOAD * reached * seconds)
    refused = sum(count for status, count in overload.statuses.items() if status != "200")
    return Section(
        "The collector",
        f"`ledto serve` with a broker of its own, which syncs every message to disk before it acknowledges it; {CLIENTS} clients, "
        f"processes on the same machine, that send batches of {BATCH} reports over connections that stay open, each the next batch when "
        "the last is acknowledged. Waits are from a batch's first attempt to its acknowledgement. Then overload: "
        f"{CLIENTS * CONNECTIONS} connections and batches that fall due at {OVERLOAD} times the rate that was reached; what is "
        "answered with 429 or 503 is sent again after the time the answer gives. Batches that the clients did not come to "
        "stay with them. All acknowledged reports are then looked for on the broker.",
        ("", "reports/s acknowledged", "wait, p50 ms", "p99 ms", "max ms", "refusals"),
        [
            _row("JSON lines, /v1/reports", lines),
            _row(f"OTLP protobuf, /v1/traces, {spans} spans a batch", otlp, batch=spans),
            _row(f"JSON lines, {OVERLOAD}x overload", overload),
        ],
        [
            Goal(
                f"at least {REPORTS_A_SECOND:,} reports/s in batches of {BATCH} from {CLIENTS} clients",
                f"{reached:,.0f} reports/s, p99 {_quantile(lines, 99):.0f} ms",
                reached >= REPORTS_A_SECOND,
            ),
            Goal(
                f"no loss at {OVERLOAD}x overload",
                f"{len(overload.acknowledged) * BATCH:,} of {due:,} reports that fell due acknowledged, {refused:,} refusals: "
                f"{lost:,} lost, {twice:,} stored twice",
                lost == 0 and twice == 0,
            ),
        ],
        f"Clients, collector and broker share {os.cpu_count()} cores.",
    )


def compared(there: pa.Table, sent: list[Found]) -> tuple[int, int]:
    """How many acknowledged reports are not there, and how many reports of any client are there more than once."""
    counted = there.group_by(["process", "seq"]).aggregate([("sequence", "count")])
    twice = int(pc.sum(pc.greater(counted["sequence_count"], 1)).as_py() or 0)
    seqs: dict[str, set[int]] = {}
    by_process = counted.group_by("process").aggregate([("seq", "list")])
    for process, found in zip(by_process["process"].to_pylist(), by_process["seq_list"].to_pylist(), strict=True):
        seqs[process] = set(found)
    lost = sum(
        seq not in seqs.get(process, ())
        for each in sent
        for process, first, last in each.acknowledged
        for seq in range(first, last + 1)
    )
    return lost, twice


def otlp_template(path: Path) -> tuple[Path, str, int]:
    """A file with an OTLP request of about `BATCH` spans; the bytes that all its trace ids begin with; and the spans in it."""
    from google.protobuf.json_format import ParseDict
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    resources, spans = [], 0
    for resource in requests(1)[0]["resourceSpans"]:
        count = sum(len(scope["spans"]) for scope in resource["scopeSpans"])
        if spans + count <= BATCH:
            resources.append(resource)
            spans += count
    mark = "7768656e63657472"
    for resource in resources:
        for scope in resource["scopeSpans"]:
            for span in scope["spans"]:
                span["traceId"] = mark + span["traceId"][16:]
    message = ParseDict(with_base64_ids({"resourceSpans": resources}), ExportTraceServiceRequest())
    path.write_bytes(message.SerializeToString())
    return path, mark, spans


def _rate(found: Found, batch: int = BATCH) -> float:
    return len(found.acknowledged) * batch / found.last


def _quantile(found: Found, percent: float) -> float:
    return float(np.percentile(found.waits, percent)) * 1e3


def _row(name: str, found: Found, *, batch: int = BATCH) -> tuple[object, ...]:
    refused = sum(count for status, count in found.statuses.items() if status != "200")
    quantiles = (_quantile(found, percent) for percent in (50, 99, 100))
    return (name, round(_rate(found, batch)), *quantiles, refused)
