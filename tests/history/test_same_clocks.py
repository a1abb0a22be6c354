"""Which clocks of traces cannot be told apart, against the spans themselves, for every cutting."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from ledto.history.clocks.answered import find_answered
from ledto.history.window.edges import LONGEST_ANSWER
from ledto.questions import History
from tests.skew.test_same_clocks import MS, Told, found
from tests.sources.otlp_requests import NOON_NS, Json, attributes, lines, of_spans, span
from tests.spark.running import observe

SERVICES = ("oweb", "oorders", "opay")
CLIENT, SERVER = 3, 2


def traces(random: Random, ahead: dict[str, int], count: int, every: int) -> tuple[list[Json], list[Told], list[Told]]:
    """Exports of `count` orders, one `every` so often, and what their clients and servers show of the clocks.

    Servers end after they answered, up to 40 ms later. Every seventh client gives up before its server begins.
    """
    spans: dict[str, list[Json]] = {name: [] for name in SERVICES}
    requests: list[Told] = []
    answers: list[Told] = []
    for number in range(count):
        now, parent = NOON_NS + number * every, None
        for client, server in pairwise(SERVICES):
            gives_up = random.randrange(7) == 0
            began = now + random.randrange(MS // 10, 3 * MS)
            ended = now + MS // 11 if gives_up else began + random.randrange(MS // 5, 9 * MS)
            over = began + (MS // 10 if gives_up else random.randrange(MS // 10, 40 * MS))
            ids = [f"{2 * len(requests) + each:016x}" for each in (1, 2)]
            of_trace = {"traceId": f"{number + 1:032x}"}
            for name, kind, key, cause, start, end in (
                (client, CLIENT, ids[0], parent, now, ended),
                (server, SERVER, ids[1], ids[0], began, over),
            ):
                spans[name].append(
                    span(
                        **of_trace,
                        spanId=key,
                        parentSpanId=cause or ...,
                        kind=kind,
                        startTimeUnixNano=str(start + ahead[name]),
                        endTimeUnixNano=str(end + ahead[name]),
                        status={"code": 2} if gives_up and kind == CLIENT else ...,
                    )
                )
            requests.append((client, server, now + ahead[client], began + ahead[server]))
            # A server that lasts much longer than its client waited is not taken to have answered it.
            if not gives_up and over - began <= LONGEST_ANSWER * (ended - now):
                answers.append((server, client, began + ahead[server], ended + ahead[client]))
            now, parent = began, ids[1]
    resource = {name: {"attributes": attributes(service__name=name)} for name in SERVICES}
    return [of_spans(*own, resource=resource[name]) for name, own in spans.items()], requests, answers


def observed(exports: list[Json], folder: Path, epoch_rows: int) -> History:
    (folder / "spans.jsonl").write_bytes(lines(*exports))
    place = folder / str(epoch_rows)
    observe(None, [str(folder / "spans.jsonl")], place, format="otlp", epoch_rows=epoch_rows)
    return History(place)


@pytest.mark.parametrize(("wrong", "alike"), [(0, SERVICES), (5 * MS, ("oweb", "oorders"))])
def test_services_on_one_clock_are_said_to_be_wherever_the_history_is_cut(
    wrong: int, alike: tuple[str, ...], tmp_path: Path
) -> None:
    """Spans tell of no answers, so it takes when servers began: their ends, or clients that gave up, would deny it."""
    exports, requests, answers = traces(Random(3), {"oweb": 0, "oorders": 0, "opay": wrong}, 150, 100 * MS)
    expected = found(requests, answers)
    assert [set(each.names) for each in expected] == [set(alike)]
    for epoch_rows in (10_000, 60):
        history = observed(exports, tmp_path, epoch_rows)
        assert (len(history.run.segments) > 3) == (epoch_rows == 60)
        assert history.clocks().same == expected


def test_the_beginning_of_a_server_is_found_in_whichever_segment_it_is(tmp_path: Path) -> None:
    """The quickest answer may be one that a cut goes through; without it the bound would depend on the cutting."""
    exports, _, _ = traces(Random(3), dict.fromkeys(SERVICES, 0), 150, 100 * MS)
    history = observed(exports, tmp_path, 60)
    events = {event.id: event for event in history.order()}
    starts = {event.position: events[f"{event.id}/start"] for event in events.values() if f"{event.id}/start" in events}
    segments = history.run.segments
    elsewhere = 0
    for number in range(len(segments)):
        found_here = find_answered(history.run, number)
        begun = [starts[position] for position in found_here.server.tolist()]
        assert found_here.began.tolist() == [event.time for event in begun]
        elsewhere += sum(segments.segment_of(event.position) != number for event in begun)
    assert elsewhere


def test_what_is_told_of_busy_services_is_true(tmp_path: Path) -> None:
    """With many orders at once, some answers are in doubt and not used: less may be told then, and nothing that is false."""
    ahead = {"oweb": 0, "oorders": MS // 10, "opay": 5 * MS}
    exports, requests, answers = traces(Random(3), ahead, 150, 4 * MS)
    [best] = found(requests, answers)
    [same] = observed(exports, tmp_path, 10_000).clocks().same
    assert same.names == best.names == ("oorders", "oweb")
    assert MS // 10 <= best.apart <= same.apart
