"""Define two readings of the observer paper's experiment: how to simulate section 5, and what section 6 counts.

The paper leaves both open. `closest` comes closest to its numbers; `literal` takes its text word by word. The report has
the results of both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from ledto.measures.violations import Violations
from ledto.simulation import Delay, Model, closest, literal

DELAYS: Mapping[str, Delay] = MappingProxyType({"half": Delay.half, "quarter": Delay.quarter})
"""The paper's two distributions of message delay: N(delta/2, delta/4) and N(delta/4, delta/8)."""


@dataclass(frozen=True, slots=True)
class Preset:
    """A reading of the paper: how to simulate, and how to compute the average that it plots."""

    name: str
    model: Callable[..., Model]
    average_pct: Callable[[Violations], float]
    measure: str
    """`average_pct` in words."""


PRESETS: Mapping[str, Preset] = MappingProxyType(
    {
        preset.name: preset
        for preset in (
            Preset(
                "closest",
                closest,
                lambda violations: violations.average_pct,
                "(messages delivered before one of their causes + messages delivered after one of their effects) / 2, "
                "per message received",
            ),
            Preset("literal", literal, lambda violations: violations.pairs_pct, "inverted pairs per message received"),
        )
    }
)


@dataclass(frozen=True, slots=True)
class Setting:
    """A point of the paper's parameter space. The defaults are those of figures that do not vary a parameter."""

    processes: int = 10
    eps: int = 10
    delta: int = 10
    rate: float = 0.1
    delay: str = "half"

    def model(self, preset: Preset, messages: int) -> Model:
        """Make the simulation of this point under a preset."""
        return preset.model(
            self.processes, self.eps, self.delta, self.rate, delay=DELAYS[self.delay], messages=messages
        )
