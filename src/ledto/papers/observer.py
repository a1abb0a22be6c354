"""Repeat the observer paper's evaluation: plan the runs of its figures; turn their outcomes into CSV rows and pictures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from ledto.papers.artefacts import Artefact, Cell
from ledto.papers.cell import CellOutcome, CellRun, RunOutcome
from ledto.papers.curves import PHI_PCT, CellKey, Curves
from ledto.papers.presets import PRESETS, Setting
from ledto.papers.schemes import SCHEMES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Picture


from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

PARTIAL = ("dpc1", "dpc2", "cbd-2", "cbd-4", "cbd-6", "cbd")
"""The schemes of Figures 6 and 7, by the size of their stamps."""
CLOCKS = ("arrival", "dpc1", "dpc2", "hlc", "cbd")
"""Beyond the paper: no clock, the wall clock, and clocks that came later, on the same traces."""
TRADED = ("arrival", "dapw", "dpc1", "dpc2", "hlc", "cbd-2", "cbd-4", "cbd-6", "cbd")
"""The schemes in the picture of the whole trade-off."""


@dataclass(frozen=True, slots=True)
class PlottedLine:
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
    lines: tuple[PlottedLine, ...]


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
            tuple(PlottedLine(label, replace(setting, delay=delay), scheme) for label, setting in settings.items()),
        )
        for letter, scheme, delay in _FOUR
    )
    return Figure(name, stem, title, panels)


def _over_schemes(
    name: str, stem: str, title: str, schemes: tuple[str, ...], settings: tuple[tuple[str, Setting], ...]
) -> Figure:
    """Make a figure with several schemes on the same traces, and one line for each scheme."""
    panels = tuple(
        Panel(letter, panel_title, None, tuple(PlottedLine(scheme, setting, scheme) for scheme in schemes))
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


_MEASURES: tuple[tuple[str, Callable[[CellOutcome], float] | None], ...] = (
    ("average_pct", None),
    ("messages_pct", lambda outcome: outcome.violations.messages_pct),
    ("pairs", lambda outcome: outcome.violations.pairs),
    ("delay_mean", lambda outcome: outcome.delays.mean),
    ("delay_p50", lambda outcome: outcome.delays.p50),
    ("delay_p95", lambda outcome: outcome.delays.p95),
    ("delay_p99", lambda outcome: outcome.delays.p99),
    ("delay_max", lambda outcome: outcome.delays.max),
)
COLUMNS = (
    *("preset", "panel", "line", "scheme", "processes", "eps", "delta", "rate", "delay", "phi_pct", "seeds"),
    *("messages", "stamp_bytes"),
    *(column for name, _ in _MEASURES for column in (name, f"{name}_sd")),
)


def list_settings(figures: Iterable[Figure]) -> dict[Setting, list[str]]:
    """List the settings to simulate for these figures, each with the schemes to evaluate on it."""
    settings: dict[Setting, dict[str, None]] = {}
    for figure in figures:
        for panel in figure.panels:
            for line in panel.lines:
                settings.setdefault(line.setting, {})[line.scheme] = None
    return {setting: list(schemes) for setting, schemes in settings.items()}


def plan(settings: dict[Setting, list[str]], *, seeds: int, messages: int) -> dict[tuple[str, Setting, int], CellRun]:
    """Make a run for each preset, setting and seed, with every scheme and phi."""
    return {
        (preset.name, setting, seed): CellRun(
            setting.model(preset, messages),
            seed,
            tuple((SCHEMES[scheme], Fraction(phi, 100)) for scheme in schemes for phi in PHI_PCT),
        )
        for preset in PRESETS.values()
        for setting, schemes in settings.items()
        for seed in range(1, seeds + 1)
    }


def collect(
    settings: dict[Setting, list[str]], planned: Iterable[tuple[str, Setting, int]], results: Iterable[RunOutcome]
) -> Curves:
    """Make the curves from the results, which are in the order of the plan."""
    cells: dict[CellKey, list[CellOutcome]] = {}
    runs: dict[tuple[str, Setting], list[RunOutcome]] = {}
    for (preset, setting, _), result in zip(planned, results, strict=True):
        runs.setdefault((preset, setting), []).append(result)
        keys = [CellKey(preset, setting, scheme, phi) for scheme in settings[setting] for phi in PHI_PCT]
        for key, outcome in zip(keys, result.outcomes, strict=True):
            cells.setdefault(key, []).append(outcome)
    return Curves(cells, runs)


def make_artefact(
    figure: Figure, curves: Curves, *, draw: Callable[[Picture, Figure, Curves], None] | None = None
) -> Artefact:
    """Make the rows and the picture of a figure, which is drawn by `draw_over_phi` unless `draw` is given."""
    draw_figure = draw or draw_over_phi
    rows = [
        _make_row(curves, preset, panel, line, phi)
        for preset in PRESETS
        for panel in figure.panels
        for line in panel.lines
        for phi in PHI_PCT
    ]
    return Artefact(
        figure.stem,
        COLUMNS,
        rows,
        lambda picture: draw_figure(picture, figure, curves),
        size_inches=(3.1 * len(figure.panels), 5.6),
    )


def _make_row(curves: Curves, preset: str, panel: Panel, line: PlottedLine, phi_pct: int) -> Sequence[Cell]:
    key = CellKey(preset, line.setting, line.scheme, phi_pct)
    outcomes = curves.cells[key]
    at = line.setting
    return (
        *(preset, panel.letter, line.label, line.scheme, at.processes, at.eps, at.delta, str(at.rate), at.delay),
        *(phi_pct, len(outcomes), outcomes[0].violations.messages, outcomes[0].stamp_bytes),
        *(curves.spread(key, measure) if measure else curves.average_pct(key) for _, measure in _MEASURES),
    )


def draw_over_phi(picture: Picture, figure: Figure, curves: Curves) -> None:
    """Draw a row of panels for each preset: violations over phi, from 100% down, as in the paper."""
    picture.suptitle(figure.title)
    grid = picture.subplots(len(PRESETS), len(figure.panels), squeeze=False)
    for row, preset in enumerate(PRESETS):
        for column, panel in enumerate(figure.panels):
            axes = grid[row][column]
            _draw_panel(axes, panel, curves, preset, _find_axis_max(figure, panel, curves))
            axes.set_title(f"({panel.letter}) {panel.title}" if row == 0 else "", fontsize=8)
            axes.set_xlabel("% of delay used in delcond" if row == len(PRESETS) - 1 else "")
            axes.set_ylabel(f"{preset}: % of causality violations" if column == 0 else "")
    handles, labels = grid[0][0].get_legend_handles_labels()
    picture.legend(handles, labels, loc="outside lower center", ncols=len(labels), fontsize=7)


def _draw_panel(axes: Axes, panel: Panel, curves: Curves, preset: str, axis_max: float) -> None:
    highest = 0.0
    for line, marker in zip(panel.lines, "osd^v*x+", strict=False):
        curve = curves.curve(preset, line.setting, line.scheme)
        label = SCHEMES[line.scheme].label if line.label == line.scheme else line.label
        axes.errorbar(
            PHI_PCT,
            [curve.at(phi).mean for phi in PHI_PCT],
            yerr=[curve.at(phi).sd or 0.0 for phi in PHI_PCT],
            label=label,
            marker=marker,
            markersize=4,
            linewidth=1,
        )
        highest = max(highest, curve.highest)
    axes.set_xlim(104, -4)
    axes.set_ylim(0, axis_max)
    if highest > axis_max:
        axes.text(0.03, 0.95, f"off the axis: up to {highest:.1f}", transform=axes.transAxes, fontsize=7, va="top")


def _find_axis_max(figure: Figure, panel: Panel, curves: Curves) -> float:
    """Return the end of the paper's y axis; if that is not known, one that holds every panel of the same scheme."""
    if panel.axis_max is not None:
        return panel.axis_max
    same_scheme = [other for other in figure.panels if other.lines[0].scheme == panel.lines[0].scheme]
    highest = max(
        curves.curve(preset, line.setting, line.scheme).highest
        for preset in PRESETS
        for other in same_scheme
        for line in other.lines
    )
    step = 2 if highest <= 12 else 10
    return step * (1.03 * highest // step + 1)
