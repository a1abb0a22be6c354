"""``make bench``: run every benchmark, or those named, and write `docs/benchmarks.md`."""

from __future__ import annotations

import sys
import time

from benchmarks import (
    clocks,
    collector,
    find,
    fuzzing,
    growth,
    killing,
    observer,
    otlp,
    pipeline,
    questions,
    readers,
    receive,
    reproduction,
    rpc,
    sizes,
    start,
    streaming,
    streaming_delay,
    streaming_silence,
    streaming_state,
    streams,
    texts,
    traces,
    truth,
)
from benchmarks.histories import is_trial
from benchmarks.report import PAGE, machine, write

BENCHMARKS = {
    "rpc": rpc.section,
    "receive": receive.section,
    "sizes": sizes.section,
    "truth": truth.section,
    "simulation": observer.simulation,
    "delivery": observer.delivery,
    "violations": observer.violations,
    "reproduction": reproduction.section,
    "pipeline": pipeline.section,
    "texts": texts.section,
    "traces": traces.section,
    "start": start.section,
    "questions": questions.section,
    "find": find.section,
    "growth": growth.section,
    "clocks": clocks.section,
    "otlp": otlp.section,
    "readers": readers.section,
    "fuzzing": fuzzing.section,
    "collector": collector.section,
    "streaming": streaming.section,
    "streaming-state": streaming_state.section,
    "streaming-delay": streaming_delay.section,
    "streaming-silence": streaming_silence.section,
    "streams": streams.section,
    "killing": killing.section,
}


def main(names: list[str]) -> int:
    """Run the named benchmarks, all without a name."""
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        print(f"no benchmark is called {unknown[0]!r}; there are: {', '.join(BENCHMARKS)}", file=sys.stderr)
        return 2
    missed = 0
    print(machine())
    for name in names or BENCHMARKS:
        start = time.perf_counter()
        print(f"{name} ...", flush=True)
        section = BENCHMARKS[name]()
        if is_trial():
            print(section.markdown())
        else:
            write(name, section)
        for goal in section.goals:
            missed += not goal.met
            print(f"  {'met   ' if goal.met else 'MISSED'} {goal.text}: {goal.reached}")
        print(f"  {time.perf_counter() - start:.0f} s")
    written = "a trial, not written" if is_trial() else f"written to {PAGE.relative_to(PAGE.parent.parent)}"
    print(f"{written}; {missed} goals missed")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
