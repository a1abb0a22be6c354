from __future__ import annotations

from itertools import pairwise

from examples.three_services import play
from tests.reporting.reachability import event_id, pasts
from tests.reporting.sink import Sink, serving


def test_the_reports_tell_what_led_to_the_failure_and_wall_clocks_do_not() -> None:
    """What this project is for: the cause is found over real gRPC and HTTP, though every clock is wrong."""
    sink = Sink()
    with serving(sink) as url:
        truth = play(url, incarnation="1")
    events = {event_id(event): event for event in sink.events()}
    past = pasts(events.values())

    assert events[truth.failure]["name"] == "order.failed"
    chain = [*truth.causes, truth.failure]
    assert [events[name]["name"] for name in chain] == [
        "order.placed",
        "payment.asked",
        "stock.none_left",
        "payment.refused",
        "order.failed",
    ]
    for cause, effect in pairwise(chain):
        assert cause in past[effect]
        assert effect not in past[cause]
    for bystander in truth.bystanders:
        assert bystander not in past[truth.failure]
        assert truth.failure not in past[bystander]

    by_wall_time = sorted(events, key=lambda name: events[name]["time"])
    place = by_wall_time.index(truth.failure)
    none_left = truth.causes[2]
    assert by_wall_time.index(none_left) > place, "by wall clocks the cause comes after its effect"
    assert all(by_wall_time.index(name) < place for name in truth.bystanders)

    # Each of the two orders is four messages: two requests and two replies, nothing unstamped among them.
    assert sum(event["kind"] == "send" for event in events.values()) == 8
    assert sum(event["kind"] == "receive" for event in events.values()) == 8
    stamps = {name: (event["stamp"]["time"], event["process"]) for name, event in events.items()}
    for effect, causes in past.items():
        assert all(stamps[cause] < stamps[effect] for cause in causes)
