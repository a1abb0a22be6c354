"""OTLP traces as rows, against Python's own json and a walk over its dictionaries; and the memory that larger files take."""

from __future__ import annotations

import json
import multiprocessing
import re
import tempfile
import time
from collections.abc import Callable
from multiprocessing.pool import Pool
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.otlp_traces import document, json_lines, protobuf, requests
from benchmarks.report import Goal, Section
from ledto.events.keys import ANSWER
from ledto.sources.files import InputFile
from ledto.sources.otlp import Otlp

SPANS = 40_000
ROUNDS = 5
CORES = 2
TIMES_LARGER = 8
ALLOWED_RATIO = 3
ALLOWED_PROTOBUF = 1.5
ALLOWED_GROWTH = 1.2

Part = tuple[Path, int, int | None]
Way = Callable[[], tuple[float, float]]
Columns = dict[str, list[Any]]

WALKED = (
    *("process", "time", "kind", "sends", "receives", "receives_more", "id", "name", "attributes", "error"),
    *("line", "line_parent", "line_phase", "line_since", "place"),
)
"""The columns that rows of spans have; the others are null or the same everywhere."""


def section() -> Section:
    with tempfile.TemporaryDirectory(prefix="ledto-bench-") as name:
        return compared(Path(name))


def compared(folder: Path) -> Section:
    made = requests(SPANS)
    spans = sum(len(scope["spans"]) for each in made for one in each["resourceSpans"] for scope in one["scopeSpans"])
    halves = made[: len(made) // 2], made[len(made) // 2 :]
    lines = written(folder / "traces.jsonl", json_lines(made))
    documents = [written(folder / f"{n}.json", document(half)) for n, half in enumerate(halves)]
    messages = [written(folder / f"{n}.pb", protobuf(half)) for n, half in enumerate(halves)]
    cut = lines.stat().st_size // CORES
    raw = lines.read_bytes()
    check_walk(raw, lines)
    with multiprocessing.get_context("spawn").Pool(CORES) as pool:
        ways: dict[str, Way] = {
            "json and a walk, one process": lambda: walked(raw),
            "ledto, JSON lines": lambda: together(pool, [(lines, 0, cut), (lines, cut, None)]),
            "ledto, JSON documents": lambda: together(pool, [(path, 0, None) for path in documents]),
            "ledto, protobuf": lambda: together(pool, [(path, 0, None) for path in messages]),
        }
        found = in_turns(ways)
    sizes = [len(raw), len(raw), *(sum(path.stat().st_size for path in paths) for paths in (documents, messages))]
    memory = {
        "JSON lines": grown(folder, raw, raw * TIMES_LARGER),
        "a JSON document": grown(folder, *documents_of_two_sizes(made)),
        "protobuf": grown(folder, messages[0].read_bytes(), messages[0].read_bytes() * TIMES_LARGER),
    }
    (theirs, theirs_cpu), (ours, ours_cpu), _, (wired, _) = found.values()
    growth = {kind: large / small for kind, (small, large) in memory.items()}
    return Section(
        "OTLP",
        f"Traces of {spans:,} spans of 40 services, 12 attributes a span, as the Collector writes them "
        "(`benchmarks/otlp_traces.py`), to the rows of `ledto.sources.otlp`: with Python's `json.loads` and a walk over what it "
        "gives, which puts the same values into lists (attributes stay dictionaries, which is less than a row needs; all rows were "
        "compared with those of ledto), in one "
        f"process; and with ledto, to Arrow batches, in {CORES} processes that read half each. Least of {ROUNDS} runs of each, which took turns. Then what "
        f"one process holds at most when it reads a file, and one {TIMES_LARGER} times as large.",
        ("", "spans/s", "MB/s", "CPU, us a span", "peak memory, MB", f"{TIMES_LARGER}x the file"),
        [
            (name, round(spans / seconds), size / seconds / 1e6, cpu / spans * 1e6, "", "")
            for (name, (seconds, cpu)), size in zip(found.items(), sizes, strict=True)
        ]
        + [(f"reading {kind}", "", "", "", small / 1e6, large / 1e6) for kind, (small, large) in memory.items()],
        [
            Goal(
                f"JSON lines on {CORES} cores at least {ALLOWED_RATIO}x json and a walk",
                f"{theirs / ours:.1f}x",
                theirs >= ALLOWED_RATIO * ours,
            ),
            Goal(
                f"protobuf at most {ALLOWED_PROTOBUF}x the time of JSON lines",
                f"{wired / ours:.2f}x",
                wired <= ALLOWED_PROTOBUF * ours,
            ),
            *(
                Goal(
                    f"bounded memory: {kind} {TIMES_LARGER} times as large in at most {ALLOWED_GROWTH}x the memory",
                    f"{ratio:.2f}x",
                    ratio <= ALLOWED_GROWTH,
                )
                for kind, ratio in growth.items()
            ),
        ],
        f"By CPU time, which other work on the machine changes less, JSON lines take 1/{theirs_cpu / ours_cpu:.1f} of what json "
        "and a walk take.",
    )


def written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def in_turns(ways: dict[str, Way]) -> dict[str, tuple[float, float]]:
    """Seconds and seconds of CPU of each way, the least of a few rounds after one that loads what they need."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for number in range(-1, ROUNDS):
        for name, way in ways.items():
            seconds, cpu = way()
            print(
                f"  {'warm-up' if number < 0 else f'round {number + 1}'}: {name} {seconds:.2f} s, CPU {cpu:.2f} s",
                flush=True,
            )
            if number >= 0:
                found[name].append((seconds, cpu))
    return {name: (min(wall for wall, _ in runs), min(cpu for _, cpu in runs)) for name, runs in found.items()}


def walked(data: bytes) -> tuple[float, float]:
    start, cpu = time.perf_counter(), time.process_time()
    walk(data)
    return time.perf_counter() - start, time.process_time() - cpu


def together(pool: Pool, parts: list[Part]) -> tuple[float, float]:
    """Seconds for these parts, each in a process of its own, and their seconds of CPU in all."""
    start = time.perf_counter()
    cpu = sum(pool.map(cpu_of, parts, chunksize=1))
    return time.perf_counter() - start, cpu


def cpu_of(part: Part) -> float:
    start = time.process_time()
    rows_of(part)
    return time.process_time() - start


def rows_of(part: Part) -> int:
    path, start, stop = part
    piece = InputFile(path.name, str(path), path.stat().st_size).piece(start=start, stop=stop)
    return sum(batch.num_rows for batch in Otlp().read(piece))


def peak_bytes(path: Path) -> int:
    """What this process held at most after it has read the file.

    Not `ru_maxrss`: a process begins with that of the one it was started from.
    """
    rows_of((path, 0, None))
    found = re.search(r"^VmHWM:\s+(\d+) kB$", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert found is not None, "the kernel does not say how much memory a process held at most"
    return int(found[1]) * 1024


def grown(folder: Path, small: bytes, large: bytes) -> tuple[int, int]:
    """The peak memory of a process that reads the small file, and of one that reads the large one."""
    found = []
    for data in (small, large):
        path = written(folder / "measured", data)
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            found.append(pool.apply(peak_bytes, (path,)))
    return found[0], found[1]


def documents_of_two_sizes(made: list[dict[str, Any]]) -> tuple[bytes, bytes]:
    """One document, and one with each of its resources several times."""
    small = document(made[: len(made) // 4])
    start, stop = small.index(b"[") + 1, small.rindex(b"]")
    return small, small[:start] + b",".join([small[start:stop]] * TIMES_LARGER) + small[stop:]


def walk(data: bytes) -> Columns:
    """The columns of the rows, as one would write it in an afternoon; `check_walk` compares them with ours."""
    columns: Columns = {name: [] for name in WALKED}
    appends = [column.append for column in columns.values()]

    def add(*values: Any) -> None:
        for append, value in zip(appends, values, strict=True):
            append(value)

    for place, text in enumerate(data.splitlines(), 1):
        for resource_spans in json.loads(text)["resourceSpans"]:
            named = values_of(resource_spans["resource"]["attributes"])
            process = f"{named['service.name']}@{named['service.instance.id']}"
            kept = {
                name: named[name] for name in ("service.namespace", "service.version", "deployment.environment.name")
            }
            for scope in resource_spans["scopeSpans"]:
                for span in scope["spans"]:
                    trace, key, name, status = span["traceId"], span["spanId"], span["name"], span["status"]
                    line, is_server = f"{trace}/{key}", span["kind"] == 2
                    parent = f"{trace}/{span['parentSpanId']}" if span["parentSpanId"] else None
                    causes = [f"span {link['traceId']}/{link['spanId']}" for link in span.get("links", ())]
                    if parent:
                        causes.insert(0, f"span {parent}")
                    begun = int(span["startTimeUnixNano"])
                    add(process, begun, "receive" if is_server else "send", f"span {line}", causes[0] if causes else None,
                        causes[1:] or None, f"{key}/start", f"{name} starts",
                        {"span.kind": "server" if is_server else "client"}, None, line, parent, "start", None, place)  # fmt: skip
                    for number, event in enumerate(span.get("events", ()), 1):
                        said = values_of(event["attributes"])
                        add(process, int(event["timeUnixNano"]), "local", None, None, None, f"{key}/{number}",
                            event["name"], said, failure(said, event["name"] == "exception", 500), line, None, None, None,
                            place)  # fmt: skip
                    attributes = values_of(span["attributes"])
                    if status.get("message"):
                        attributes["otel.status_description"] = status["message"]
                    attributes |= kept
                    failed = status.get("code") == 2
                    add(process, int(span["endTimeUnixNano"]), "send" if is_server else "receive",
                        f"{ANSWER}{parent}" if parent else None, f"{ANSWER}{line}", None, key,
                        f"{name} {'fails' if failed else 'ends'}", attributes,
                        failure(attributes, failed, 500 if is_server else 400), line, None, "end", begun, place)  # fmt: skip
    return columns


def failure(attributes: dict[str, Any], told: bool, least_status: int) -> bool | None:
    """True where a row tells of a failure; None where it does not say."""
    return told or attributes.get("http.response.status_code", 0) >= least_status or None


def check_walk(raw: bytes, path: Path) -> None:
    """Compare the rows of the walk with those of ledto, all of them: else the two would not be compared at the same work."""
    batches = list(Otlp().read(InputFile(path.name, str(path), path.stat().st_size).piece()))
    ours = pa.Table.from_batches(batches).select(WALKED).to_pydict()
    ours["attributes"] = [text and json.loads(text) for text in ours["attributes"]]
    for name, theirs in walk(raw).items():
        if theirs != ours[name]:
            row = next((at for at, pair in enumerate(zip(theirs, ours[name], strict=False)) if pair[0] != pair[1]), -1)
            raise AssertionError(f"row {row}: {name} is {theirs[row]!r} by the walk and {ours[name][row]!r} by ledto")


def values_of(pairs: list[dict[str, Any]]) -> dict[str, Any]:
    return {pair["key"]: value_of(pair["value"]) for pair in pairs}


def value_of(value: dict[str, Any]) -> Any:
    for kind, content in value.items():
        if kind == "intValue":
            return int(content)
        if kind == "arrayValue":
            return [value_of(each) for each in content.get("values", ())]
        if kind == "kvlistValue":
            return values_of(content.get("values", []))
        return content
    return None
