"""Measure deliveries against the truth, and clocks against each other.

- `ledto.measures.violations`: how often an order contradicts happened-before, exactly.
- `ledto.measures.inversions`: the same for stored events, without a vector for each.
- `ledto.measures.delays` and `waits`: percentiles of how long deliveries waited, of all at once or added up.
- `ledto.measures.stamp_bytes`: the size of a bounded stamp on the wire.
- `ledto.skew.offsets`: how far each clock is from the others, by the messages between them (`clock_pairs`).
- `ledto.skew.same_clocks`: which clocks cannot be told apart.

One literal record::

    Violations(messages=1000, before_cause=31, after_effect=18, involved=49, pairs=44)
"""
