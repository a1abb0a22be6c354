"""Streams of processes whose messages have no names: only their channels are reported, in the order of each process."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pyarrow as pa

from ledto.events.schema import REPORTS
from tests.live.streams import BASE, DELTA, MS

STEPS, SKEW = (4, 40), 12
"""Milliseconds from one event to the next, so that a stream is short or goes on for many closed parts; and most that two
clocks differ by."""


@dataclass
class Pipe:
    """One direction of one connection, which keeps its order."""

    name: str
    sender: list[str]
    receiver: list[str]
    counts_bytes: bool
    sent: list[tuple[str, int]] = field(default_factory=list)
    """What is under way: the event that sent it, and how much."""


@dataclass
class Drawn:
    """What happened: the rows of all events as they happened, and by event what it truly received."""

    rows: list[dict[str, Any]]
    took: dict[str, set[str]]


def draw_channels(random: Random, *, events: int, lost: float, threads: int = 1, numbered_share: float = 0.6) -> Drawn:
    """Processes that send over channels, in which this share of messages is lost; ends have up to `threads` processes."""
    hosts = [f"p{number}" for number in range(random.randint(2, 4))]
    names = {host: [host] + [f"{host}.{number}" for number in range(1, random.randint(1, threads))] for host in hosts}
    pipes = []
    for number in range(random.randint(1, 4)):
        sender, receiver = random.sample(hosts, 2)
        pipes.append(Pipe(f"{sender}>{receiver} {number}", names[sender], names[receiver], random.random() < 0.4))
    skew = {host: random.randint(0, SKEW) for host in hosts}
    numbered = {name: random.random() < numbered_share for host in hosts for name in names[host]}
    seq, last = defaultdict[str, int](int), defaultdict[str, int](int)
    drawn = Drawn([], {})
    now, step = 0, random.choice(STEPS)
    while len(drawn.rows) < events:
        now += random.choice((0, 1, 1, 2)) * step
        pipe, chance = random.choice(pipes), random.random()
        receives = chance < 0.45 and bool(pipe.sent)
        process = random.choice(pipe.receiver if receives else pipe.sender)
        host = process.partition(".")[0]
        # The threads of a host share its clock, on which no two events are at one time.
        last[host] = time = max(now + skew[host], last[host] + 1)
        seq[process] += 1
        row: dict[str, Any] = {
            "computation": "",
            "process": process,
            "clock_name": host,
            "seq": seq[process] if numbered[process] else None,
            "time": BASE + time * MS,
            "id": f"e{len(drawn.rows)}",
            "name": "step",
            "kind": "local",
        }
        drawn.rows.append(row)
        drawn.took[row["id"]] = set()
        if receives:
            row |= {"kind": "receive", "channel_key": pipe.name}
            size = 1
            if pipe.counts_bytes:
                size = row["channel_bytes"] = random.randint(1, sum(length for _, length in pipe.sent))
            while size:
                sender, length = pipe.sent.pop(0)
                drawn.took[row["id"]].add(sender)
                if length > size:
                    pipe.sent.insert(0, (sender, length - size))
                size -= min(length, size)
        elif chance < 0.9:
            row |= {"kind": "send", "channel_key": pipe.name}
            size = 1
            if pipe.counts_bytes:
                size = row["channel_bytes"] = random.randint(1, 9)
            if random.random() >= lost:
                pipe.sent.append((row["id"], size))
    return drawn


def reports_of(random: Random, rows: list[dict[str, Any]], *, twice: float = 0.05) -> pa.Table:
    """The rows as they come, each in time, some of them twice."""
    found = []
    for place, row in enumerate(rows):
        times = 2 if random.random() < twice else 1
        arrivals = [row["time"] + random.randint(0, DELTA) for _ in range(times)]
        found += [{**row, "arrival": arrival, "file": "f", "place": place} for arrival in arrivals]
    return pa.Table.from_pylist(sorted(found, key=lambda row: row["arrival"]), REPORTS)


def counted(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows with names of messages: what the nth unit of a channel's receives took is the nth of its sends."""
    units: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        if row["kind"] == "send":
            units[row["channel_key"]] += [row["id"]] * (row["channel_bytes"] or 1)
    done: dict[str, int] = defaultdict(int)
    found = []
    for row in rows:
        named = {**row, "receives": None, "receives_more": None, "sends": None, "line": None, "line_parent": None}
        named |= {"line_phase": None, "line_joins": None}
        if row["kind"] == "send":
            named["sends"] = f"of {row['id']}"
        elif row["kind"] == "receive":
            key, size = row["channel_key"], row["channel_bytes"] or 1
            taken = units[key][done[key] : done[key] + size]
            done[key] += size
            keys = [f"of {sender}" for sender in dict.fromkeys(taken)]
            named["receives"], named["receives_more"] = keys[0] if keys else None, keys[1:]
        found.append(named)
    return found
