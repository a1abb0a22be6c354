"""Delivery by recorded stamps: exact without losses, flagged with them, and a pure function of the reports."""

from random import Random

import pytest

from ledto.clocks import OrderingClock
from ledto.delivery.ses import SES, OrderedReport, SesObserver
from ledto.testing import TrueHistory


def reported(seed, *, loss):
    """Reports of a random computation, each with the number of its send event in the truth; all go to the observer."""
    random = Random(seed)
    clocks = {name: OrderingClock(name) for name in ("a", "b", "c")}
    truth, last, inbox, reports = TrueHistory(), dict.fromkeys(clocks), {name: [] for name in clocks}, {}
    for now in range(60):
        name = random.choice(list(clocks))
        if inbox[name] and random.random() < 0.5:
            stamp, cause = inbox[name].pop(random.randrange(len(inbox[name])))
            if clocks[name].try_deliver(stamp):
                last[name] = truth.add("deliver", last[name], cause)
            continue
        other = random.choice([n for n in clocks if n != name])
        stamp = clocks[name].send(other)
        last[name] = truth.add("send", last[name])
        inbox[other].append((stamp, last[name]))
        last[name] = truth.add("report", last[name])
        report = OrderedReport(clocks[name].send("observer"), now + random.randint(0, 30))
        if random.random() >= loss:
            reports[report] = last[name]
    return truth, reports


def delivered(reports, policy, random):
    """Deliveries when the reports of one tick come in a random order, some of them twice."""
    observer = SesObserver(policy)
    rows = sorted(reports, key=lambda report: (report.arrival, random.random()))
    out = []
    for report in rows:
        out += observer.offer(report, report.arrival)
        if random.random() < 0.2:
            out += observer.offer(report, report.arrival)
    out += observer.flush()
    assert observer.waiting == 0
    return out


@pytest.mark.parametrize("seed", range(40))
def test_order_is_exact_without_losses(seed):
    """Clocks play no part: however reports overtake each other, no effect is shown before its cause."""
    truth, reports = reported(seed, loss=0)
    out = delivered(reports, SES(10_000), Random(seed))
    assert len(out) == len(reports)
    assert not any(d.late or d.missing for d in out)
    events = [reports[d.report] for d in out]
    assert not any(truth.precedes(b, a) for i, a in enumerate(events) for b in events[i + 1 :])


@pytest.mark.parametrize("seed", range(40))
def test_losses_delay_by_the_timeout_at_most_and_are_named(seed):
    """A lost report must neither block the stream nor pass unnoticed."""
    truth, reports = reported(seed, loss=0.2)
    out = delivered(reports, SES(7), Random(seed))
    assert len(out) == len(reports)
    assert all(0 <= d.waited <= 7 for d in out)
    events = [reports[d.report] for d in out]
    for i, d in enumerate(out):
        overtaken = any(truth.precedes(events[i], earlier) for earlier in events[:i])
        assert d.late == overtaken


@pytest.mark.parametrize("seed", range(20))
def test_deliveries_do_not_depend_on_the_order_within_a_tick(seed):
    """The same reports give the same deliveries, however a batch was cut or a network shuffled them."""
    _, reports = reported(seed, loss=0.1)
    assert delivered(reports, SES(5), Random(1)) == delivered(reports, SES(5), Random(2))


def test_wrong_values_are_refused():
    """A time-out that means nothing is told so."""
    with pytest.raises(ValueError, match="timeout is a whole number"):
        SES(-1)
    with pytest.raises(ValueError, match="unit is one of"):
        SES(5, unit="fortnight")
