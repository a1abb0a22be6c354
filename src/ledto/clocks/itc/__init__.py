"""Take what instances do when they fork and join; give Interval Tree Clocks, the smallest exact stamps for them.

`IntervalTreeClock` gives stamps such as ``itc(1, 0, 2)``: the left half has risen to 1, the right one to 3.
"""
