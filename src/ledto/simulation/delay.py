"""Draw message delays in whole ticks, from a table of integer thresholds (Approximate Causal Observer, section 5, G2).

A delay is drawn from a normal distribution, drawn again if below 0, and the message is lost if it is above delta. Only
whole ticks matter, so the distribution becomes one threshold for each tick. The normal's integral is summed with
`decimal`, which rounds alike everywhere; a C library's `erf` does not.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_UP, Decimal, localcontext
from typing import ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from ledto.simulation.draws import DRAWS

Rounding = Literal["down", "nearest", "up"]
"""How a delay's fraction of a tick is rounded. An unrounded delay is rounded up: clocks show whole ticks only."""


@dataclass(frozen=True, slots=True)
class Delay:
    """A normal distribution of delays, in shares of delta or, from `custom`, in ticks."""

    mean: float
    sd: float
    _: KW_ONLY
    in_ticks: bool = False

    half: ClassVar[Delay]
    """N(delta/2, delta/4): about 95% arrive within delta."""
    quarter: ClassVar[Delay]
    """N(delta/4, delta/8): about 95% arrive within delta/2; delta is an overestimate."""

    @classmethod
    def custom(cls, mean_ticks: float, sd_ticks: float) -> Self:
        """Make N(mean, sd) in ticks; an sd of 0 is a constant delay."""
        return cls(mean_ticks, sd_ticks, in_ticks=True)

    def ticks(self, delta: int) -> tuple[Decimal, Decimal]:
        """Return mean and standard deviation in ticks; `ValueError` for a mean outside 0..delta, or an sd below 0."""
        scale = 1 if self.in_ticks else delta
        mean, sd = Decimal(self.mean) * scale, Decimal(self.sd) * scale
        if not (mean.is_finite() and 0 <= mean <= delta):
            raise ValueError(f"delay: the mean runs from 0 to delta = {delta} ticks, not {mean}")
        if not (sd.is_finite() and sd >= 0):
            raise ValueError(f"delay: the standard deviation is 0 or more ticks, not {sd}")
        return mean, sd

    def last_draws(self, delta: int, rounding: Rounding) -> NDArray[np.int64]:
        """Return, for each delay 0..delta, the largest draw (`draws.draw`) that means it; larger draws mean lost."""
        mean, sd = self.ticks(delta)
        if sd == 0:
            constant = int(mean.to_integral_value(_ROUNDED[rounding]))
            return np.array([DRAWS - 1 if d >= constant else -1 for d in range(delta + 1)], dtype=np.int64)
        with localcontext() as context:
            context.prec = 50
            reach = {"down": Decimal(1), "nearest": Decimal("0.5"), "up": Decimal(0)}[rounding]
            edges = [min(d + reach, Decimal(delta)) for d in range(delta + 1)]
            below_zero = _normal(-mean, sd)
            shares = [(_normal(edge - mean, sd) - below_zero) / (1 - below_zero) for edge in edges]
            return np.array([int(share * DRAWS) - 1 for share in shares], dtype=np.int64)


Delay.half = Delay(0.5, 0.25)
Delay.quarter = Delay(0.25, 0.125)


def _normal(distance: Decimal, sd: Decimal) -> Decimal:
    """Return the share of N(0, sd) below `distance`, to 30 digits and more."""
    z = distance / sd
    if abs(z) > 12:
        return Decimal(1 if z > 0 else 0)
    term = total = z
    divisor = 1
    while abs(term) > Decimal("1e-45"):
        divisor += 2
        term = term * z * z / divisor
        total += term
    return Decimal("0.5") + total * (-z * z / 2).exp() / (2 * _PI).sqrt()


_ROUNDED = {"down": ROUND_FLOOR, "nearest": ROUND_HALF_UP, "up": ROUND_CEILING}
_PI = Decimal("3.14159265358979323846264338327950288419716939937510582")
