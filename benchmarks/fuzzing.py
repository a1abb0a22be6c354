"""Every source against bad input: 10,000 cases each, on bytes and on structure.

A sample is a file in `tests/sources/samples` whose name begins with that of its format; `NAMED_OTHERWISE` lists the rest.
What ``NAME_bad.SUFFIX`` holds is put after ``NAME.SUFFIX`` where bytes are garbled. A format without a sample misses its
goal.
"""

from __future__ import annotations

import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
from hypothesis import HealthCheck, Phase, given, seed, settings

from benchmarks.report import Goal, Section
from ledto.sources import Source, SourceCheckFailed, check_source
from ledto.sources.contract import Records
from ledto.sources.otlp import Otlp
from ledto.sources.registry import SOURCES, source
from tests.sources.structures import Case, bad_json, complains, nodes, read_checked
from tests.sources.wire_structures import bad_wire

CASES, SHARE = 10_000, 1_250
SAMPLES = Path(__file__).parent.parent / "tests" / "sources" / "samples"
NAMED_OTHERWISE = {
    "ledto": ["shop.jsonl"],
    "shiviz": ["shop.log"],
    "mapped": ["threads.log"],
    "otlp": ["otlp.jsonl"],
    "otlp, a document": ["otlp.json"],
    "otlp, protobuf": ["otlp.pb"],
}
OPTIONS = {"mapped": {"mapping": "falcon"}}


class OtlpAnywhere(Otlp):
    """Documents and protobuf, in which lines mean nothing."""

    records: ClassVar[Records] = "anywhere"


READERS = [*SOURCES, "otlp, a document", "otlp, protobuf"]


def samples(format: str) -> list[Path]:
    """The samples of a format, those of bad records left out."""
    found = [SAMPLES / name for name in NAMED_OTHERWISE.get(format, ())] or sorted(SAMPLES.glob(f"{format}*"))
    return [path for path in found if not path.stem.endswith("_bad")]


def garbled(format: str, path: Path, number: int) -> Counter[str]:
    """Put a source to one share of garbled bytes."""
    bad = path.with_stem(f"{path.stem}_bad")
    sample = path.read_bytes() + (bad.read_bytes() if bad.exists() else b"")
    check_source(_source(format), sample, seed=number, mutations=SHARE)
    return Counter({"garbled bytes": SHARE})


def restructured(format: str, path: Path, number: int) -> Counter[str]:
    """Put a source to one share of cases that know the sample's structure; what surely is wrong must be told."""
    read, tried = _source(format), Counter[str]()
    sample = _good_lines(read, path.read_bytes())
    has_json = bool(nodes(sample))
    # Bad records in the sample itself, or text around its JSON, leave open who complains of what.
    is_good = has_json and _is_json(sample) and not complains(_rows(read, sample))

    @seed(number)
    @settings(
        max_examples=SHARE,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(bad_json(sample) if has_json else bad_wire(sample))
    def try_case(case: Case) -> None:
        told = complains(read_checked(read, case))
        if is_good and case.is_wrong and not told:
            raise SourceCheckFailed(f"{case.what} is told in no row: {case.data!r}")
        tried["must be told" if is_good and case.is_wrong else "may be right"] += 1

    try_case()
    return tried


def _source(format: str) -> Source:
    return source(format, OPTIONS.get(format, {})) if format in SOURCES else OtlpAnywhere()


def _rows(read: Source, data: bytes) -> pa.Table:
    return read_checked(read, Case("the sample", data, is_wrong=False))


def _good_lines(read: Source, sample: bytes) -> bytes:
    """The sample without its bad lines, if its records are lines."""
    if read.records == "anywhere" or not read.splittable:
        return sample
    bad = {row["place"] for row in _rows(read, sample).to_pylist() if row["reason"] is not None}
    lines = sample.split(b"\n")
    return b"\n".join(line for place, line in enumerate(lines, start=1) if place not in bad)


def _is_json(sample: bytes) -> bool:
    """Whether nothing but JSON and spaces stands in it."""
    position = 0
    for node in nodes(sample):
        if node.top:
            if sample[position : node.start].strip():
                return False
            position = node.stop
    return not sample[position:].strip()


def section() -> Section:
    rows, goals = [], []
    with ProcessPoolExecutor(2) as pool:
        for format in READERS:
            start, found = time.perf_counter(), samples(format)
            tried, contradiction = Counter[str](), None if found else "no sample"
            shares = [
                pool.submit(way, format, path, number)
                for path in found
                for way in (garbled, restructured)
                for number in range(-(-CASES // 2 // SHARE // len(found)))
            ]
            for share in shares:
                try:
                    tried += share.result()
                except AssertionError as error:
                    contradiction = contradiction or f"{error!s:.200}".replace("\n", " ").replace("|", "\\|")
            seconds, cases = time.perf_counter() - start, sum(tried.values())
            reached = contradiction or f"{cases:,} cases, no contradiction"
            rows.append(
                (
                    format,
                    len(found),
                    tried["garbled bytes"],
                    cases - tried["garbled bytes"],
                    tried["must be told"],
                    seconds,
                )
            )
            goals.append(
                Goal(f"{format}: {CASES:,} cases, no contradiction", reached, contradiction is None and cases >= CASES)
            )
            print(f"  {format}: {reached}, {seconds:.0f} s", flush=True)
    return Section(
        "Bad input",
        "Every source on samples that were torn, garbled and shuffled byte by byte (`ledto.sources.check_source`), and on samples "
        "that stay well formed around one wrong thing (Hypothesis): values cut off, mis-encoded, nested 100 deep, numbers beyond "
        "64 bits, keys given twice, wrong types, values swapped; for protobuf, wrong lengths, tags and payloads. No case may raise, "
        "every row must keep what a row promises, and what no strict reader can accept must be told in a row.",
        ("format", "samples", "garbled bytes", "structure", "of these, must be told", "seconds"),
        rows,
        goals,
    )
