"""Write each figure as a CSV, an SVG and a PNG. The same numbers give the same bytes."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ledto.folders import can_write, home_cache, lasting_folder
from ledto.papers.curves import Spread

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Cell = str | int | float | Spread | None
"""A cell of a CSV. A `Spread` fills two columns, and None leaves one empty."""


@dataclass(frozen=True, slots=True)
class Artefact:
    """The numbers of a figure or a table, and how to draw them."""

    stem: str
    columns: tuple[str, ...]
    rows: Sequence[Sequence[Cell]]
    draw: Callable[[Figure], None] | None = None
    """Draws into an empty figure; None for a table."""
    size_inches: tuple[float, float] = (6.4, 4.8)

    @property
    def files(self) -> tuple[str, ...]:
        """Return the names of the files that `write` makes."""
        return tuple(f"{self.stem}.{kind}" for kind in (("csv", "svg", "png") if self.draw else ("csv",)))

    def write(self, folder: Path) -> None:
        """Write the files. Replace existing ones."""
        with (folder / f"{self.stem}.csv").open("w", newline="", encoding="utf-8") as out:
            lines = csv.writer(out, lineterminator="\n")
            lines.writerow(self.columns)
            lines.writerows([text for cell in row for text in _to_texts(cell)] for row in self.rows)
        if self.draw is not None:
            _write_pictures(self.draw, self.size_inches, folder / self.stem)


def _to_texts(cell: Cell) -> list[str]:
    if isinstance(cell, Spread):
        return [_to_texts(cell.mean)[0], _to_texts(cell.sd)[0]]
    if cell is None:
        return [""]
    return [f"{cell:.6f}" if isinstance(cell, float) else str(cell)]


def _write_pictures(draw: Callable[[Figure], None], size_inches: tuple[float, float], path: Path) -> None:
    _keep_list_of_fonts()
    import matplotlib
    from matplotlib.figure import Figure

    # With a fixed salt, the parts of the SVG have the same names in every run. Text stays text, so that it can be searched.
    style: Any = {"svg.hashsalt": "ledto", "svg.fonttype": "none", "font.size": 8}
    with matplotlib.rc_context(style):
        figure = Figure(figsize=size_inches, layout="constrained")
        draw(figure)
        figure.savefig(path.with_name(path.name + ".svg"), metadata={"Date": None})
        figure.savefig(path.with_name(path.name + ".png"), dpi=130)


def _keep_list_of_fonts() -> None:
    """Let matplotlib keep its list of fonts below TMPDIR if the home cannot be written: it would warn of each new one."""
    if "MPLCONFIGDIR" not in os.environ and not can_write(home_cache() / "matplotlib"):
        os.environ["MPLCONFIGDIR"] = str(lasting_folder("ledto-fonts"))
