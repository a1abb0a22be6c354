"""Takes deliveries and the truth; gives numbers: violations of causal order, delays, buffer occupancy, stamp sizes.

- `whence.measures.violations`: how often an order contradicts happened-before, exactly.
- `whence.measures.windows`: the same by windows that can run in parallel.
- `whence.measures.delays`: percentiles of how long deliveries waited.
- `whence.measures.occupancy`: how many reports the observer held.
- `whence.measures.stamp_bytes`: what a bounded stamp costs on the wire.

One literal record::

    Violations(messages=1000, before_cause=31, after_effect=18, involved=49, pairs=44, reach=57)
"""
