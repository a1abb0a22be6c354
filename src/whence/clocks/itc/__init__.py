"""Interval Tree Clocks: the smallest exact stamps for instances that fork and join."""
