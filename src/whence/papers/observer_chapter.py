"""Make the chapter on the observer paper."""

from __future__ import annotations

from collections.abc import Iterable

from whence.papers.chapter import Chapter, Table, judge
from whence.papers.checks import View
from whence.papers.curves import PHI_PCT, CellKey, Curves
from whence.papers.observer import make_artefact
from whence.papers.observer_figures import FIGURES, Figure
from whence.papers.presets import PRESETS
from whence.papers.schemes import SCHEMES
from whence.papers.stated import OBSERVER
from whence.papers.tradeoff import draw_tradeoff


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
    return Chapter("Approximate causal observer", notes, tuple(artefacts), tuple(findings), tables)


def _make_clock_table(curves: Curves, preset: str) -> Table:
    rows = []
    for panel in FIGURES["clocks"].panels:
        for line in panel.lines:
            keys = [CellKey(preset, line.setting, line.scheme, phi) for phi in PHI_PCT]
            size = curves.cells[keys[0]][0].stamp_bytes
            values = (str(curves.average_pct(key)) for key in keys)
            rows.append((panel.title, SCHEMES[line.scheme].label, str(size), *values))
    columns = ("setting", "order", "bytes a stamp", *(f"φ = {phi}%" for phi in PHI_PCT))
    return Table(f"Beyond the paper: other clocks on the same traces, {preset}", columns, tuple(rows))
