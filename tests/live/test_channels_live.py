"""Messages that have no names are matched in a stream as in batch: the nth receive of a channel follows the nth send."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any
from unittest.mock import patch

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from ledto.causality.channel_tables import match_channels_in
from ledto.events.schema import REPORTS
from ledto.live import channel_state
from tests.live.channelled import Drawn, counted, draw_channels, reports_of
from tests.live.lined import truth_of
from tests.live.streams import BASE, DELTA, MS, terms
from tests.live.test_batch_is_live import Answers, as_they_come, at_once, differences

SEEDS = st.integers(0, 1 << 32)


def edges_that_differ(one: Answers, other: Answers) -> dict[str, object]:
    """What two histories say otherwise, but for what is missing: a stream knows what cannot have been lost by then."""
    return {name: each for name, each in differences(one, other).items() if name not in ("missing", "holes")}


def assert_true(said: Answers, drawn: Drawn) -> None:
    """Whatever was told as before was before, and what was before is told as before or not known."""
    true, number = true_past(drawn), Counter[str]()
    tainted = {}
    for row in drawn.rows:
        if row["id"] in said.wide:
            number[row["process"]] += 1
            first = said.holes[row["process"]][1]
            tainted[row["id"]] = first is not None and number[row["process"]] >= first
    for name, past in said.wide.items():
        assert past <= true[name], name
        if not tainted[name]:
            untold = {cause for cause in true[name] - past if not tainted.get(cause, True)}
            assert not untold, (name, untold)


@settings(max_examples=8, deadline=None)
@given(SEEDS, st.sampled_from((0.0, 0.0, 0.1, 0.4)), st.sampled_from((0.0, 0.0, 0.1)))
def test_channels_are_matched_in_a_stream_as_they_are_in_batch(seed: int, lost: float, unreported: float) -> None:
    """Or the live service says "not known" of all messages of a system that does not name them, and batch knows them."""
    random = Random(seed)
    drawn = draw_channels(random, events=random.choice((40, 160)), lost=lost)
    # A receive that was not reported, and has no number to show it, is as if its message had been lost.
    rows = renumbered([row for row in drawn.rows if row["kind"] != "receive" or random.random() >= unreported])
    table = reports_of(random, rows)
    named = match_channels_in(table)[0]
    whole = at_once(named, [])
    told = {row["id"]: row for row in table.to_pylist()}
    assert (whole.recorded, whole.wide) == truth_of(counted([told[row["id"]] for row in rows]))
    cuts = sorted(random.randint(1, 900) for _ in range(random.randint(1, 3)))
    assert differences(whole, at_once(named, cuts)) == {}
    given_terms = terms(close_rows=random.choice((4, 20, 60)))
    live = as_they_come(table, iter(lambda: random.randint(1, 40), 0), given_terms, random, settled=True)
    assert edges_that_differ(whole, live) == {}
    if not unreported:
        assert_true(whole, drawn)
        assert_true(live, drawn)


@settings(max_examples=8, deadline=None)
@given(SEEDS, st.sampled_from((0.0, 0.1)), st.sampled_from((1, 1, 3)))
def test_what_is_said_is_true_where_numbers_show_that_reports_were_lost(seed: int, lost: float, threads: int) -> None:
    """A send whose report was lost shifts all after it: each receive is then told to follow what was sent after it."""
    random = Random(seed)
    drawn = draw_channels(random, events=random.choice((40, 120)), lost=lost, threads=threads, numbered_share=1.0)
    last = {row["process"]: row["id"] for row in drawn.rows}
    rows = [row for row in drawn.rows if random.random() >= 0.08 or row["id"] in last.values()]
    table = reports_of(random, rows)
    named = match_channels_in(table)[0]
    whole = at_once(named, [])
    assert_true(whole, drawn)
    assert differences(whole, at_once(named, [random.randint(1, 900)])) == {}
    given_terms = terms(close_rows=random.choice((4, 20, 60)))
    live = as_they_come(table, iter(lambda: random.randint(1, 40), 0), given_terms, random, settled=True)
    assert all(past <= true_past(drawn)[name] for name, past in live.wide.items())
    if threads == 1:
        assert_true(live, drawn)
        assert all(past <= whole.wide[name] for name, past in live.wide.items())


@settings(max_examples=6, deadline=None)
@given(SEEDS, st.sampled_from((0.0, 0.2)))
def test_what_a_stream_says_of_threads_that_share_a_channel_is_true(seed: int, lost: float) -> None:
    """A match that a loss can shift to another thread is a guess: told as a cause, it blames whoever sent next."""
    random = Random(seed)
    drawn = draw_channels(random, events=random.choice((40, 120)), lost=lost, threads=4)
    table = reports_of(random, drawn.rows)
    true = true_past(drawn)
    given_terms = terms(close_rows=random.choice((4, 20, 60)))
    live = as_they_come(table, iter(lambda: random.randint(1, 40), 0), given_terms, random, settled=True)
    assert all(past <= true[name] for name, past in live.wide.items())


def test_what_is_forgotten_is_missing_and_nothing_is_matched_wrongly() -> None:
    """Lost messages pile up for as long as a stream goes on, and every connection is a channel: both must be forgotten some
    time, and who then goes on counting as if nothing had happened names the wrong causes."""
    for limit, value in (("MOST_UNDER_WAY", 5), ("MOST_CHANNELS", 1)):
        lacking = 0
        for seed in (2, 3, 4):
            random = Random(seed)
            drawn = draw_channels(random, events=120, lost=0.2)
            true = true_past(drawn)
            with patch.object(channel_state, limit, value):
                table = reports_of(random, drawn.rows, twice=0)
                live = as_they_come(table, iter(lambda: 20, 0), terms(close_rows=8), random, settled=True)
            assert all(past <= true[name] for name, past in live.wide.items())
            lacking += len(live.missing)
        assert lacking


def test_second_and_late_reports_do_not_shift_what_follows() -> None:
    """One report that comes again, or late, would otherwise give every later receive of its channel the wrong send."""
    rows = []
    for number in range(1, 13):
        at = BASE + number * 100 * MS
        common = {"computation": "", "channel_key": "a>b", "file": "f", "place": number, "seq": number}
        rows.append({**common, "process": "a", "kind": "send", "time": at, "arrival": at, "id": f"s{number}"})
        rows.append(
            {**common, "process": "b", "kind": "receive", "time": at + MS, "arrival": at + MS, "id": f"r{number}"}
        )
    again = [{**row, "arrival": row["arrival"] + wait} for row in rows[2:8] for wait in (DELTA // 2, 10 * DELTA)]
    rows[4]["arrival"] += DELTA
    late = [row for row in rows if row["id"] in ("s7", "r9")]
    for row in late:
        row["arrival"] += 4 * DELTA
    table = pa.Table.from_pylist(sorted([*rows, *again], key=lambda row: row["arrival"]), REPORTS)
    live = as_they_come(table, iter(lambda: 2, 0), terms(close_rows=4), Random(1), settled=True)
    assert {name for name in live.missing if name != "r9"} <= {
        "s7",
        "r7",
        "r8",
        *(f"r{number}" for number in range(9, 13)),
    }
    for number in range(1, 7):
        assert f"s{number}" in live.recorded[f"r{number}"], number
    for number in (10, 11, 12):
        assert f"s{number + 1}" not in live.wide[f"r{number}"]


def renumbered(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows, in which no number is left out."""
    count = Counter[str]()
    found = []
    for row in rows:
        count[row["process"]] += 1
        found.append(row | {"seq": None if row["seq"] is None else count[row["process"]]})
    return found


def true_past(drawn: Drawn) -> dict[str, set[str]]:
    """By event: all that truly was before it."""
    past: dict[str, set[str]] = {}
    last: dict[str, str] = {}
    for row in drawn.rows:
        causes = {*drawn.took[row["id"]], *([last[row["process"]]] if row["process"] in last else [])}
        past[row["id"]] = causes.union(*(past[cause] for cause in causes))
        last[row["process"]] = row["id"]
    return past
