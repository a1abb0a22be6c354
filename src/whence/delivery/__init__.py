"""Takes stamped reports; gives deliveries: each report in its place, how long it waited, what is missing before it.

- `whence.delivery.policies`: when to deliver, as data; `POLICIES` names them all.
- `whence.delivery.rules`: what a policy means: the order (`key`) and the due time (`due`) of a report.
- `whence.delivery.observer`: one report at a time, as they come.
- `whence.delivery.ses`: the same for reports with ordering stamps, which need no bounds on clocks and delays.
- `whence.delivery.batch`: a table of reports at once; the same deliveries, exactly.
- `whence.delivery.chunks`: the same again by spans of time that can run in parallel.
- `whence.delivery.gaps`: the messages known to be missing, for deliveries made in batch or by chunks.
- `whence.delivery.rows`: records to columns and back.
- `whence.delivery.orderings`: simpler orders, to compare with.

A delivery is a pure function of the reports: the same rows give the same deliveries, in the same order, however they
are cut into batches and whatever order rows of one arrival time come in. One literal record::

    Delivery(report=Report(process=3, seq=17, r=120, c=2, kn=(4, 1, 0), arrival=127), at=142, waited=15, late=False,
             early=False, missing=(Gap(process=3, have=14, need=16),))

The online observer imports neither NumPy nor numba; `batch`, `chunks` and `gaps` do.
"""
