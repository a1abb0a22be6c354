"""Measure deliveries against the truth, and clocks against each other.

- `whence.measures.violations`: how often an order contradicts happened-before, exactly.
- `whence.measures.inversions`: the same for stored events, without a vector for each.
- `whence.measures.delays` and `waits`: percentiles of how long deliveries waited, of all at once or added up.
- `whence.measures.stamp_bytes`: the size of a bounded stamp on the wire.
- `whence.skew.offsets`: how far each clock is from the others, by the messages between them (`clock_pairs`).
- `whence.skew.same_clocks`: which clocks cannot be told apart.

One literal record::

    Violations(messages=1000, before_cause=31, after_effect=18, involved=49, pairs=44)
"""
