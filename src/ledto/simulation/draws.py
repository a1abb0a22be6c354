"""Draw random numbers by integer arithmetic only, so that a seed gives the same run on every machine.

The generator is SplitMix64 (Steele, Lea & Flood 2014): a counter that steps by the golden ratio, then a mixing
function. Its state is an array of one uint64. Probabilities are given as *last accepted draws*: of the 2**63 possible
draws, those up to and including that one mean yes. So 0 and 1 are exact, and inner loops need no floating point.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ledto.kernels import inlined

DRAWS = 1 << 63
"""How many values `draw` has, from 0."""

NO_DRAW = -1
"""The last accepted draw of the probability 0: no draw means yes."""

_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_1, _27, _30, _31, _32 = (np.uint64(shift) for shift in (1, 27, 30, 31, 32))
_LOW = np.uint64(0xFFFFFFFF)


def last_accepted(probability: float) -> int:
    """Return the largest draw that means yes; `NO_DRAW` if none does."""
    return int(probability * DRAWS) - 1


def seeded(seed: int) -> NDArray[np.uint64]:
    """Make a generator's state for a seed from 0 to 2**64 - 1.

    The seed is hashed, so that neighbouring seeds start far apart on the generator's one cycle.
    """
    if not 0 <= seed < 1 << 64:
        raise ValueError(f"a seed runs from 0 to 2**64 - 1, not {seed}")
    return np.frombuffer(sha256(seed.to_bytes(8, "little")).digest()[:8], dtype="<u8").astype(np.uint64)


@inlined
def _next(state: Any) -> Any:
    state[0] += _STEP
    mixed = state[0]
    mixed = (mixed ^ (mixed >> _30)) * _FIRST
    mixed = (mixed ^ (mixed >> _27)) * _SECOND
    return mixed ^ (mixed >> _31)


@inlined
def draw(state: Any) -> Any:
    """Draw a uniform int64 from 0 to 2**63 - 1."""
    return np.int64(_next(state) >> _1)


@inlined
def below(state: Any, limit: int) -> Any:
    """Draw a uniform int64 from 0 to limit - 1, for limits up to 2**32 (Lemire's multiplication, with rejection)."""
    wide = np.uint64(limit)
    product = (_next(state) >> _32) * wide
    if product & _LOW < wide:
        refused = (_LOW + _1) % wide
        while product & _LOW < refused:
            product = (_next(state) >> _32) * wide
    return np.int64(product >> _32)


@inlined
def exponential(state: Any, mean: int) -> Any:
    """Draw an exponential gap in whole units, rounded down, with a mean below 2**31; by comparisons (von Neumann 1951).

    Each round draws uniforms while they fall. An odd number of them accepts the first one as the fraction; an even
    number adds a whole mean and starts again.
    """
    whole = np.int64(0)
    while True:
        first = _next(state) >> _32
        lowest = first
        length = 1
        while True:
            following = _next(state) >> _32
            if following >= lowest:
                break
            lowest = following
            length += 1
        if length % 2 == 1:
            return whole * mean + np.int64((first * np.uint64(mean)) >> _32)
        whole += 1
