"""Print tables that fit the screen: one line for each row, texts shortened where they may be, ids never.

::

    time          process  name     id
    ──────────────────────────────────────
    2026-01-31 UTC
    12:00:00.020  stock    reserve  stock:1
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ledto.cli.output import console, escape_controls, say

WIDTH_WITHOUT_TERMINAL = 80
"""Columns of output that goes to a file or a pipe, unless the environment variable COLUMNS says otherwise."""
GAP = 2
"""Blanks between two columns."""
LEAST = 8
"""A text is never shortened to less than this."""
LAST = 24
"""Room for the last column, such as ids. Longer ones make their own rows longer, and no other."""


@dataclass(slots=True)
class Grid:
    """A table of texts. Rows wider than the screen are not wrapped: a terminal does that, and copies them whole."""

    columns: Sequence[str]
    shrink: Collection[str] = ()
    """The columns whose texts may be shortened, with an ellipsis. All others are printed in full."""
    right: Collection[str] = ()
    """The columns of numbers, which are aligned on the right."""
    wanted: Mapping[str, int] = field(default_factory=dict)
    """The width that a column should keep, if the columns of `optional` can be left out for it."""
    optional: Sequence[str] = ()
    """The columns that may be left out on a narrow screen, the first one first."""
    rows: list[tuple[list[str], str] | str] = field(default_factory=list)
    """Cells and style of a row; or a line that goes across all columns."""

    def add(self, cells: Iterable[object], *, style: str = "") -> None:
        """Add a row of any values. None is empty. The style is one of rich, for terminals."""
        self.rows.append((["" if cell is None else escape_controls(str(cell)) for cell in cells], style))

    def add_line(self, text: str) -> None:
        """Add a line across all columns."""
        self.rows.append(escape_controls(text))

    def print(self) -> None:
        """Print the table to stdout: as wide as the terminal or `WIDTH_WITHOUT_TERMINAL`, where its texts allow it."""
        from rich.text import Text

        stdout = console()
        widths = self._fit(screen_width())

        def show(text: str, style: str = "") -> None:
            if stdout.is_terminal:
                stdout.print(Text(text, style=style), soft_wrap=True)
            else:
                say(text)

        show(self._line([escape_controls(name) for name in self.columns], widths), "bold")
        show("─" * (sum(widths.values()) + GAP * (len(widths) - 1)))
        for row in self.rows:
            if isinstance(row, str):
                show(row)
            else:
                show(self._line(row[0], widths), row[1])

    def _line(self, cells: Sequence[str], widths: Mapping[int, int]) -> str:
        from rich.text import Text

        texts = []
        for place, width in widths.items():
            text = Text(cells[place])
            if self.columns[place] in self.right:
                text.align("right", width)
            elif self.columns[place] in self.shrink or text.cell_len < width:
                text.truncate(width, overflow="ellipsis", pad=True)
            texts.append(text.plain)
        return (" " * GAP).join(texts).rstrip()

    def _fit(self, room: int) -> dict[int, int]:
        """Choose the columns to print, by place, and their widths."""
        from rich.cells import cell_len

        natural = {
            place: max(map(cell_len, (name, *(row[0][place] for row in self.rows if not isinstance(row, str)))))
            for place, name in enumerate(self.columns)
        }
        last = len(self.columns) - 1
        if self.columns[last] not in self.shrink:
            natural[last] = min(natural[last], max(LAST, cell_len(self.columns[last])))
        least = {
            place: min(width, max(LEAST, cell_len(self.columns[place])))
            if self.columns[place] in self.shrink
            else width
            for place, width in natural.items()
        }
        wanted = {
            place: min(natural[place], max(width, self.wanted.get(self.columns[place], 0)))
            for place, width in least.items()
        }
        for name in self.optional:
            if _needed(wanted) <= room:
                break
            if name in self.columns:
                place = [*self.columns].index(name)
                for widths in (natural, least, wanted):
                    del widths[place]
        return _shrink(_shrink(natural, wanted, room), least, room)


def screen_width() -> int:
    """Return the width of the terminal, or else that of COLUMNS, or else `WIDTH_WITHOUT_TERMINAL`."""
    stdout = console()
    if stdout.is_terminal:
        return stdout.width
    columns = os.environ.get("COLUMNS", "")
    return int(columns) if columns.isdecimal() and int(columns) else WIDTH_WITHOUT_TERMINAL


def _needed(widths: Mapping[int, int]) -> int:
    return sum(widths.values()) + GAP * (len(widths) - 1)


def _shrink(natural: Mapping[int, int], least: Mapping[int, int], room: int) -> dict[int, int]:
    """Make the widest column narrower, again and again, until all fit into the room, or none can shrink more."""
    widths = dict(natural)
    for _ in range(max(0, _needed(natural) - room)):
        wide = [place for place, width in widths.items() if width > least[place]]
        if not wide:
            break
        widths[max(wide, key=widths.__getitem__)] -= 1
    return widths
