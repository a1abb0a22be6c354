"""Take a preset; give the figures of the papers as CSV, SVG and PNG, and a report of which statements are met.

- `ledto.papers.cell`: one simulation, with every scheme and phi evaluated on it;
- `ledto.papers.schemes`: the clocks and policies that are compared;
- `ledto.papers.observer`, `stated`, `checks`: Figures 2 to 7 and the statements of the observer paper, as data;
- `ledto.papers.hcg`, `rpc`, `autonomous`: the other three papers;
- `ledto.papers.reproduce`: all of it, here or on Spark.

One literal record, a row of ``stated.csv``::

    observer,"6.5, Fig. 6",the physical clock alone (DPC1): 30-50% even at φ = 100%,paper,closest,met,(a) 34.17 ± 0.40; ...
"""
