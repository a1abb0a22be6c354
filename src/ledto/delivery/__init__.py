"""Take stamped reports and a policy; give deliveries: when each came out, how long it waited, what is missing before it.

- `ledto.delivery.policies`: when to deliver, as data; `POLICIES` has them all by name. A policy's `DeliveryRule` gives a
  report its place in the order (`key`) and the tick when it is due (`due`). A report that arrives after that is *late*.
- `ledto.delivery.observer`: deliver one report at a time, as they come.
- `ledto.delivery.ses`: the same for reports with ordering stamps, which need no bounds on clocks and delays.
- `ledto.delivery.batch`: deliver a table of reports at once; the same deliveries, exactly.
- `ledto.delivery.stamped`: deliver rows of a history under several policies; the same deliveries again.
- `ledto.delivery.seen`, `.duplicates`: reports that come more than once, one by one and in a table.
- `ledto.delivery.sort`, `.queue_kernel`: the inner loops of both.
- `ledto.delivery.reference_orders`: the order of arrival, to compare with.

A delivery is a pure function of the reports: the same rows give the same deliveries, in the same order, however they
are cut into batches and in whatever order rows of one arrival time come. One literal record:

    >>> from ledto.delivery.observer import Delivery, Gap, Report
    >>> report = Report(process=3, seq=17, r=120, c=2, kn=(4, 1, 0), arrival=127)
    >>> delivery = Delivery(report, at=142, waited=15, late=False, early=False, missing=(Gap(process=3, have=14, need=16),))
    >>> delivery.at - delivery.report.arrival == delivery.waited
    True

The online observer imports neither NumPy nor numba; `batch` and `stamped` do.
"""
