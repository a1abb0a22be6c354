"""Finding events by text, against a scan of the same events by DuckDB, and of their text by grep."""

from __future__ import annotations

import shutil
import statistics
import subprocess
import time
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.asking import opened
from benchmarks.histories import folder, largest_events, make_history, raw_log, session, size
from benchmarks.pipeline import PROCESSES
from benchmarks.report import Goal, Section
from ledto.history.run import Run
from ledto.questions import Found, History

EVENTS_OF_ORDER = 8
FAILING = 1_000
"""One order in so many fails."""
CUSTOMERS = 1_000_000
TIMES = 5
WANTED_S, WANTED_BYTES = 1.0, 3.0
SEARCHES: dict[str, Callable[[History, int], Found]] = {
    "a frequent word: `order`": lambda history, order: history.find("order"),
    "a word of one event in 8,000: `FAILED`": lambda history, order: history.find("FAILED"),
    "an order, of 8 events": lambda history, order: history.find(str(order)),
    "a text of one order: `failed order N`": lambda history, order: history.find(f"failed order {order}"),
    "a customer, in an attribute": lambda history, order: history.find(f"c{order % CUSTOMERS}x"),
    "a word that is nowhere": lambda history, order: history.find("nowhere"),
    "two frequent words that never follow each other": lambda history, order: history.find("order compute"),
    "the last errors": lambda history, order: history.find(errors=True),
}


def section() -> Section:
    most = largest_events()
    rows: list[tuple[object, ...]] = []
    slowest = bytes_an_event = 0.0
    for events in (most // 100, most):
        path = messages_history(events)
        run = History(path).run
        stored = index_bytes(run)
        bytes_an_event = stored / events
        for name, search in SEARCHES.items():
            print(f"  {name}, {size(events)} events ...", flush=True)
            orders = [int(order) for order in np.random.default_rng(3).integers(0, events // EVENTS_OF_ORDER, TIMES)]
            orders = [order // FAILING * FAILING for order in orders] if "failed order" in name else orders
            check(History(path), name, search, orders[0])
            just_opened = seconds(search, partial(opened, path), orders)
            again = seconds(search, cache(partial(opened, path)), orders)
            rows.append((f"ledto: {name}", size(events), 1e3 * just_opened, 1e3 * again))
            slowest = max(slowest, just_opened)
        scanned = scan(run, "nowhere")
        rows.append(("DuckDB, a scan of names and attributes", size(events), 1e3 * scanned, 1e3 * scanned))
        if events <= 10**6:
            searched = grep(path, folder() / "messages.txt")
            rows.append(("grep -i -w in the same events as JSON lines", size(events), 1e3 * searched, 1e3 * searched))
    return Section(
        "Finding events",
        f"Milliseconds for the newest 20 events with a text ({PROCESSES} processes; names such as `request order 48208` and `compute FAILED "
        "order 48000`, 8 events an order, and the attributes customer and amount): median of "
        f"{TIMES} searches. *Just opened*: a new `History` for each, files in the page cache. DuckDB reads the columns name, customer and "
        "amount of the same files with both cores, and looks for a word that is nowhere.",
        ("", "events", "just opened, ms", "open, ms"),
        rows,
        [
            Goal(
                f"at most {WANTED_S:g} s at {size(most)} events",
                f"{slowest:.2f} s",
                slowest <= WANTED_S,
            ),
            Goal(
                f"an index of at most {WANTED_BYTES:g} bytes an event",
                f"{bytes_an_event:.2f} bytes",
                bytes_an_event <= WANTED_BYTES,
            ),
        ],
    )


def messages_log(events: int) -> Path:
    """The raw log with messages as names, and two columns of its own, made when it is asked for first."""
    raw, path = raw_log(PROCESSES, events), folder() / f"messages-{PROCESSES}-{events}"
    if (path / "_DONE").exists():
        return path
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir()
    first = 0
    for part in sorted(raw.glob("*.parquet")):
        rows = pq.read_table(part)
        order = np.arange(first, first + len(rows)) // EVENTS_OF_ORDER
        first += len(rows)
        fails = (order % FAILING == 0) & (np.arange(len(rows)) % EVENTS_OF_ORDER == EVENTS_OF_ORDER - 1)
        verb = pc.binary_join_element_wise(rows["name"].cast(pa.string()), pa.array(np.where(fails, " FAILED", "")), "")
        names = pc.binary_join_element_wise(verb, "order", pa.array(order).cast(pa.string()), " ")
        customers = pc.binary_join_element_wise("c", pa.array(order % CUSTOMERS).cast(pa.string()), "x", "")
        rows = rows.set_column(rows.column_names.index("name"), "name", names)
        rows = rows.append_column("customer", customers)
        rows = rows.append_column("amount", pa.array(order % 9_973 / 100))
        rows = rows.append_column("error", pa.array(fails))
        pq.write_table(rows, path / part.name, compression="zstd")
    (path / "_DONE").touch()
    return path


def messages_history(events: int) -> Path:
    """The history of `messages_log`, made anew."""
    path = folder() / f"history-of-messages-{PROCESSES}-{events}"
    taken = make_history(session(), (PROCESSES, events), path, raw=messages_log(events))
    print(f"  observed {size(events)} events with messages in {taken:.1f} s")
    return path


def index_bytes(run: Run) -> int:
    """The bytes of all indices of words."""
    return sum(Path(run.place(name)).stat().st_size for name in run.segments.words_file if name is not None)


def check(history: History, name: str, search: Callable[[History, int], Found], order: int) -> None:
    """Compare how many events are found with how many must be."""
    orders = len(history) // EVENTS_OF_ORDER
    expected = {
        "a frequent word: `order`": 20,
        "an order, of 8 events": EVENTS_OF_ORDER,
        "a text of one order: `failed order N`": 1,
        "a customer, in an attribute": min(20, EVENTS_OF_ORDER * len(range(order % CUSTOMERS, orders, CUSTOMERS))),
        "a word that is nowhere": 0,
        "two frequent words that never follow each other": 0,
    }.get(name, min(20, -(-orders // FAILING)))
    if len(search(history, order)) != expected:
        raise AssertionError(
            f"{name}: {len(search(history, order))} events of {history!r}, and {expected} must be found"
        )


def seconds(search: Callable[[History, int], Found], history: Callable[[], History], orders: list[int]) -> float:
    """The median of how long the searches take."""
    taken = []
    for order in orders:
        start = time.perf_counter()
        search(history(), order)
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)


def scan(run: Run, word: str) -> float:
    """Seconds that DuckDB takes to look for a word in the same columns."""
    import duckdb

    files = [run.place(name) for name in run.segments.events_file]
    query = (
        "SELECT count(*) FROM read_parquet($files) WHERE concat_ws(' ', name, customer, amount::VARCHAR) ILIKE "
        f"'%{word}%'"
    )
    start = time.perf_counter()
    (found,) = duckdb.execute(query, {"files": files}).fetchall()
    if found[0]:
        raise AssertionError(f"DuckDB finds {word!r} {found[0]} times")
    return time.perf_counter() - start


def grep(path: Path, text: Path) -> float:
    """Seconds that grep takes to look for a word in the events as JSON lines."""
    with text.open("w") as out:
        for event in History(path).order():
            out.write(
                f'{{"id": "{event.id}", "time": {event.time}, "name": "{event.name}", "attributes": {event.attributes}}}\n'
            )
    start = time.perf_counter()
    subprocess.run(["grep", "-i", "-w", "nowhere", str(text)], check=False)
    taken = time.perf_counter() - start
    text.unlink()
    return taken
