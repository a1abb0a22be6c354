"""Traces of a stream: spans have the causes that their trace says, whatever the steps and however late they come."""

from __future__ import annotations

import io
from random import Random

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from ledto.events.schema import REPORTS
from ledto.sources.contract import FileSlice
from ledto.sources.otlp import Otlp
from tests.live.streams import BASE, HOUR, MS, play, terms

NAMES = ("shop", "pay", "stock")


def trace(random: Random, number: int) -> dict[str, object]:
    """One trace: a client span, a server span in it on another machine, whose clock is off, and an inner one."""
    start = BASE + number * 300 * MS
    trace_id, ids = f"{number + 1:032x}", [f"{number * 8 + each + 1:016x}" for each in range(3)]
    off = random.choice([0, 0, 40 * MS, -HOUR])

    def span(at: int, service: str, parent: int | None, kind: int, begin: int, end: int) -> dict[str, object]:
        given = {"traceId": trace_id, "spanId": ids[at], "name": f"step {at}", "kind": kind}
        given |= {"startTimeUnixNano": str(begin), "endTimeUnixNano": str(end)}
        if parent is not None:
            given["parentSpanId"] = ids[parent]
        resource = {"attributes": [{"key": "service.name", "value": {"stringValue": service}}]}
        return {"resource": resource, "scopeSpans": [{"spans": [given]}]}

    spans = [
        span(0, "shop", None, 3, start, start + 100 * MS),
        span(1, "pay", 0, 2, start + 20 * MS + off, start + 80 * MS + off),
        span(2, "pay", 1, 1, start + 30 * MS + off, start + 60 * MS + off),
    ]
    return {"resourceSpans": spans}


def stream(random: Random) -> pa.Table:
    """The spans of some traces, a request each, in order of arrival; some come long after their trace was whole."""
    import json

    tables = []
    for number in range(random.randint(1, 8)):
        for spans in trace(random, number)["resourceSpans"]:  # type: ignore[attr-defined]
            body = json.dumps({"resourceSpans": [spans]}).encode()

            def opened(offset: int, body: bytes = body) -> io.BytesIO:
                return io.BytesIO(body[offset:])

            rows = pa.Table.from_batches(list(Otlp().read(FileSlice("http", opened))), REPORTS)
            arrival = BASE + number * 300 * MS + random.randint(100, 500) * MS
            arrival += random.choice([0, 0, 0, 0, 60_000 * MS])
            at = REPORTS.names.index("arrival")
            tables.append(rows.set_column(at, "arrival", pa.array(np.full(len(rows), arrival))))
    whole = pa.concat_tables(tables)
    return whole.take(pa.array(np.argsort(whole["arrival"].to_numpy(), kind="stable")))


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 1 << 32))
def test_a_trace_is_the_same_by_whatever_steps_it_came(seed: int) -> None:
    """And its spans have the causes that the trace says: a child's start after its parent's, an answer after its work."""
    random = Random(seed)
    table = stream(random)
    given_terms = terms(close_rows=random.choice([20, 1_000]))
    whole = play(table, [len(table)], given_terms)
    cut = play(table, iter(lambda: random.randint(1, 7), 0), given_terms, restart=lambda: random.random() < 0.3)
    assert cut == whole
    assert sorted(row["id"] for row in whole.log) == sorted(table["id"].to_pylist())
    assert {row["computation"] for row in whole.log} == {""}
    for row in whole.log:
        span, _, start = row["id"].partition("/")
        if start and (int(span, 16) - 1) % 8 == 2:
            parents = {f"{int(span, 16) - back:016x}/start" for back in (1, 2)}
            assert parents <= {*whole.past[row["id"]]} or row["missing"]
