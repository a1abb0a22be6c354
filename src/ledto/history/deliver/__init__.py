"""Deliver the events of segments under policies, and count how each order contradicts causality.

Take a run, a segment and policies; give a row of `segment.DELIVERIES` for each event, and counts::

    {"at": 1700000000120000000, "waited": 60000000, "late": false, "lead": 1700000000080000000, "tie": 0, "rank": 17}
"""
