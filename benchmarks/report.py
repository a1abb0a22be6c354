"""The table of results: `docs/benchmarks.md`, written here and nowhere else.

A section stands between two markers, so that one benchmark can be run again alone and replaces its own section only.
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"

HEAD = """# Benchmarks

Written by `make bench`; do not edit. Each figure is a ratio against what a user would otherwise do, both measured in one
run on one machine. `make bench ARGS=rpc` runs one section again.
"""


@dataclass(frozen=True)
class Goal:
    """A figure to reach, and what was reached."""

    text: str
    reached: str
    met: bool


@dataclass(frozen=True)
class Section:
    """One benchmark's results: what is compared, a table, and the goals it was measured for."""

    title: str
    about: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[object, ...]]
    goals: list[Goal]
    notes: str = ""

    def markdown(self) -> str:
        """The section as it stands on the page."""
        lines = [f"## {self.title}", "", self.about, ""]
        lines += [f"| {' | '.join(self.columns)} |", f"|{'---|' * len(self.columns)}"]
        lines += [f"| {' | '.join(map(_cell, row))} |" for row in self.rows]
        if self.goals:
            lines += ["", "| goal | reached | |", "|---|---|---|"]
            lines += [
                f"| {goal.text} | {goal.reached} | {'met' if goal.met else '**missed**'} |" for goal in self.goals
            ]
        if self.notes:
            lines += ["", self.notes]
        return "\n".join([*lines, "", f"Machine: {machine()}."])


def machine() -> str:
    """What the figures were measured on."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        found = re.search(r"^model name\s*:\s*(.+)$", cpuinfo.read_text(), re.MULTILINE)
        model = found.group(1) if found else model
    return f"{os.cpu_count()} cores ({model}), {platform.system()}, CPython {platform.python_version()}"


def write(name: str, section: Section) -> None:
    """Put a section on the page, in the place of its last run."""
    page = PAGE.read_text() if PAGE.exists() else HEAD
    start, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    block = f"{start}\n{section.markdown()}\n{end}"
    if start in page:
        page = page[: page.index(start)] + block + page[page.index(end) + len(end) :]
    else:
        page = f"{page.rstrip()}\n\n{block}\n"
    PAGE.write_text(page)


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.2f}" if abs(value) < 100 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
