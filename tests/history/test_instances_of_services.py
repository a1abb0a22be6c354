"""Instances of a service are told apart by what each format says of them, and the clocks of two are never compared."""

from __future__ import annotations

from typing import Any

import networkx
import pyarrow as pa
import pytest

from tests.history.traced_systems import Instance, System, a_system, as_jaeger, as_otlp, as_zipkin
from tests.sources.reading import table
from whence.history.instancing import with_lines
from whence.sources.jaeger import Jaeger
from whence.sources.otlp import Otlp
from whence.sources.zipkin import Zipkin
from whence.sources.zipkin_spans import SHARED_SUFFIX


def by_pod(instance: Instance) -> dict[str, Any]:
    return {"k8s.pod.name": f"{instance.service}-{instance.number}", "k8s.pod.uid": f"{instance.machine:032x}"}


def by_address(instance: Instance) -> dict[str, Any]:
    """All hosts have the name that their image gave them."""
    return {"host.name": "localhost", "host.ip": instance.address, "process.pid": 1}


def by_jaeger_client(instance: Instance) -> dict[str, Any]:
    return {"hostname": "localhost", "ip": instance.address, "client-uuid": f"{instance.number:x}"}


def by_instance_id(instance: Instance) -> dict[str, Any]:
    return {"service.instance.id": f"{instance.number}", "host.name": "localhost"}


def by_container(instance: Instance) -> dict[str, Any]:
    return {"container.id": f"{instance.machine:064x}", "process.pid": 1}


def files(system: System) -> dict[str, pa.Table]:
    """The same request by every exporter."""
    found = {}
    for tell in (by_pod, by_address, by_jaeger_client, by_instance_id, by_container):
        found[f"otlp {tell.__name__}"] = table(Otlp(), as_otlp(system, tell))
        found[f"jaeger {tell.__name__}"] = table(Jaeger(), as_jaeger(system, tell))
    for shared in (False, True):
        found[f"zipkin shared={shared}"] = table(Zipkin(), as_zipkin(system, shared=shared))
    return found


def related(system: System, rows: pa.Table) -> set[tuple[Any, Any]]:
    """All pairs of cause and effect that a history would show, by number of the span."""
    lined = with_lines(rows).to_pylist()
    numbers = {ran.id: ran.number for ran in system.spans}
    server_of = {ran.parent.id: ran.number for ran in system.spans if ran.kind == "server" and ran.parent}

    def event(row: dict[str, Any]) -> tuple[int, bool]:
        key = row["instance_key"]
        shares = key.endswith(SHARED_SUFFIX)
        return server_of[key.removesuffix(SHARED_SUFFIX)] if shares else numbers[key], row["instance_phase"] != "start"

    graph = networkx.DiGraph()
    last: dict[str, Any] = {}
    for row in sorted(lined, key=lambda row: (row["process"], row["seq"])):
        graph.add_node(event(row))
        if row["process"] in last:
            graph.add_edge(last[row["process"]], event(row))
        last[row["process"]] = event(row)
        graph.add_edges_from((event(lined[cause]), event(row)) for cause in row["causes"] or ())
    return set(networkx.transitive_closure_dag(graph).edges)


@pytest.mark.parametrize("seed", range(12))
def test_every_format_tells_what_truly_happened_before_what(seed: int) -> None:
    """An order of clocks that are hours apart shows a cause that was none, and the cause itself as its effect."""
    system = a_system(seed)
    truth = {(a, b) for a, b in system.happened_before() if "joined" not in (a[0], b[0])}
    for name, rows in files(system).items():
        assert len(rows) == 2 * len(system.spans)
        assert rows["reason"].null_count == len(rows), name
        assert related(system, rows) == truth, name
        processes = {
            (row["process"], system.spans[number - 1].instance)
            for row, number in zip(rows.to_pylist(), spans_of(system), strict=True)
        }
        assert len(processes) == len({name for name, _ in processes}) == len({each for _, each in processes}), name


def spans_of(system: System) -> list[int]:
    """The span of each row, as they are written: start and end."""
    return [ran.number for ran in system.spans for _ in range(2)]


def test_the_systems_put_instances_of_one_service_to_the_test() -> None:
    """Requests that met every service once would prove nothing."""
    met = [{ran.instance for ran in a_system(seed).spans} for seed in range(12)]
    assert sum(len(each) > len({instance.service for instance in each}) for each in met) >= 6
    assert max(len(a_system(seed).spans) for seed in range(12)) > 40
