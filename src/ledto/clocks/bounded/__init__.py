"""Bounded stamps ``<r, c, kn>``: an order consistent with causality, in a few bytes.

`clock` makes stamps from physical readings with known bounds; `wire` packs them. One literal stamp, ``p3<120 +2
kn=[4, 1, 0]>``: p3 read 120, knew of the reading 122, of 4 events at 122 and of 1 at 121.
"""
