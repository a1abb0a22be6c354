"""List the formats of exports, and write one of them with `export`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, Final

from ledto.errors import LedtoError
from ledto.export.dot import MOST_EVENTS, write_dot
from ledto.export.events import Stretches
from ledto.export.names import DELIMITER, GOVECTOR_REGEX, REGEX
from ledto.export.otlp import write_otlp
from ledto.export.perfetto import write_perfetto
from ledto.export.selection import Selection, choose
from ledto.export.tables import write_csv, write_parquet
from ledto.export.times import CORRECTED, TIMES, WALL, Showing
from ledto.export.vector_logs import write_govector, write_shiviz
from ledto.questions.history import History

Write = Callable[[Stretches, BinaryIO, Showing], Iterator[int]]
"""A function that writes events, and yields the number of each stretch after it is written."""


class ExportRefused(LedtoError):
    """The export was refused: an unknown format or sort of times, or too many events for a graph."""


@dataclass(frozen=True, slots=True)
class Format:
    """A format of exports: how it is written and read again."""

    write: Write
    times: str
    """The sort of times that it shows by default, one of `TIMES`."""
    regex: str | None = None
    """The expression with which ShiViz and ledto read it."""
    binary: bool = False


FORMATS: Final = {
    "shiviz": Format(write_shiviz, WALL, REGEX),
    "govector": Format(write_govector, WALL, GOVECTOR_REGEX),
    "perfetto": Format(write_perfetto, CORRECTED),
    "otlp": Format(write_otlp, CORRECTED),
    "csv": Format(write_csv, WALL),
    "parquet": Format(write_parquet, WALL, binary=True),
    "dot": Format(write_dot, WALL),
}
"""The formats by name."""


@dataclass(frozen=True, slots=True)
class Exported:
    """The counts of an export, and how to read its file."""

    format: str
    times: str
    events: int
    processes: int
    computations: int
    arrows: int | None
    """How many arrows were drawn, one for each message; None for formats without arrows."""
    arrows_left_out: int | None
    """How many arrows were not drawn, because they would point to an earlier time."""
    regex: str | None
    """The expression for ShiViz."""
    delimiter: str | None
    """The expression for ShiViz that separates executions, if there are several."""

    def to_json(self) -> dict[str, Any]:
        """Return the fields that are not None."""
        fields = {name: getattr(self, name) for name in Exported.__slots__}
        return {name: value for name, value in fields.items() if value is not None}


def export(
    history: History,
    format: str,
    sink: BinaryIO,
    *,
    selection: Selection | None = None,
    times: str | None = None,
    any_size: bool = False,
    on_progress: Callable[[int], None] = lambda _: None,
) -> Exported:
    """Write the selected events, by default all, to a file in a format of `FORMATS`.

    `times` chooses between wall and corrected times, where a format shows one of them. `on_progress` gets the number of
    events written so far. Writes only to the sink, in one pass. If this raises, the file is incomplete: delete it.

    Raises `ExportRefused` for an unknown format or sort of times, and for a graph that is too large, unless `any_size`.
    """
    if format not in FORMATS:
        raise ExportRefused(f"unknown format {format!r}; choose one of {', '.join(FORMATS)}")
    form = FORMATS[format]
    chosen_times = times or form.times
    if chosen_times not in TIMES:
        raise ExportRefused(f"times are {' or '.join(TIMES)}, not {chosen_times!r}")
    stretches = Stretches(history.run, selection if selection is not None else choose(history))
    if format == "dot" and stretches.total > MOST_EVENTS and not any_size:
        raise ExportRefused(
            f"a graph of {stretches.total:,} events is too large to lay out; the limit is {MOST_EVENTS:,}. "
            "Choose fewer with --around EVENT -k N or --process NAME, or insist with --force-size"
        )
    showing = Showing(chosen_times)
    events = 0
    for written in form.write(stretches, sink, showing):
        events += written
        on_progress(events)
    return Exported(
        format,
        chosen_times,
        events,
        int((stretches.selection.codes & (history.run.processes.events > 0)).sum()),
        stretches.exported_computations,
        showing.arrows,
        showing.arrows_left_out,
        form.regex,
        DELIMITER if form.regex is not None and stretches.exported_computations > 1 else None,
    )
