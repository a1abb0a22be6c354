"""Measure how wrong each clock of a run is, by its messages.

Take the segments of a run; give a table with a row for each clock (`tables.CLOCKS`), one for pairs of clocks, and a
summary for the manifest::

    {"name": "pay", "verdict": "behind", "reference": "web", "offset": -170000000, "low": -190000000, ...}
"""
