"""Each trap that was found in the observer paper's delivery: literally it fails, ours does not."""

import numpy as np

from ledto.delivery.batch import deliver_batch
from ledto.delivery.policies import CBD, Exact
from ledto.measures.violations import count_violations
from ledto.simulation import closest, simulate
from tests.delivery.records import from_columns

EPS = DELTA = 8


def runs(count, *, rate=0.3):
    """Small computations with much overtaking."""
    return [simulate(closest(5, EPS, DELTA, rate, messages=250), seed) for seed in range(count)]


def order_by(rows, delivered_at, key):
    return sorted(range(len(rows)), key=lambda i: (delivered_at[i], key(rows[i])))


def closed_form(rows, rule):
    """d(m) = min{ s >= arrival : every m' <= m that has arrived by s is due by s }, tried tick by tick."""
    found = []
    for m in rows:
        behind = [o for o in rows if rule.key(o) <= rule.key(m)]
        at = m.arrival
        while any(o.arrival <= at < rule.due(o) for o in behind):
            at += 1
        found.append(at)
    return found


def rescheduled_once(rows, rule):
    """The paper to the letter: a message takes over the time of a smaller one in the queue, and is then delivered."""
    at = {}
    scheduled = [max(m.arrival, rule.due(m)) for m in rows]
    moved = set()
    for now in range(min(m.arrival for m in rows), max(scheduled) + 1):
        queue = [i for i, m in enumerate(rows) if m.arrival <= now and i not in at]
        for i in sorted((i for i in queue if scheduled[i] <= now), key=lambda i: rule.key(rows[i])):
            smaller = [j for j in queue if j not in at and rule.key(rows[j]) < rule.key(rows[i])]
            if smaller and i not in moved:
                moved.add(i)
                scheduled[i] = max(now, rule.due(rows[smaller[0]]))
            if scheduled[i] <= now:
                at[i] = now
    return [at[i] for i in range(len(rows))]


def test_rescheduling_only_once_is_wrong():
    """Checked once, a message still overtakes smaller ones; checked until none is left, it is the closed form, and ours."""
    policy = CBD("0.2", EPS, DELTA)
    rule = policy.rule()
    once_pairs = ours_pairs = 0
    for reports, truth in runs(6):
        rows = from_columns(reports)
        ours = deliver_batch(reports, policy)
        assert ours.order.tolist() == order_by(rows, closed_form(rows, rule), rule.key)
        once = order_by(rows, rescheduled_once(rows, rule), rule.key)
        once_pairs += count_violations(truth, np.array(once)).pairs
        ours_pairs += count_violations(truth, ours.order).pairs
    assert once_pairs > ours_pairs


def test_exact_delivery_is_a_sort():
    """At the full wait the order is the sort by (r + c, kn[c], kn[c - 1], ..., process), and no cause comes too late."""
    policy = Exact(EPS, DELTA)
    key = policy.rule().key
    for reports, truth in runs(10):
        rows = from_columns(reports)
        order = deliver_batch(reports, policy).order
        assert order.tolist() == sorted(range(len(rows)), key=lambda i, rows=rows: key(rows[i]))
        assert count_violations(truth, order).pairs == 0


def test_inverted_pairs_lie_within_delta_plus_2_eps():
    """How wrong an order without waiting can be: a cause is never delivered more than that after its effect."""
    for reports, truth in runs(10):
        done = deliver_batch(reports, CBD(0, EPS, DELTA))
        rows = done.order.tolist()
        inverted = 0
        for place, effect in enumerate(rows):
            for later, cause in enumerate(rows[place + 1 :], place + 1):
                if truth.vector[effect, truth.process[cause]] >= truth.seq[cause]:
                    inverted += 1
                    assert done.at[later] - done.at[place] <= DELTA + 2 * EPS
        assert inverted
