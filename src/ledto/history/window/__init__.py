"""Make segments: each task takes the reports of one window and gives a segment with its causes and lines.

`plan` cuts time into windows. `solve` puts the rows of one window in causal order: it reads `columns`, connects rows in
`edges` and `span_edges`, and has `check_stamps` compare stamps with messages. `ends` finds what crosses the window's ends,
`lines` what events follow in their processes, and `holes` where reports are missing. `segment` writes the files and returns
a `SegmentResult`.

One literal record, the window of two rows in which ``a`` sends ``m`` to ``b``::

    solve(pa.table({"process": ["b", "a"], "receives": ["m", None], "sends": [None, "m"], "seq": [1, 1], "time": [5, 7]}),
          ["a", "b"], SegmentWindow())

gives ``table_rows == [1, 0]``, the causal times ``[7, 7]``, the corrections ``[-1, 1]``, and a skeleton in which the second
event has the first as its cause.
"""
