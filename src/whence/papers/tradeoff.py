"""Draw the whole trade-off in one picture: violations against delay, with the size of a stamp as colour."""

from __future__ import annotations

from typing import TYPE_CHECKING

from whence.papers.curves import PHI_PCT, CellKey, Curves
from whence.papers.observer_figures import Figure
from whence.papers.presets import PRESETS
from whence.papers.schemes import SCHEMES

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
