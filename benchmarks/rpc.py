"""Echo RPC over gRPC on loopback: what a stamp adds to a round trip, against the same call without one."""

from __future__ import annotations

import time

from benchmarks.report import Goal, Section
from ledto.papers.rpc import make_client_end, make_server_answer, measure

SIZES = (2, 10, 100, 1000)
LIMITS = {2: 1.05, 100: 1.10, 1000: 1.30}
KINDS = {"time-stamps": "vector-channel", "ordering": "ordering-channel"}


def section() -> Section:
    timed = measure(sizes=SIZES, kinds=tuple(KINDS.values()), rounds=120)
    warm = {name: warm_us(kind) for name, kind in KINDS.items()}
    ratio = {n: {name: kinds[kind].round_trip_ratio for name, kind in KINDS.items()} for n, kinds in timed.items()}
    added = {name: {n: (ratio[n][name] - 1) * timed[n]["plain"].round_trip_us for n in SIZES} for name in KINDS}
    goals = [
        Goal(f"{name} at {n:,} entries at most {limit:.2f}x", f"{ratio[n][name]:.3f}x", ratio[n][name] <= limit)
        for n, limit in LIMITS.items()
        for name in KINDS
    ]
    goals.append(
        Goal(
            "growth no worse than linear from 100 to 1,000 entries",
            ", ".join(f"{name} {added[name][1000] / added[name][100]:.1f}x the added time" for name in KINDS),
            all(added[name][1000] <= 10 * added[name][100] for name in KINDS),
        )
    )
    return Section(
        "Echo RPC",
        "A gRPC echo of one integer between two processes on loopback: the plain round trip in microseconds, and the round "
        "trip with causal time-stamps (`VectorChannel`) and with causal ordering (`OrderingChannel`) as a multiple of it, "
        "medians of 120 rounds of 50 calls that take turns. Both ends stamp the request and the reply. Stamps have the "
        "given number of entries, ordering stamps as many outstanding destinations again.",
        ("entries", "plain, us", "time-stamps", "ordering", "bytes of a stamp", "bytes, ordering"),
        [
            (
                n,
                timed[n]["plain"].round_trip_us,
                *(ratio[n][name] for name in KINDS),
                *(timed[n][kind].request_stamp_bytes for kind in KINDS.values()),
            )
            for n in SIZES
        ],
        goals,
        f"What bounds it: in one process and warm, the four steps of a round trip take {warm['time-stamps']:.0f} us for "
        f"time-stamps and {warm['ordering']:.0f} us for ordering at 2 entries. Inside an RPC each step follows a switch of "
        "threads and runs on cold caches, and costs several times that. At 1,000 entries 4 kB are written, sent, read and "
        "merged at each end.",
    )


def warm_us(kind: str, *, rounds: int = 20_000) -> float:
    """Both ends' steps of one round trip, without the RPC."""
    client, answer = make_client_end(kind, 2), make_server_answer(kind)
    for _ in range(10):
        client.receive(answer(client.send()))
    start = time.process_time()
    for _ in range(rounds):
        client.receive(answer(client.send()))
    return (time.process_time() - start) / rounds * 1e6
