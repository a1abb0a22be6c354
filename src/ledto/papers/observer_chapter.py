"""Make the chapter on the observer paper."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ledto.papers.checks import View
from ledto.papers.curves import PHI_PCT, CellKey, Curves
from ledto.papers.observer import FIGURES, Figure, make_artefact
from ledto.papers.presets import PRESETS, Setting
from ledto.papers.report import Chapter, ReportTable, judge
from ledto.papers.schemes import SCHEMES
from ledto.papers.stated import OBSERVER

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture


def draw_tradeoff(picture: Picture, figure: Figure, curves: Curves) -> None:
    """Draw a line for each scheme and a point for each phi: right is later, up is more violations, darker is more bytes."""
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    picture.suptitle(figure.title)
    grid = picture.subplots(len(PRESETS), len(figure.panels), squeeze=False)
    lines = [line for panel in figure.panels for line in panel.lines]
    keys = [CellKey(preset, line.setting, line.scheme, phi) for preset in PRESETS for line in lines for phi in PHI_PCT]
    largest = max(curves.cells[key][0].stamp_bytes for key in keys)
    scale, colours = Normalize(0, largest), colormaps["viridis_r"]
    for row, preset in enumerate(PRESETS):
        for column, panel in enumerate(figure.panels):
            axes = grid[row][column]
            for line, marker in zip(panel.lines, "oDsv^*PX>", strict=True):
                keys = [CellKey(preset, line.setting, line.scheme, phi) for phi in PHI_PCT]
                size = curves.cells[keys[0]][0].stamp_bytes
                axes.plot(
                    [curves.spread(key, lambda outcome: outcome.delays.mean).mean for key in keys],
                    [curves.average_pct(key).mean for key in keys],
                    color=colours(scale(size)),
                    marker=marker,
                    markersize=4,
                    linewidth=1,
                    label=f"{SCHEMES[line.scheme].label} ({size} B)",
                )
            axes.set_title(f"({panel.letter}) {panel.title}" if row == 0 else "", fontsize=8)
            axes.set_xlabel("mean wait at the observer, ticks" if row == len(PRESETS) - 1 else "")
            axes.set_ylabel(f"{preset}: % of causality violations" if column == 0 else "")
            axes.set_ylim(bottom=0)
    handles, labels = grid[0][0].get_legend_handles_labels()
    picture.legend(handles, labels, loc="outside lower center", ncols=3, fontsize=7)
    picture.colorbar(ScalarMappable(scale, colours), ax=grid, label="bytes of a stamp")


def make_chapter(figures: Iterable[Figure], curves: Curves) -> Chapter:
    """Make the chapter: figures, findings under both presets, and the comparison with other clocks."""
    chosen = list(figures)
    names = {figure.name for figure in chosen}
    artefacts = [
        make_artefact(figure, curves, draw=draw_tradeoff if figure.name == "tradeoff" else None) for figure in chosen
    ]
    findings = [finding for preset in PRESETS for finding in judge(OBSERVER, preset, View(curves, preset), names)]
    measures = "; ".join(f"{preset.name}: {preset.measure}" for preset in PRESETS.values())
    notes = (
        f"Both readings of sections 5 and 6. Their measures, in percent: {measures}.",
        "HAZARD: `closest` was selected among many readings because it comes closest to the stated numbers. That it "
        "meets them does not confirm them independently. `literal` was not selected that way.",
        "The paper's y axes are known for Figures 2 and 5 only; the others are drawn to the range of the results.",
    )
    tables = tuple(_make_clock_table(curves, preset) for preset in PRESETS) if "clocks" in names else ()
    return Chapter(
        "Approximate causal observer", notes, tuple(artefacts), tuple(findings), tables, _advise(curves, chosen)
    )


def _advise(curves: Curves, figures: Iterable[Figure]) -> tuple[str, ...]:
    """Compare DAPW and CBD at each setting where the figures have both; say which to use, and what it costs."""
    schemes: dict[Setting, set[str]] = {}
    for line in (line for figure in figures for panel in figure.panels for line in panel.lines):
        schemes.setdefault(line.setting, set()).add(line.scheme)
    settings = [setting for setting, names in schemes.items() if {"dapw", "cbd"} <= names]
    if not settings:
        return ()
    sentences = []
    for preset in PRESETS:
        fewer = [
            setting
            for setting in settings
            if curves.curve(preset, setting, "cbd").level < curves.curve(preset, setting, "dapw").level
        ]
        usual = Setting() if Setting() in settings else settings[0]
        at = ", ".join(
            f"{name.upper()} {curves.average_pct(CellKey(preset, usual, name, 60)).mean:.2f}% after "
            f"{curves.spread(CellKey(preset, usual, name, 60), lambda outcome: outcome.delays.mean).mean:.1f} ticks"
            for name in ("cbd", "dapw")
        )
        better = "CBD" if 2 * len(fewer) > len(settings) else "DAPW"
        count = len(fewer) if better == "CBD" else len(settings) - len(fewer)
        full = curves.average_pct(CellKey(preset, usual, "cbd", 100)).mean
        wait = curves.spread(CellKey(preset, usual, "cbd", 100), lambda outcome: outcome.delays.mean).mean
        sentences.append(
            f"{preset}: {better}, which has fewer violations at {count} of {len(settings)} settings below φ = 100%. "
            f"At ε = {usual.eps}, δ = {usual.delta} and rate {usual.rate}, φ = 60%: {at}; CBD at φ = 100%: {full:.2f}% "
            f"after {wait:.1f} ticks"
        )
    return tuple(sentences)


def _make_clock_table(curves: Curves, preset: str) -> ReportTable:
    rows = []
    for panel in FIGURES["clocks"].panels:
        for line in panel.lines:
            keys = [CellKey(preset, line.setting, line.scheme, phi) for phi in PHI_PCT]
            size = curves.cells[keys[0]][0].stamp_bytes
            values = (str(curves.average_pct(key)) for key in keys)
            rows.append((panel.title, SCHEMES[line.scheme].label, str(size), *values))
    columns = ("setting", "order", "bytes a stamp", *(f"φ = {phi}%" for phi in PHI_PCT))
    return ReportTable(f"Beyond the paper: other clocks on the same traces, {preset}", columns, tuple(rows))
