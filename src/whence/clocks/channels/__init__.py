"""Channels: stamps between two processes that talk often, without repeating what the peer has.

One end at each process, around its clock: `send` gives bytes, `receive` or `deliver` take the peer's. A vector of 100
processes travels as a head, a number for the names, and 100 counters. `channels.end` says why that is sound.
"""
