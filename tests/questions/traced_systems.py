"""A request through services of several instances, on machines whose clocks are hours apart; and three ways to write it.

The generator runs the request step by step and keeps what truly happened before what. Spans say when they began and ended
by the clock of their own machine only.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import networkx

from ledto.sources.spans.spans import CLIENT, CONSUMER, INTERNAL, PRODUCER, SERVER

MICROSECONDS = 1_700_000_000_000_000
HOUR = 3_600_000_000
TRACE = "5b8efff798038103d269b633813fc60c"


@dataclass(frozen=True)
class Instance:
    """A process of a service, on a machine that has a clock."""

    service: str
    number: int
    machine: int
    ahead: int
    """Of the true time."""

    @property
    def address(self) -> str:
        return f"10.0.{self.machine}.17"


@dataclass
class Ran:
    """A span as it truly ran."""

    number: int
    instance: Instance
    kind: str
    parent: Ran | None
    start: int
    end: int = 0

    @property
    def id(self) -> str:
        return f"{self.number:016x}"

    @property
    def is_called(self) -> bool:
        """Whether a client called it, whose id it may share."""
        return self.kind == SERVER and self.parent is not None and self.parent.kind == CLIENT

    def shown(self, time: int) -> int:
        """What the machine's clock shows."""
        return MICROSECONDS + time + self.instance.ahead


@dataclass
class System:
    """Services, and one request that went through them."""

    random: Random
    instances: list[Instance]
    bare_calls: bool
    """Whether some calls have no span of a client."""
    spans: list[Ran] = field(default_factory=list)
    graph: networkx.DiGraph = field(default_factory=networkx.DiGraph)
    """Events are the span's number and whether it is its end."""
    told: networkx.DiGraph = field(default_factory=networkx.DiGraph)
    """What spans record of that: who started them, and nothing of waits."""

    def run(self) -> System:
        self._span(self.random.choice(self.instances), SERVER, None, 0, [], depth=0)
        return self

    def happened_before(self) -> set[tuple[Any, Any]]:
        return set(networkx.transitive_closure_dag(self.graph).edges)

    def recorded_before(self) -> set[tuple[Any, Any]]:
        return set(networkx.transitive_closure_dag(self.told).edges)

    def _span(
        self, where: Instance, kind: str, parent: Ran | None, at: int, causes: list[Any], *, depth: int
    ) -> tuple[Ran, int]:
        """Run a span from `at` on; gives it and the time of its end."""
        ran = Ran(len(self.spans) + 1, where, kind, parent, at)
        self.spans.append(ran)
        last: Any = (ran.number, False)
        self.graph.add_node(last)
        self.graph.add_edges_from((cause, last) for cause in causes)
        self.told.add_edge(last, (ran.number, True))
        if parent is not None:
            self.told.add_edge((parent.number, False), last)
        at += self.random.randint(1, 5)
        end: list[Any] = []
        if kind in (CLIENT, PRODUCER):
            at, end = self._message(ran, at, depth)
        elif depth < 4:
            for _ in range(self.random.randint(0, 3)):
                at, last = self._step(ran, at, last, depth)
                at += self.random.randint(1, 5)
        ran.end = at
        self.graph.add_edges_from((cause, (ran.number, True)) for cause in (last, *end))
        return ran, at

    def _step(self, ran: Ran, at: int, last: Any, depth: int) -> tuple[int, Any]:
        """One or several things at once, most in the span's own process, some of which it waits for."""
        several = self.random.choice((1, 1, 2, 3))
        started = []
        for _ in range(several):
            kind, where = self.random.choice((INTERNAL, CLIENT, CLIENT, PRODUCER)), ran.instance
            if self.bare_calls and self.random.random() < 0.1:
                kind, where = self.random.choice((INTERNAL, SERVER)), self.random.choice(self.instances)
            started.append(self._span(where, kind, ran, at, [last], depth=depth + 1))
        done = ("joined", len(self.graph))
        awaited = [(span, end) for span, end in started if self.random.random() < 0.7]
        self.graph.add_edges_from(((span.number, True), done) for span, _ in awaited)
        self.graph.add_edge(last, done)
        return max([at, *(end for _, end in awaited)]), done

    def _message(self, ran: Ran, at: int, depth: int) -> tuple[int, list[Any]]:
        """A call to another process, which is waited for; or a message to several, which are not."""
        sent = [(ran.number, False)]
        others = [each for each in self.instances if each != ran.instance]
        if ran.kind == PRODUCER:
            for where in self.random.sample(others, min(len(others), self.random.randint(1, 3))):
                self._span(where, CONSUMER, ran, at + self.random.randint(1, 9), sent, depth=depth + 1)
            return at + 1, []
        server, end = self._span(self.random.choice(others), SERVER, ran, at, sent, depth=depth + 1)
        return end + self.random.randint(1, 5), [(server.number, True)]


def a_system(seed: int, *, bare_calls: bool = True) -> System:
    """Instances of a service are on different machines, and a machine has instances of several services."""
    random = Random(seed)
    machines = [random.randrange(-9 * HOUR, 9 * HOUR) for _ in range(4)]
    instances = [
        Instance(service, number, machine, machines[machine])
        for service in ("shop", "auth", "stock")
        for number, machine in enumerate(random.sample(range(4), random.randint(2, 4)))
    ]
    return System(random, instances, bare_calls).run()


Telling = Callable[[Instance], dict[str, Any]]
"""What an exporter says of an instance, besides its service."""


def as_otlp(system: System, tell: Telling) -> bytes:
    """A request a span, as several processes send them."""
    requests = []
    for ran in system.spans:
        told = {"service.name": ran.instance.service, **tell(ran.instance)}
        attributes = [
            {"key": key, "value": {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}}
            for key, value in told.items()
        ]
        span = {
            "traceId": TRACE,
            "spanId": ran.id,
            "parentSpanId": ran.parent.id if ran.parent else "",
            "name": "work",
            "kind": {INTERNAL: 1, SERVER: 2, CLIENT: 3, PRODUCER: 4, CONSUMER: 5}[ran.kind],
            "startTimeUnixNano": str(ran.shown(ran.start) * 1_000),
            "endTimeUnixNano": str(ran.shown(ran.end) * 1_000),
        }
        requests.append({"resource": {"attributes": attributes}, "scopeSpans": [{"spans": [span]}]})
    return b"".join(json.dumps({"resourceSpans": [each]}).encode() + b"\n" for each in requests)


def as_jaeger(system: System, tell: Telling) -> bytes:
    """What Jaeger's page downloads."""
    processes = {
        f"p{number}": {
            "serviceName": instance.service,
            "tags": [{"key": key, "value": value} for key, value in tell(instance).items()],
        }
        for number, instance in enumerate(system.instances)
    }
    spans = [
        {
            "traceID": TRACE,
            "spanID": ran.id,
            "operationName": "work",
            "references": [{"refType": "CHILD_OF", "traceID": TRACE, "spanID": ran.parent.id}] if ran.parent else [],
            "startTime": ran.shown(ran.start),
            "duration": ran.end - ran.start,
            "processID": f"p{system.instances.index(ran.instance)}",
            "tags": [{"key": "span.kind", "value": ran.kind}],
        }
        for ran in system.spans
    ]
    return json.dumps({"data": [{"traceID": TRACE, "spans": spans, "processes": processes}]}).encode()


def as_zipkin(system: System, *, shared: bool) -> bytes:
    """A list; where ids are shared, both sides of a call have one."""
    spans = []
    for ran in system.spans:
        together = shared and ran.is_called
        given = ran.parent if together and ran.parent else ran
        span: dict[str, Any] = {
            "traceId": TRACE,
            "id": given.id,
            "name": "work",
            "timestamp": ran.shown(ran.start),
            "duration": ran.end - ran.start,
            "localEndpoint": {"serviceName": ran.instance.service, "ipv4": ran.instance.address},
        }
        if ran.kind != INTERNAL:
            span["kind"] = ran.kind.upper()
        parent = given.parent
        if parent is not None:
            at_home = shared and parent.is_called
            span["parentId"] = parent.parent.id if at_home and parent.parent else parent.id
        if together:
            span["shared"] = True
        spans.append(span)
    return json.dumps(spans).encode()
