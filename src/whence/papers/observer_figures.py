"""Describe Figures 2 to 7 of the observer paper as data: panels, lines, axes. `FIGURES` lists them.

The upper ends of the y axes are the paper's for Figures 2 and 5. Our copies do not show those of 3, 4, 6 and 7: with
None, all panels of one algorithm are drawn to the range of the data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from whence.papers.presets import Setting

PARTIAL = ("dpc1", "dpc2", "cbd-2", "cbd-4", "cbd-6", "cbd")
"""The schemes of Figures 6 and 7, by the size of their stamps."""
CLOCKS = ("arrival", "dpc1", "dpc2", "hlc", "cbd")
"""Beyond the paper: no clock, the wall clock, and clocks that came later, on the same traces."""
TRADED = ("arrival", "dapw", "dpc1", "dpc2", "hlc", "cbd-2", "cbd-4", "cbd-6", "cbd")
"""The schemes in the picture of the whole trade-off."""


@dataclass(frozen=True, slots=True)
class Line:
    """A curve over phi."""

    label: str
    setting: Setting
    scheme: str


@dataclass(frozen=True, slots=True)
class Panel:
    """One diagram of a figure."""

    letter: str
    title: str
    axis_max: float | None
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure. The names of its files begin with the stem."""

    name: str
    stem: str
    title: str
    panels: tuple[Panel, ...]

    def panel(self, letter: str) -> Panel:
        """Return the panel with this letter."""
        return next(panel for panel in self.panels if panel.letter == letter)


_DELAY_TITLES = {"half": "N(δ/2, δ/4)", "quarter": "N(δ/4, δ/8)"}
_FOUR = (("a", "dapw", "half"), ("b", "cbd", "half"), ("c", "dapw", "quarter"), ("d", "cbd", "quarter"))


def _over_settings(
    name: str,
    stem: str,
    title: str,
    settings: Mapping[str, Setting],
    *,
    dapw_max: float | None = None,
    cbd_max: float | None = None,
) -> Figure:
    """Make a figure with DAPW and CBD under both delays, and one line for each setting."""
    panels = tuple(
        Panel(
            letter,
            f"{scheme.upper()}, delay {_DELAY_TITLES[delay]}",
            dapw_max if scheme == "dapw" else cbd_max,
            tuple(Line(label, replace(setting, delay=delay), scheme) for label, setting in settings.items()),
        )
        for letter, scheme, delay in _FOUR
    )
    return Figure(name, stem, title, panels)


def _over_schemes(
    name: str, stem: str, title: str, schemes: tuple[str, ...], settings: tuple[tuple[str, Setting], ...]
) -> Figure:
    """Make a figure with several schemes on the same traces, and one line for each scheme."""
    panels = tuple(
        Panel(letter, panel_title, None, tuple(Line(scheme, setting, scheme) for scheme in schemes))
        for letter, (panel_title, setting) in zip("abcd", settings, strict=False)
    )
    return Figure(name, stem, title, panels)


def _both_delays(processes: int, describe: Callable[[str], str]) -> tuple[tuple[str, Setting], ...]:
    return tuple((describe(title), Setting(processes=processes, delay=delay)) for delay, title in _DELAY_TITLES.items())


FIGURES: Mapping[str, Figure] = MappingProxyType(
    {
        figure.name: figure
        for figure in (
            _over_settings(
                "fig2",
                "fig2_eps",
                "Effect of the clock drift ε (δ = 10)",
                {f"ε = {eps}": Setting(eps=eps) for eps in (5, 10, 20, 30)},
                dapw_max=80,
                cbd_max=10,
            ),
            _over_settings(
                "fig3",
                "fig3_delta",
                "Effect of the message delay δ (ε = 10)",
                {f"δ = {delta}": Setting(delta=delta) for delta in (5, 10, 20, 30)},
            ),
            _over_settings(
                "fig4",
                "fig4_rate",
                "Effect of the message rate (ε = δ = 10)",
                {f"rate {rate}": Setting(rate=rate) for rate in (0.5, 0.1, 0.01)},
            ),
            _over_settings(
                "fig5",
                "fig5_processes",
                "Effect of the number of processes (ε = δ = 10)",
                {f"{count} processes": Setting(processes=count) for count in (5, 10, 50)},
                dapw_max=60,
                cbd_max=10,
            ),
            _over_schemes(
                "fig6",
                "fig6_partial_10",
                "Partial stamps, 10 processes",
                PARTIAL,
                _both_delays(10, lambda title: f"delay {title}"),
            ),
            _over_schemes(
                "fig7",
                "fig7_partial_50",
                "Partial stamps, 50 processes",
                PARTIAL,
                _both_delays(50, lambda title: f"delay {title}"),
            ),
            _over_schemes(
                "clocks",
                "clocks",
                "Beyond the paper: other clocks on the same traces",
                CLOCKS,
                _both_delays(10, lambda title: f"10 processes, delay {title}")
                + _both_delays(50, lambda title: f"50 processes, delay {title}"),
            ),
            _over_schemes(
                "tradeoff",
                "tradeoff",
                "Violations against delay against bytes, 10 processes",
                TRADED,
                _both_delays(10, lambda title: f"delay {title}"),
            ),
        )
    }
)
