"""Channels: stamps between two processes that talk often, without repeating what the peer has.

One end at each process, around its clock: `send` gives bytes, `receive` or `deliver` take the peer's. Once the peer
knows the names, a vector of 100 processes is a message of 426 bytes: a head of 26, and 100 counters. `channels.end`
says why that is sound.
"""
