"""Count and find bits of 64-bit words, in compiled loops."""

from __future__ import annotations

import numpy as np

from whence.kernels import inlined


@inlined
def bits_set(word: np.uint64) -> int:
    """Count the bits that are 1: sums pairs, nibbles and bytes side by side. LLVM makes one instruction of it."""
    word = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return int((word * np.uint64(0x0101010101010101)) >> np.uint64(56))


@inlined
def lowest_bit(word: np.uint64) -> int:
    """Return the place of the lowest 1; the word must not be 0."""
    return bits_set((word & (~word + np.uint64(1))) - np.uint64(1))


@inlined
def bit(place: int) -> np.uint64:
    """Return a word with one 1, at ``place % 64``."""
    return np.uint64(1) << np.uint64(place & 63)
