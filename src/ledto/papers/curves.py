"""Turn the results of a sweep into curves over phi, with their spread over the seeds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, stdev

from ledto.papers.cell import CellOutcome, RunOutcome
from ledto.papers.presets import PRESETS, Setting

PHI_PCT = (100, 80, 60, 40, 20, 0)
"""The values of phi in the paper, in percent, in the order of its x axes."""


@dataclass(frozen=True, slots=True)
class Spread:
    """The mean over runs and the standard deviation of a single run, which is None if there is only one run."""

    mean: float
    sd: float | None

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread:
        """Compute the spread of at least one value."""
        numbers = list(values)
        return cls(fmean(numbers), stdev(numbers) if len(numbers) > 1 else None)

    def __str__(self) -> str:
        return f"{self.mean:.2f}" + ("" if self.sd is None else f" ± {self.sd:.2f}")


@dataclass(frozen=True, slots=True)
class CellKey:
    """A cell of the sweep: a reading, a point of the parameter space, a scheme and a phi."""

    preset: str
    setting: Setting
    scheme: str
    phi_pct: int


@dataclass(frozen=True, slots=True)
class Curve:
    """The paper's average over phi, for one reading, setting and scheme."""

    by_phi: Mapping[int, Spread]

    def at(self, phi_pct: int) -> Spread:
        """Return the value at a phi."""
        return self.by_phi[phi_pct]

    @property
    def level(self) -> float:
        """Return the mean over the values of phi below 100%, where order is not guaranteed."""
        return fmean(spread.mean for phi_pct, spread in self.by_phi.items() if phi_pct < 100)

    @property
    def highest(self) -> float:
        """Return the largest value."""
        return max(spread.mean for spread in self.by_phi.values())

    @property
    def largest_rise_below(self) -> int:
        """Return the phi from which the curve rises most to the next lower one."""
        phis = sorted(self.by_phi, reverse=True)
        rises = [(self.at(lower).mean - self.at(phi).mean, phi) for phi, lower in pairwise(phis)]
        return max(rises)[1]


@dataclass(frozen=True, slots=True)
class Curves:
    """All results of a sweep of the observer's settings, with one value for each seed."""

    cells: Mapping[CellKey, Sequence[CellOutcome]]
    runs: Mapping[tuple[str, Setting], Sequence[RunOutcome]]

    def spread(self, key: CellKey, measure: Callable[[CellOutcome], float]) -> Spread:
        """Return the spread of a measure in one cell."""
        return Spread.of(measure(outcome) for outcome in self.cells[key])

    def average_pct(self, key: CellKey) -> Spread:
        """Return the spread of the paper's average, as the cell's reading defines it."""
        average_pct = PRESETS[key.preset].average_pct
        return self.spread(key, lambda outcome: average_pct(outcome.violations))

    def curve(self, preset: str, setting: Setting, scheme: str) -> Curve:
        """Return the paper's average over phi."""
        return Curve({phi: self.average_pct(CellKey(preset, setting, scheme, phi)) for phi in PHI_PCT})
