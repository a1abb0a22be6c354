"""Bounded stamps ``<r, c, kn>``: an order consistent with causality in a few bytes."""
