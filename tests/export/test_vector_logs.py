from __future__ import annotations

import json
import re
from collections import defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledto.export import names as spelling
from ledto.export.names import escape_host, escape_line
from tests.export.returning import NAMES, PROCESSES, exported, hard_history, selections

# ShiViz's expressions with what JavaScript means by a dot and a blank, which Python does not.
DOT = r"[^\n\r\u2028\u2029]"
WORD = r"[^\s\ufeff]"
SHIVIZ = re.compile(rf"(?P<event>{DOT}*)\n(?P<host>{WORD}*) (?P<clock>\{{{DOT}*\}})", re.MULTILINE)
GOVECTOR = re.compile(rf"(?P<host>{WORD}*) (?P<clock>\{{{DOT}*\}})\n(?P<event>{DOT}*)", re.MULTILINE)
DELIMITER = re.compile(rf"^=== ({DOT}*) ===$", re.MULTILINE)

Clock = dict[str, int]


def executions(log: str) -> dict[str, str]:
    """The text of each execution by its label, as ShiViz cuts a log; labels must differ."""
    first, *rest = DELIMITER.split(log.strip())
    if not rest:
        return {"": first}
    assert not first.strip()
    labels = rest[::2]
    assert len(set(labels)) == len(labels)
    return dict(zip(labels, rest[1::2], strict=True))


def accepted(text: str, expression: re.Pattern[str]) -> dict[str, list[tuple[str, Clock]]]:
    """The events by host, by the rules under which ShiViz accepts an execution.

    It looks for the next match wherever it begins; a clock counts its own host; a host's events count 1, 2, 3 ...; other
    entries are of hosts that log, and of events that they log; and a clock is what the causes it names add up to.
    """
    hosts: dict[str, list[tuple[str, Clock]]] = defaultdict(list)
    for found in expression.finditer(text):
        clock = json.loads(found["clock"])
        assert found["host"] in clock
        hosts[found["host"]].append((found["event"], clock))
    assert hosts
    for name, events in hosts.items():
        events.sort(key=lambda event: event[1][name])
        assert [clock[name] for _, clock in events] == [*range(1, len(events) + 1)]
        known: Clock = {}
        for _, clock in events:
            for other, count in clock.items():
                assert 1 <= count <= len(hosts[other])
            causes = [known, *(hosts[o][n - 1][1] for o, n in clock.items() if o != name and n > known.get(o, 0))]
            added_up = {o: max(each.get(o, 0) for each in causes) for each in causes for o in each}
            assert {**added_up, name: clock[name]} == clock
            known = clock
    return hosts


@pytest.mark.parametrize(
    ("format", "expression"), [("shiviz", SHIVIZ), ("govector", GOVECTOR)], ids=["shiviz", "govector"]
)
@settings(max_examples=12)
@given(seed=st.integers(0, 2**32))
def test_shiviz_accepts_the_log(format: str, expression: re.Pattern[str], seed: int) -> None:
    """A log that ShiViz refuses, or reads an event of too little or too much from, is of no use to anyone."""
    with hard_history(seed) as (history, events, random, _):
        for selection, kept in selections(history, events, random):
            log = exported(history, format, selection=selection).decode()
            several = len({event.computation for event in kept}) > 1
            texts: dict[tuple[str, str], list[str]] = defaultdict(list)
            for event in kept:
                label = escape_host(event.computation) if several else ""
                texts[label, escape_host(event.process)].append(escape_line(event.name or event.key))
            read = {
                (label, name): [text for text, _ in found]
                for label, execution in executions(log).items()
                for name, found in accepted(execution, expression).items()
            }
            assert read == texts


def test_spelt_names_stay_apart() -> None:
    """Two processes that become one would be a third that never was."""
    names = [*PROCESSES, "", *(escape_host(name) for name in PROCESSES)]
    assert len({escape_host(name) for name in names}) == len(set(names))
    assert all(re.fullmatch(f"{WORD}+", escape_host(name)) for name in names)
    # ShiViz asks an object of JavaScript whether it has a member of the host's name, and it always has these.
    assert not {escape_host(name) for name in ("constructor", "toString", "__proto__")} & {
        "constructor",
        "toString",
        "__proto__",
    }


@given(st.one_of(st.sampled_from([name or "" for name in NAMES]), st.text("{} =\\a\n\u2028", max_size=12), st.text()))
def test_no_text_is_taken_for_a_clock_or_a_delimiter(text: str) -> None:
    """An event's text may be anything, even what looks like the next line of the log."""
    spelt = escape_line(text)
    assert re.fullmatch(f"{DOT}*", spelt)
    assert not re.match(rf"{WORD}* \{{.*\}}", spelt)
    assert not DELIMITER.match(spelt)
    assert escape_line("order placed {7") == "order placed {7"


def test_the_expressions_are_those_of_shiviz_and_govector() -> None:
    """Whoever leaves ShiViz's settings as they are gets a diagram."""
    assert spelling.REGEX == r"(?<event>.*)\n(?<host>\S*) (?<clock>{.*})"
    assert spelling.GOVECTOR_REGEX == r"(?<host>\S*) (?<clock>{.*})\n(?<event>.*)"
