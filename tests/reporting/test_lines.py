from __future__ import annotations

import asyncio
import contextvars
import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledto.reporting import Reporter
from tests.reporting.lines_truth import Agent, pasts, recorded
from tests.reporting.sink import Sink, serving

QUICK: dict[str, Any] = {"linger_s": 0.005, "retry_s": (0.005, 0.02)}


@contextmanager
def reporting(**options: Any) -> Iterator[tuple[Reporter, list[dict[str, Any]]]]:
    """A reporter, and what it reported once this is left."""
    sink, events = Sink(), list[dict[str, Any]]()
    with serving(sink) as url:
        with Reporter("app", endpoint=url, **QUICK, **options) as reporter:
            yield reporter, events
            assert reporter.flush(30)
        events.extend(sink.events())
    assert sorted(event["seq"] for event in events) == list(range(1, len(events) + 1)), "numbers are the process's"


async def act(reporter: Reporter, agent: Agent, draw: random.Random, depth: int) -> Agent:
    """Do random things that report, start and join."""
    started: list[asyncio.Task[Agent]] = []
    loose: list[Any] = []
    for _ in range(draw.randrange(1, 7)):
        what = draw.choice(["report", "report", "pause", "start", "join", "block", "gather", "thread", "callback"])
        if what == "report":
            agent.report()
        elif what == "pause":
            for _ in range(draw.randrange(4)):
                await asyncio.sleep(0)
        elif what == "join" and started:
            agent.joined(await reporter.join(started.pop(draw.randrange(len(started)))))
        elif what == "block":
            with reporter.line("block"):
                # The same agent: a block is one thing after the other.
                await act_on(reporter, agent, draw, depth)
        elif what == "thread":
            loose.append(asyncio.create_task(asyncio.to_thread(agent.started().report)))
        elif what == "callback":
            done = asyncio.Event()
            other = agent.started()
            asyncio.get_running_loop().call_soon(lambda other=other, done=done: (other.report(), done.set()))
            loose.append(asyncio.ensure_future(done.wait()))
        elif what == "start" and depth:
            started.append(asyncio.create_task(act(reporter, agent.started(), draw, depth - 1)))
        elif what == "gather" and depth:
            for each in await reporter.gather(*(act(reporter, agent.started(), draw, depth - 1) for _ in range(2))):
                agent.joined(each)
    # Awaited, and not joined: nothing says that the reporter has seen it.
    await asyncio.gather(*started, *loose)
    return agent


async def act_on(reporter: Reporter, agent: Agent, draw: random.Random, depth: int) -> None:
    for _ in range(draw.randrange(3)):
        agent.report()
        await asyncio.sleep(0)
    if depth and draw.random() < 0.5:
        agent.joined(await reporter.join(act(reporter, agent.started(), draw, depth - 1)))
    if draw.random() < 0.3:
        with reporter.line("inner"):
            agent.report()


@settings(max_examples=40)
@given(st.integers(0, 2**32))
def test_exactly_what_happened_one_after_the_other_is_recorded(seed: int) -> None:
    """A false "before" blames an innocent request; a missing one hides what led to a failure."""
    causes: dict[str, set[str]] = {}
    with reporting() as (reporter, events):

        async def main() -> None:
            # 30 at once, in turns.
            draw = random.Random(seed)
            root = Agent(reporter, causes)
            root.report()
            await asyncio.gather(*(act(reporter, root.started(), draw, 2) for _ in range(30)))

        asyncio.run(main())
    truth = pasts(causes)
    assert recorded(events) == truth
    assert len(truth) > 30


def by_name(events: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {event["name"]: event for event in events}


def test_threads_are_lines_of_their_own_that_claim_nothing() -> None:
    """Python does not tell a thread who started it: a guess would be a false cause."""
    with reporting() as (reporter, events):
        reporter.report("before")
        turn = threading.Barrier(3)

        def work(number: int) -> None:
            for step in range(5):
                turn.wait()
                reporter.report(f"{number} step {step}")

        threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        reporter.report("after")
    past = recorded(events)
    for number in range(3):
        for step in range(5):
            assert past[f"{number} step {step}"] == {f"{number} step {each}" for each in range(step)}
    assert past["after"] == {"before"}
    assert len({event["line"] for event in events}) == 4


def test_blocks_follow_each_other_and_jobs_that_are_apart_do_not() -> None:
    """What came of a block is known after it; the jobs of a worker have nothing to do with each other."""
    with reporting() as (reporter, events):
        with reporter.line("first"):
            reporter.report("a")
            with reporter.line("inner"), reporter.line("empty"), reporter.line("innermost"):
                reporter.report("b")

        def fail() -> None:
            with reporter.line("second"):
                reporter.report("c")
                raise ValueError("no")

        with pytest.raises(ValueError, match="no"):
            fail()
        for job in range(3):
            with reporter.line("job", apart=True):
                reporter.report(f"job {job}")
        reporter.report("d")
    past = recorded(events)
    assert past == {
        "a": set(),
        "b": {"a"},
        "c": {"a", "b"},
        "d": {"a", "b", "c"},
        "job 0": set(),
        "job 1": set(),
        "job 2": set(),
    }
    rows = by_name(events)
    assert rows["d"]["line"].startswith("main #")
    assert rows["d"]["line_joins"] == [rows["c"]["line"]]
    assert rows["c"]["line"].startswith("second #")
    assert len({rows[f"job {job}"]["line"] for job in range(3)}) == 3


def test_a_worker_that_joins_for_ever_and_never_reports_keeps_little() -> None:
    """The names of all jobs of a year would fill the memory, and the next report."""
    with reporting() as (reporter, events):
        for _ in range(300):
            with reporter.line("job"):
                reporter.report("work")
        reporter.report("end")
    assert all(len(event.get("line_joins", ())) <= 1 for event in events)


def test_who_starts_tasks_for_ever_has_names_of_bounded_length() -> None:
    """A server that starts a task for every connection would have longer names each time, and at last the same ones."""
    with reporting() as (reporter, events):

        async def main() -> None:
            for _ in range(500):
                reporter.report("accepted")
                task = asyncio.create_task(asyncio.sleep(0))
                reporter.report("started")
                await task

        asyncio.run(main())
    lines = {event["line"] for event in events}
    assert len(lines) == 501
    assert max(map(len, lines)) < 40
    assert [len(past) for past in recorded(numbered(events)).values()] == list(range(1000))


def numbered(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same events under names of their own."""
    return [{**event, "name": f"{event['name']} {event['seq']}"} for event in events]


def test_a_task_that_fails_or_goes_on_is_joined_only_if_its_end_was_seen() -> None:
    """An order of events that nobody has seen must not be told."""
    with reporting() as (reporter, events):

        async def fail(name: str) -> None:
            reporter.report(name)
            raise ValueError(name)

        async def wait(go: asyncio.Event) -> None:
            reporter.report("waits")
            await go.wait()
            reporter.report("goes on")

        async def main() -> None:
            reporter.report("start")
            go = asyncio.Event()
            going = asyncio.create_task(wait(go))
            with pytest.raises(ValueError, match="fails"):
                await reporter.gather(going, fail("fails"))
            reporter.report("one is over")
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(reporter.join(asyncio.shield(going)), 0)
            reporter.report("still one")
            results = await reporter.gather(fail("fails, too"), return_exceptions=True)
            assert [type(each) for each in results] == [ValueError]
            reporter.report("two are over")
            go.set()
            await reporter.join(going)
            reporter.report("all are over")

        asyncio.run(main())
    past = recorded(events)
    assert past["one is over"] == {"start", "fails"}
    assert past["still one"] == {"start", "fails", "one is over"}
    assert past["two are over"] == {"start", "fails", "one is over", "still one", "fails, too"}
    assert past["goes on"] == {"start", "waits"}
    assert past["all are over"] == set(past) - {"all are over"}


def test_tasks_that_share_a_context_do_not_take_each_other_for_their_past() -> None:
    """Test clients and runners do this: the lines of two tasks that take turns must not become one."""
    with reporting() as (reporter, events):

        async def work(name: str) -> None:
            for step in range(4):
                reporter.report(f"{name} {step}")
                await asyncio.sleep(0)

        async def main() -> None:
            shared = contextvars.copy_context()
            loop = asyncio.get_running_loop()
            await asyncio.gather(*(loop.create_task(work(name), context=shared) for name in "ab"))

        asyncio.run(main())
    past = recorded(events)
    for step in range(4):
        assert past[f"a {step}"] == {f"a {each}" for each in range(step)}
        # The first task had reported in that context when the second one came to it; no more than that is believed.
        assert past[f"b {step}"] == {"a 0", *(f"b {each}" for each in range(step))}


FORKING = """
import os, sys
from ledto.reporting import Reporter
reporter = Reporter("app", endpoint=sys.argv[1], linger_s=0.005, **({"incarnation": sys.argv[2]} if sys.argv[2:] else {}))
with reporter.line("setup"):
    reporter.report("loaded")
    child = os.fork()
    if child:
        os.waitpid(child, 0)
    with reporter.line("work"):
        reporter.report("child works" if not child else "parent works")
reporter.report("child ends" if not child else "parent ends")
assert reporter.close(30)
if not child:
    os._exit(0)
"""


def test_a_forked_child_has_lines_of_its_own_that_follow_the_fork() -> None:
    """The same name for lines of two processes, or of two starts, would make one of what are two."""
    sink = Sink()
    with serving(sink) as url:
        for _ in range(2):
            subprocess.run([sys.executable, "-c", FORKING, url], check=True, timeout=60)
    events = sink.events()
    assert len(events) == 2 * (4 + 3)
    for event in events:
        if event["name"] == "ledto.fork":
            event["name"] += f" {event['kind']} {event['process']}"
    processes = list(dict.fromkeys(event["process"] for event in events))
    assert len(processes) == 4
    lines = {(event["process"], event["line"]) for event in events}
    assert len({name for _, name in lines}) == len(lines), "no name twice, also not in another process"
    for start in (0, 7):
        past = {name.partition(" app@")[0]: each for name, each in recorded(events[start : start + 7]).items()}
        told = {name: {each.partition(" app@")[0] for each in each_past} for name, each_past in past.items()}
        sent, received = "ledto.fork send", "ledto.fork receive"
        assert told["child works"] == {"loaded", sent, received}
        assert told["child ends"] >= {"loaded", sent, received}
        assert told["parent works"] == {"loaded", sent}
        assert told["parent ends"] == {"loaded", sent, "parent works"}


def test_a_restart_under_the_same_name_has_other_lines() -> None:
    """Who names starts himself, and repeats himself, must not find two requests made one."""
    lines = []
    for _ in range(2):
        with reporting(incarnation="") as (reporter, events):
            reporter.report("started")
            with reporter.line("request"):
                reporter.report("served")
        lines.append({event["line"] for event in events})
        assert {event["process"] for event in events} == {"app"}
    assert not lines[0] & lines[1]
