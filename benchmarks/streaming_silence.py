"""State is bounded: what a stream holds after a day of silence and noise, and what Spark keeps of heartbeats."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import nats

from benchmarks.histories import folder, is_trial, session
from benchmarks.report import Goal, Section
from benchmarks.service import Service, folder_bytes, publish, served
from benchmarks.stream_reports import stream_reports
from benchmarks.streaming import TERMS, later
from ledto.service.broker.nats_server import FOLDER, SUBJECT
from ledto.spark.stream import open_source
from ledto.spark.stream.follow import checkpoint_of, follow

STEP_SECONDS, NOISE = 120, 4_000
RETAINED, BATCHES = 20, 120
"""Micro-batches whose offsets Spark keeps, and those that are run: in place of 100, so that a short run comes to the end of it."""
HEARTBEATS_A_SECOND = 20
LONGEST_SECONDS = 150
ALLOWED = 1.1
_RETAIN = "spark.sql.streaming.minBatchesToRetain"


def day(*, step_seconds: int) -> list[dict[str, Any]]:
    """What the writer holds, eight times in a day."""
    path = folder() / "silent-day"
    command = [sys.executable, "-m", "benchmarks.silent_day", str(path), str(step_seconds), str(NOISE)]
    said = subprocess.run(command, stdout=subprocess.PIPE, check=True, cwd=Path(__file__).parent.parent, timeout=900)
    return [json.loads(line) for line in said.stdout.splitlines()]


def heartbeats() -> list[dict[str, Any]]:
    """What a stream of nothing but heartbeats holds, after as many micro-batches as Spark keeps and then some."""
    spark, found, stop = session(), [], threading.Event()
    before = spark.conf.get(_RETAIN, None)
    spark.conf.set(_RETAIN, RETAINED)
    with served("silence", "--no-stream") as service:
        history = service.history.parent / "live"
        publish(service, later(stream_reports(2_000, start_ns=time.time_ns(), rate=2_000)))
        source = open_source(service.source, {})
        following = threading.Thread(
            target=follow,
            args=(spark, source, history),
            kwargs={"terms": TERMS, "trigger_seconds": 0.05, "stop": stop},
        )
        beating = threading.Thread(target=lambda: asyncio.run(_beat(service, stop)))
        following.start()
        beating.start()
        try:
            offsets = Path(checkpoint_of(history)) / "offsets"
            deadline = time.monotonic() + LONGEST_SECONDS
            for wanted in (BATCHES // 3, 2 * BATCHES // 3, BATCHES):
                while _last(offsets) < wanted and time.monotonic() < deadline and following.is_alive():
                    time.sleep(0.2)
                gc.collect()
                found.append(
                    {
                        "batches": _last(offsets),
                        "resident": int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE"),
                        "checkpoint": folder_bytes(Path(checkpoint_of(history))),
                        "files": sum(1 for each in Path(checkpoint_of(history)).rglob("*") if each.is_file()),
                        "broker": folder_bytes(service.history / FOLDER),
                    }
                )
        finally:
            stop.set()
            following.join()
            beating.join()
            spark.conf.unset(_RETAIN) if before is None else spark.conf.set(_RETAIN, before)
    return found


async def _beat(service: Service, stop: threading.Event) -> None:
    client = await nats.connect(service.url)
    try:
        while not stop.is_set():
            await client.jetstream().publish(SUBJECT, b"", timeout=30)
            await asyncio.sleep(1 / HEARTBEATS_A_SECOND)
    finally:
        await client.close()


def _last(offsets: Path) -> int:
    try:
        return max((int(each) for each in os.listdir(offsets) if each.isdecimal()), default=-1)
    except FileNotFoundError:
        return -1


def section() -> Section:
    hours = day(step_seconds=3 * STEP_SECONDS if is_trial() else STEP_SECONDS)
    # The first eighth of the day still fills what is then full.
    start, end = hours[0], hours[-1]
    beats = heartbeats()
    begun, ended = beats[0], beats[-1]
    memory, state = end["resident"] / start["resident"], end["state"] / start["state"]
    checkpoint = max(ended["files"] / begun["files"], ended["checkpoint"] / begun["checkpoint"])
    driver = ended["resident"] / begun["resident"]
    return Section(
        "Bounded state",
        f"A simulated day for the writer, in a process of its own: a heartbeat every {STEP_SECONDS} s, and each hour {NOISE:,} reports, of which "
        "a quarter cannot be read, a quarter was delivered before, a quarter is three hours late and a quarter comes from clocks that "
        "are a day ahead. State is what goes on from micro-batch to micro-batch (carry, tail, and what is known of each "
        "computation); the index tells of closed segments and grows with them. Then a stream by Spark of nothing but heartbeats, "
        f"which keeps {RETAINED} micro-batches for this, in place of 100; the broker's folder has its log in it.",
        ("", "memory, MB", "state or checkpoint, kB", "index, kB", "history or broker, kB", "segments"),
        [
            *(
                (
                    f"the writer, after {each['hour']} h",
                    each["resident"] / 1e6,
                    each["state"] / 1e3,
                    each["index"] / 1e3,
                    each["history"] / 1e3,
                    each["segments"],
                )
                for each in (hours[0], hours[3], hours[-1])
            ),
            *(
                (
                    f"the stream, after {each['batches']} micro-batches",
                    each["resident"] / 1e6,
                    each["checkpoint"] / 1e3,
                    "",
                    each["broker"] / 1e3,
                    "",
                )
                for each in beats
            ),
        ],
        [
            Goal(
                f"the writer's memory after a day at most {ALLOWED}x that after 3 hours",
                f"{memory:.2f}x",
                memory <= ALLOWED,
            ),
            Goal(f"its state at most {ALLOWED}x", f"{state:.2f}x", state <= ALLOWED),
            Goal(
                f"the checkpoint, files and bytes, after {ended['batches']} micro-batches at most {ALLOWED}x that after {begun['batches']}",
                f"{checkpoint:.2f}x",
                checkpoint <= ALLOWED and ended["batches"] >= BATCHES,
            ),
            Goal(f"the driver's memory meanwhile at most {ALLOWED}x", f"{driver:.2f}x", driver <= ALLOWED),
        ],
        f"The driver's memory is Python's; Java's is what it is given. At the end of the day {end['waiting']:,} reports waited.",
    )
