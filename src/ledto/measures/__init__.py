"""Take deliveries and the truth; give how often the order is wrong, and how long deliveries waited.

- `ledto.measures.violations`: how often an order contradicts happened-before, exactly.
- `ledto.measures.inversions`: the same for stored events, without a vector for each.
- `ledto.measures.delays`: percentiles of how long deliveries waited, of all at once or added up.
- `ledto.measures.stamp_bytes`: the size of a bounded stamp on the wire.

`ledto.skew` measures clocks. One literal record::

    Violations(messages=1000, before_cause=31, after_effect=18, involved=49, pairs=44)
"""
