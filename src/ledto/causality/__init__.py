"""Takes rows of events with their messages; gives an order of them, and answers about what could have caused what.

From rows to a segment of a history:

- `ledto.causality.canonical`, `.ordering`, `.cycles`, `.assembling`: every event once, in an order in which causes come
  before their effects; contradictions are found, not followed;
- `ledto.causality.bounded_stamps`: bounded stamps of events that carry none.

From segments to answers, with NumPy and `ledto.kernels` and without Spark or files:

- `ledto.causality.skeleton`: what is stored of a segment, and `ledto.causality.boundary`: what is known at its start;
- `ledto.causality.vector_clocks`: vector clocks, and `Scan`, which goes over segments and gives their boundaries;
- `ledto.causality.pairs`: whether one event happened before another, for many pairs at once;
- `ledto.causality.sweeps`: the past and the future of one event, and the path from one event to another;
- `ledto.causality.in_flight`: messages in flight across a cut.

One literal record, a segment of three rows:

    >>> import numpy as np
    >>> from ledto.causality.vector_clocks import Boundary, Skeleton, vector_clocks
    >>> skeleton = Skeleton(process=np.array([0, 1, 1]), offsets=np.array([0, 0, 0, 1]), back=np.array([2]))
    >>> vector_clocks(skeleton, Boundary.empty(processes=2))[2].tolist()
    [1, 2]

says: process 0 had one event, process 1 two, and the last of them received what the first row sent, two rows back. Its
vector clock counts events of process 0, then of process 1. The other two rows happened before it, and neither before the
other.
"""
