"""Live histories of 100,000 random streams: reports of every sort, cut and restarted anywhere, each judged by itself.

Takes hours, so it runs in chunks. What is done is written down by the code that was judged: a run that is interrupted goes on,
and other code begins anew. `LEDTO_STREAMS=2000` does that many more streams and tells what there is so far.

Histories are written to memory where the system has a folder for that (`/dev/shm`): on a disk, three quarters of the time
went into waiting for it to sync.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from hashlib import sha256
from pathlib import Path

from benchmarks.report import Goal, Section
from tests.live.wild import check_stream, draw_stream

STREAMS, CHUNK = 100_000, 50
ROOT = Path(__file__).parent.parent
IN_MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
JUDGED = (
    "src/ledto/history",
    "src/ledto/batch",
    "src/ledto/live",
    "src/ledto/causality",
    "src/ledto/delivery",
    "tests/live",
)


def chunk(first: int) -> dict[str, object]:
    """What the streams of one chunk came to."""
    seeds = range(first, first + CHUNK)
    start = time.process_time()
    faults = {str(seed): found for seed in seeds if (found := check_stream(seed, within=IN_MEMORY))}
    reports = sum(len(draw_stream(seed).table) for seed in seeds)
    return {"first": first, "faults": faults, "reports": reports, "seconds": time.process_time() - start}


def journal() -> Path:
    """Where the chunks of this code are written down."""
    digest = sha256()
    for folder in JUDGED:
        for path in sorted((ROOT / folder).rglob("*.py")):
            digest.update(path.read_bytes())
    return Path(tempfile.gettempdir()) / "ledto-streams" / f"{digest.hexdigest()[:16]}.jsonl"


def section() -> Section:
    wanted = int(os.environ.get("LEDTO_STREAMS", STREAMS))
    path = journal()
    path.parent.mkdir(exist_ok=True)
    done = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    known = {each["first"] for each in done}
    to_do = [first for first in range(0, STREAMS, CHUNK) if first not in known][: -(-wanted // CHUNK)]
    with ProcessPoolExecutor(os.cpu_count()) as pool, path.open("a") as file:
        for found in pool.map(chunk, to_do):
            file.write(json.dumps(found) + "\n")
            file.flush()
            done.append(found)
    streams = len(done) * CHUNK
    faults = {seed: told for each in done for seed, told in each["faults"].items()}
    kinds = Counter(fault.partition(":")[0][:60] for told in faults.values() for fault in told)
    reached = f"{streams:,} streams, {len(faults)} with a fault"
    return Section(
        "Random streams",
        "Live histories of random streams of reports, with and without numbers, times, stamps, messages, lines and spans; doubled, "
        "contradictory, broken, late, ahead and absurd ones; several computations, and names that look like ours. "
        "Each stream is written at once, and again in random steps with restarts. True must be: every report is delivered, a "
        "duplicate or quarantined, once; nothing waits for ever; causes stand before effects; and the steps change nothing.",
        ("streams", "reports", "with a fault", "CPU hours"),
        [
            (
                f"{streams:,}",
                f"{sum(each['reports'] for each in done):,}",
                len(faults),
                f"{sum(each['seconds'] for each in done) / 3600:.1f}",
            )
        ],
        [Goal(f"{STREAMS:,} streams without a fault", reached, not faults and streams >= STREAMS)],
        f"Seeds with a fault: {', '.join([*faults][:20])} ({dict(kinds)})." if faults else "",
    )
