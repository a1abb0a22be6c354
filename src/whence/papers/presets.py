"""Readings of the observer paper's experiment: how section 5 is simulated, and what section 6 counts.

Both are under-specified, so a reading is a parameter. `closest` comes closest to the stated numbers; `literal` takes
the text word by word. Results are published for both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from whence.measures.violations import Violations
from whence.simulation import Delay, Model, closest, literal

DELAYS: Mapping[str, Delay] = MappingProxyType({"half": Delay.half, "quarter": Delay.quarter})
"""The paper's two distributions of message delay: N(delta/2, delta/4) and N(delta/4, delta/8)."""


@dataclass(frozen=True, slots=True)
class Preset:
    """A way to simulate, and the average that the paper plots under it."""

    name: str
    model: Callable[..., Model]
    average_pct: Callable[[Violations], float]
    measure: str
    """What `average_pct` is, in words."""


PRESETS: Mapping[str, Preset] = MappingProxyType(
    {
        preset.name: preset
        for preset in (
            Preset(
                "closest",
                closest,
                lambda found: found.average_pct,
                "(messages delivered before one of their causes + messages delivered after one of their effects) / 2, "
                "per message received",
            ),
            Preset("literal", literal, lambda found: found.pairs_pct, "inverted pairs per message received"),
        )
    }
)


@dataclass(frozen=True, slots=True)
class Setting:
    """One point of the paper's parameter space; the defaults are what it uses where a figure does not vary them."""

    processes: int = 10
    eps: int = 10
    delta: int = 10
    rate: float = 0.1
    delay: str = "half"

    def model(self, preset: Preset, messages: int) -> Model:
        """The simulation of this point under a preset."""
        return preset.model(
            self.processes, self.eps, self.delta, self.rate, delay=DELAYS[self.delay], messages=messages
        )
