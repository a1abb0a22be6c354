"""Make the checks of the observer paper's statements on curves. `stated.py` lists the statements.

"More violations" of one curve than another means a higher `Curve.level`, the mean over phi < 100%. Values are means over
the seeds, in the measure of the reading.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from ledto.papers.cell import RunOutcome
from ledto.papers.curves import PHI_PCT, CellKey, Curve, Curves, Spread
from ledto.papers.findings import StatementVerdict, all_of
from ledto.papers.observer import FIGURES, PlottedLine
from ledto.papers.presets import Setting


@dataclass(frozen=True, slots=True)
class View:
    """The results of one reading."""

    curves: Curves
    preset: str

    def line(self, line: PlottedLine) -> Curve:
        """Return the curve of a line of a figure."""
        return self.curves.curve(self.preset, line.setting, line.scheme)

    def panel(self, figure: str, letter: str) -> dict[str, Curve]:
        """Return the curves of a panel, by label."""
        return {line.label: self.line(line) for line in FIGURES[figure].panel(letter).lines}

    def runs(self) -> Iterator[tuple[Setting, RunOutcome]]:
        """Yield every run of the reading, with its setting."""
        for (preset, setting), outcomes in self.curves.runs.items():
            if preset == self.preset:
                for outcome in outcomes:
                    yield setting, outcome


Check = Callable[[View], StatementVerdict]


def in_range(figure: str, letters: str, label: str, phi_pct: int, low: float, high: float) -> Check:
    """Check that a line's value at one phi is in a range, in each panel."""

    def check(view: View) -> StatementVerdict:
        values = {letter: view.panel(figure, letter)[label].at(phi_pct) for letter in letters}
        return all_of((f"({letter}) {value}", low <= value.mean <= high) for letter, value in values.items())

    return check


def at_most(figure: str, letters: str, limit: float) -> Check:
    """Check that the largest value of all lines is at most `limit`, in each panel."""

    def check(view: View) -> StatementVerdict:
        parts = []
        for letter in letters:
            label, phi, worst = max(_values(view.panel(figure, letter)), key=lambda value: value[2].mean)
            parts.append((f"({letter}) at most {worst} ({label}, φ = {phi}%)", worst.mean <= limit))
        return all_of(parts)

    return check


def fills_axis(figure: str, letters: str, limit: float) -> Check:
    """Check that the largest value of the panels is in the upper half of their common axis."""

    def check(view: View) -> StatementVerdict:
        worst = max(curve.highest for letter in letters for curve in view.panel(figure, letter).values())
        return StatementVerdict(f"at most {worst:.2f}", limit / 2 < worst <= limit)

    return check


def trend(figure: str, letters: str, direction: Literal["rises", "falls"]) -> Check:
    """Check that the level rises, or falls, from each line of a panel to the next, in each panel."""

    def check(view: View) -> StatementVerdict:
        parts = []
        for letter in letters:
            levels = {label: curve.level for label, curve in view.panel(figure, letter).items()}
            steps = [b - a if direction == "rises" else a - b for a, b in pairwise(levels.values())]
            shown = ", ".join(f"{label}: {level:.2f}" for label, level in levels.items())
            parts.append((f"({letter}) {shown}", all(step > 0 for step in steps)))
        return all_of(parts)

    return check


def higher(figure: str, above: str, below: str) -> Check:
    """Check that each line has a higher level in one panel than in another."""

    def check(view: View) -> StatementVerdict:
        upper, lower = view.panel(figure, above), view.panel(figure, below)
        return all_of(
            (
                f"{label}: ({above}) {upper[label].level:.2f}, ({below}) {lower[label].level:.2f}",
                upper[label].level > lower[label].level,
            )
            for label in upper
        )

    return check


def times_fewer(figure: str, factor: float) -> Check:
    """Check that DAPW's levels (a, c), summed over lines and delays, are at least `factor` times CBD's (b, d)."""

    def check(view: View) -> StatementVerdict:
        dapw = sum(curve.level for letter in "ac" for curve in view.panel(figure, letter).values())
        cbd = sum(curve.level for letter in "bd" for curve in view.panel(figure, letter).values())
        return StatementVerdict(f"DAPW / CBD = {_ratio(dapw, cbd)}", dapw >= factor * cbd)

    return check


def similar(figure: str, label: str, *, share: float, points: float) -> Check:
    """Check that DAPW and CBD differ at every phi by at most a share of the larger value, or by so many points."""

    def check(view: View) -> StatementVerdict:
        parts = []
        for one, other in ("ab", "cd"):
            dapw, cbd = view.panel(figure, one)[label], view.panel(figure, other)[label]
            phi = max(PHI_PCT, key=lambda phi: abs(dapw.at(phi).mean - cbd.at(phi).mean))
            near = all(
                abs(dapw.at(phi).mean - cbd.at(phi).mean)
                <= max(points, share * max(dapw.at(phi).mean, cbd.at(phi).mean))
                for phi in PHI_PCT
            )
            parts.append((f"({one}) {dapw.at(phi)}, ({other}) {cbd.at(phi)}, farthest apart at φ = {phi}%", near))
        return all_of(parts)

    return check


def sudden_rise(figure: str, letter: str, label: str, threshold_pct: int) -> Check:
    """Check that the line's largest rise from one phi to the next lower one begins at the threshold."""

    def check(view: View) -> StatementVerdict:
        curve = view.panel(figure, letter)[label]
        shown = ", ".join(f"{curve.at(phi).mean:.2f}" for phi in PHI_PCT)
        rise_below = curve.largest_rise_below
        return StatementVerdict(f"below {rise_below}% (φ = 100 ... 0%: {shown})", rise_below == threshold_pct)

    return check


def ratio_decides(scheme: str) -> Check:
    """Check that settings of equal eps/delta have levels closer to each other than to that of eps = delta = 10."""
    same_ratio = ((Setting(eps=5), Setting(delta=20)), (Setting(eps=20), Setting(delta=5)))

    def check(view: View) -> StatementVerdict:
        middle = view.curves.curve(view.preset, Setting(), scheme).level
        parts = []
        for by_eps, by_delta in same_ratio:
            one = view.curves.curve(view.preset, by_eps, scheme).level
            other = view.curves.curve(view.preset, by_delta, scheme).level
            text = f"ε/δ = {by_eps.eps}/{by_eps.delta}: {one:.2f}, {by_delta.eps}/{by_delta.delta}: {other:.2f}"
            parts.append((text, abs(one - other) < min(abs(one - middle), abs(other - middle))))
        return StatementVerdict(f"{all_of(parts).obtained}; 10/10: {middle:.2f}", all_of(parts).met)

    return check


def perfect_at_full_wait(view: View) -> StatementVerdict:
    """Check that there is no inverted pair at phi = 100%, in any run of DAPW and of CBD with whole stamps."""
    full = {
        key: outcomes
        for key, outcomes in view.curves.cells.items()
        if key.preset == view.preset and key.phi_pct == 100 and key.scheme in ("dapw", "cbd")
    }
    runs = sum(map(len, full.values()))
    pairs = sum(outcome.violations.pairs for outcomes in full.values() for outcome in outcomes)
    return StatementVerdict(f"{pairs} inverted pairs in {runs} evaluations", pairs == 0)


def delivered_in_time(view: View) -> StatementVerdict:
    """Check that at phi = 100% the observer delivers before its clock reaches r + delta + 2 eps.

    The sender's clock then reads less than r + delta + 3 eps, as it is at most eps ahead.
    """
    waits = {
        (key.setting.delta, key.setting.eps): max(outcome.latest for outcome in outcomes)
        for key, outcomes in view.curves.cells.items()
        if key.preset == view.preset and key.phi_pct == 100 and key.scheme == "cbd"
    }
    return all_of(
        (f"δ = {delta}, ε = {eps}: r + {most}, of {delta + 2 * eps}", most < delta + 2 * eps)
        for (delta, eps), most in sorted(waits.items())
    )


def c_below_eps(view: View) -> StatementVerdict:
    """Check that the largest c of every run is below eps."""
    most: dict[int, int] = {}
    for setting, run in view.runs():
        most[setting.eps] = max(most.get(setting.eps, 0), run.largest_c)
    return all_of((f"ε = {eps}: {c}", c < eps) for eps, c in sorted(most.items()))


def kn_below_n(view: View) -> StatementVerdict:
    """Check that the largest element of kn of every run is below n."""
    most: dict[int, int] = {}
    for setting, run in view.runs():
        most[setting.processes] = max(most.get(setting.processes, 0), run.largest_kn)
    return all_of((f"n = {processes}: {kn}", kn < processes) for processes, kn in sorted(most.items()))


def runs_alike(points: float) -> Check:
    """Check the standard deviation between runs of the same parameters, in every cell of Figures 2 to 7."""

    def check(view: View) -> StatementVerdict:
        keys = {
            CellKey(view.preset, line.setting, line.scheme, phi)
            for name in ("fig2", "fig3", "fig4", "fig5", "fig6", "fig7")
            for panel in FIGURES[name].panels
            for line in panel.lines
            for phi in PHI_PCT
        }
        worst = max(view.curves.average_pct(key).sd or 0.0 for key in keys if key in view.curves.cells)
        return StatementVerdict(f"at most {worst:.2f} points", worst <= points)

    return check


def elements_help(view: View) -> StatementVerdict:
    """Check that at phi = 100% each larger stamp has fewer violations than the next smaller one, in both panels."""
    parts = []
    for letter in "ab":
        panel = view.panel("fig6", letter)
        values = {label: panel[label].at(100) for label in ("dpc1", "dpc2", "cbd-2", "cbd-4", "cbd-6")}
        falls = all(larger.mean > smaller.mean for larger, smaller in pairwise(values.values()))
        shown = ", ".join(f"{label}: {value}" for label, value in values.items())
        parts.append((f"({letter}) {shown}", falls))
    return all_of(parts)


def same_as_all(label: str, points: float) -> Check:
    """Check that a partial stamp differs from the whole one by at most so many points, at every phi, in both panels."""

    def check(view: View) -> StatementVerdict:
        parts = []
        for letter in "ab":
            panel = view.panel("fig6", letter)
            worst = max(abs(panel[label].at(phi).mean - panel["cbd"].at(phi).mean) for phi in PHI_PCT)
            parts.append((f"({letter}) apart by up to {worst:.2f} points", worst <= points))
        return all_of(parts)

    return check


def times_more_without(label: str, factor: float) -> Check:
    """Check that a scheme's level is at least `factor` times that of CBD with whole stamps, in both panels."""

    def check(view: View) -> StatementVerdict:
        parts = []
        for letter in "ab":
            panel = view.panel("fig6", letter)
            without, whole = panel[label].level, panel["cbd"].level
            parts.append((f"({letter}) {_ratio(without, whole)} times", without >= factor * whole))
        return all_of(parts)

    return check


def stamp_size(scheme: str, processes: tuple[int, ...], allowed: Callable[[int], bool]) -> Check:
    """Check the size of a stamp at eps = delta = 10."""

    def check(view: View) -> StatementVerdict:
        parts = []
        for count in processes:
            key = CellKey(view.preset, Setting(processes=count), scheme, 100)
            size = view.curves.cells[key][0].stamp_bytes
            parts.append((f"{size} bytes with {count} processes", allowed(size)))
        return all_of(parts)

    return check


def _values(panel: dict[str, Curve]) -> Iterator[tuple[str, int, Spread]]:
    for label, curve in panel.items():
        for phi in PHI_PCT:
            yield label, phi, curve.at(phi)


def _ratio(above: float, below: float) -> str:
    return f"{above / below:.1f}" if below else "infinite"
