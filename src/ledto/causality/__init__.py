"""Take reports of one computation; give their causal order, and what can have led to what. NumPy and kernels only.

From rows of reports to a segment of a history:

- `canonical`, `order`, `place`: each event once, causes before effects; messages that form a cycle are reported;
- `channels`, `channel_tables`: match sends and receives of messages that have no keys;
- `lines`: what each event follows in its own process;
- `corrected_times`, `bounded_stamps`: wall times that respect causality, and bounded stamps for events without.

From segments to answers:

- `skeleton`: what is stored of a segment's order; `boundary`: what is known where it begins;
- `vector_clocks`, `column_blocks`, `forward`: vector clocks, and `Scan`, which computes the boundaries of all segments;
- `pairs`: whether one event happened before another, for many pairs at once;
- `sweeps`: the past and the future of one event; `recorded_past`, `paths`: the same along lines and messages;
- `taint`: events that may have unknown causes; `in_flight`: messages that cross a cut.

One literal record, a segment of three rows:

    >>> import numpy as np
    >>> from ledto.causality.vector_clocks import Boundary, Skeleton, vector_clocks
    >>> skeleton = Skeleton(process=np.array([0, 1, 1]), offsets=np.array([0, 0, 0, 1]), back=np.array([2]))
    >>> vector_clocks(skeleton, Boundary.empty(processes=2))[2].tolist()
    [1, 2]

Process 0 had one event and process 1 two. The last row received what the first row sent, two rows back. Its vector clock
is ``[1, 2]``: both other events happened before it. These two are concurrent.
"""
