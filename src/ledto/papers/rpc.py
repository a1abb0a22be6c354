"""Repeat Berry's experiment (section 4.4): measure how much time a stamp adds to an echo RPC.

An integer is echoed over gRPC between two processes on loopback. Names of processes take sixteen bytes. A stamp has a given
number of entries, and an ordering stamp has as many outstanding entries again. Both ends stamp request and reply, and the
message carries the stamp. It is sent *whole*, as in the paper, or through a *channel*, which sends each name once. All
kinds of calls take turns in short rounds, so that a slow moment of the machine affects all of them. A figure is the median
of the rounds' ratios to the plain call.
"""

from __future__ import annotations

import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from statistics import median, quantiles

import grpc  # type: ignore[import-untyped]

from ledto.clocks import (
    ChannelHub,
    OrderingChannel,
    OrderingClock,
    OrderingStamp,
    VectorChannel,
    VectorClock,
    VectorStamp,
)

SIZES = (2, 5, 10, 20, 50, 100, 200, 500, 1000)
KINDS = ("vector-whole", "ordering-whole", "vector-channel", "ordering-channel")
"""The kinds of stamped calls: causal time-stamps and causal ordering, each sent whole and through a channel."""
PAYLOAD = struct.pack("<q", 42)
PAYLOAD_BYTES = len(PAYLOAD)


def make_wide_vector(process: str, entries: int) -> VectorClock:
    """Make a clock that knows `entries` processes after the first message of its peer."""
    clock = VectorClock(process)
    clock.receive(VectorStamp({f"process-{i:08d}": i + 1 for i in range(entries - 2)}))
    return clock


def make_wide_ordering(process: str, entries: int) -> OrderingClock:
    """Make a clock that knows `entries` processes and has as many outstanding destinations."""
    clock = OrderingClock(process)
    others = {f"process-{i:08d}": i + 1 for i in range(entries - 2)}
    if others:
        sender = next(iter(others))
        clock.deliver(OrderingStamp(sender, VectorStamp(others), {to: {sender: 1} for to in others}))
    return clock


@dataclass(frozen=True, slots=True)
class CallEnd:
    """One side of a stamped call."""

    send: Callable[[], bytes]
    """Returns the stamp of a message to the peer."""
    receive: Callable[[bytes], object]
    """Merges the stamp of a message from the peer."""


def make_client_end(kind: str, entries: int) -> CallEnd:
    """Make the client's side. Its clock has `entries` entries from the start."""
    if kind.startswith("vector"):
        vector = make_wide_vector("client", entries)
        if kind == "vector-whole":
            return _whole_vector(vector)
        vectors = VectorChannel(vector)
        return CallEnd(vectors.send, vectors.receive)
    ordering = make_wide_ordering("client", entries)
    if kind == "ordering-whole":
        return _whole_ordering(ordering, "server")
    orderings = OrderingChannel(ordering)
    return CallEnd(partial(orderings.send, "server"), orderings.deliver)


def make_server_answer(kind: str) -> Callable[[bytes], bytes]:
    """Make the server's side: a function from a request's stamp to the reply's. Its clock learns from the client."""
    if kind == "vector-whole":
        return _answer_by(_whole_vector(make_wide_vector("server", 2)))
    if kind == "ordering-whole":
        return _answer_by(_whole_ordering(make_wide_ordering("server", 2), "client"))
    if kind == "vector-channel":
        vector = make_wide_vector("server", 2)
        vectors = ChannelHub(lambda: VectorChannel(vector))

        def answer_vector(stamp: bytes) -> bytes:
            end = vectors.end(stamp)
            end.receive(stamp)
            return end.send()

        return answer_vector
    ordering = make_wide_ordering("server", 2)
    orderings = ChannelHub(lambda: OrderingChannel(ordering))

    def answer_ordering(stamp: bytes) -> bytes:
        end = orderings.end(stamp)
        end.deliver(stamp)
        return end.send()

    return answer_ordering


def _whole_vector(clock: VectorClock) -> CallEnd:
    return CallEnd(lambda: clock.send().to_bytes(), lambda stamp: clock.receive(VectorStamp.from_bytes(stamp)))


def _whole_ordering(clock: OrderingClock, peer: str) -> CallEnd:
    return CallEnd(lambda: clock.send(peer).to_bytes(), lambda stamp: clock.deliver(OrderingStamp.from_bytes(stamp)))


def _answer_by(end: CallEnd) -> Callable[[bytes], bytes]:
    def answer(stamp: bytes) -> bytes:
        end.receive(stamp)
        return end.send()

    return answer


def serve(sizes: tuple[int, ...]) -> None:
    """Run the server process: print its port, and answer until standard input closes."""
    # Ctrl-C reaches the whole group of processes; the client ends the server.
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def handler(method: Callable[[bytes, object], bytes]) -> grpc.RpcMethodHandler:
        return grpc.unary_unary_rpc_method_handler(method)

    def stamped(kind: str) -> Callable[[bytes, object], bytes]:
        answer = make_server_answer(kind)
        return lambda request, _: answer(request[:-PAYLOAD_BYTES]) + request[-PAYLOAD_BYTES:]

    methods = {"plain": handler(lambda request, _: request)}
    methods |= {f"{kind}-{entries}": handler(stamped(kind)) for kind in KINDS for entries in sizes}
    server = grpc.server(ThreadPoolExecutor(1))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("echo", methods),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    sys.stdin.read()
    server.stop(None)


@dataclass(frozen=True, slots=True)
class Timed:
    """The timings of one kind of call at one size."""

    round_trip_us: float
    client_cpu_us: float
    """CPU time of the whole client process, with gRPC's threads."""
    round_trip_ratio: float
    round_trip_quartiles: tuple[float, float]
    """The quartiles of the rounds' ratios."""
    cpu_ratio: float
    cpu_quartiles: tuple[float, float]
    request_stamp_bytes: int


Timings = Mapping[int, Mapping[str, Timed]]
"""Timings by size, then by kind, one of which is "plain"."""


def measure(
    *,
    sizes: tuple[int, ...] = SIZES,
    kinds: tuple[str, ...] = KINDS,
    rounds: int = 60,
    calls: int = 50,
    on_progress: Callable[[int], None] = lambda _: None,
) -> Timings:
    """Time these kinds at every size. Call `on_progress` with the number of finished sizes."""
    command = [sys.executable, "-m", "ledto.papers.rpc", *map(str, sizes)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        assert server.stdin is not None
        try:
            port = int(server.stdout.readline())
            timings = {}
            with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
                for done, entries in enumerate(sizes, start=1):
                    timings[entries] = _time(_make_calls(channel, entries, kinds), rounds, calls)
                    on_progress(done)
            return timings
        finally:
            server.stdin.close()


def _make_calls(channel: grpc.Channel, entries: int, kinds: tuple[str, ...]) -> dict[str, Callable[[], int]]:
    """Make the calls by kind. Each returns the size of its request's stamp."""
    plain = channel.unary_unary("/echo/plain")

    def call_plain() -> int:
        plain(PAYLOAD)
        return 0

    def stamped(kind: str) -> Callable[[], int]:
        echo, end = channel.unary_unary(f"/echo/{kind}-{entries}"), make_client_end(kind, entries)

        def call() -> int:
            stamp = end.send()
            end.receive(echo(stamp + PAYLOAD)[:-PAYLOAD_BYTES])
            return len(stamp)

        return call

    return {"plain": call_plain} | {kind: stamped(kind) for kind in kinds}


def _time(kinds: dict[str, Callable[[], int]], rounds: int, calls: int) -> dict[str, Timed]:
    stamp_bytes = {}
    for kind, call in kinds.items():
        for _ in range(calls):
            stamp_bytes[kind] = call()
    wall: dict[str, list[float]] = {kind: [] for kind in kinds}
    cpu: dict[str, list[float]] = {kind: [] for kind in kinds}
    for _ in range(rounds):
        for kind, call in kinds.items():
            started, cpu_started = time.perf_counter(), time.process_time()
            for _ in range(calls):
                call()
            cpu[kind].append((time.process_time() - cpu_started) / calls)
            wall[kind].append((time.perf_counter() - started) / calls)
    timings = {}
    for kind in kinds:
        by_wall = [stamped / plain for stamped, plain in zip(wall[kind], wall["plain"], strict=True)]
        by_cpu = [stamped / plain for stamped, plain in zip(cpu[kind], cpu["plain"], strict=True)]
        timings[kind] = Timed(
            round_trip_us=median(wall[kind]) * 1e6,
            client_cpu_us=median(cpu[kind]) * 1e6,
            round_trip_ratio=median(by_wall),
            round_trip_quartiles=_quartiles(by_wall),
            cpu_ratio=median(by_cpu),
            cpu_quartiles=_quartiles(by_cpu),
            request_stamp_bytes=stamp_bytes[kind],
        )
    return timings


def _quartiles(values: list[float]) -> tuple[float, float]:
    low, _, high = quantiles(values, n=4)
    return low, high


if __name__ == "__main__":
    serve(tuple(map(int, sys.argv[1:])))
