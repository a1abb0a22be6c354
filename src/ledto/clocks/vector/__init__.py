"""Vector clocks: exact happened-before for processes with string ids.

`VectorClock` gives stamps such as ``<orders:2 shop:1>``: how many events of each process happened before this one,
itself included.
"""
