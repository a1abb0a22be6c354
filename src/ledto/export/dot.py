"""Write a graph for Graphviz: a cluster for each process, with its events in a row, and an edge for each message.

An edge is solid if the cause is recorded, dashed if the two events only share a process, and dotted if it is assumed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from ledto.export.events import Stretches
from ledto.export.names import label
from ledto.export.times import Showing
from ledto.questions.event import Event

MOST_EVENTS = 5_000
"""The events of a graph at most. Graphviz takes too long to lay out more, and no screen shows them."""


def write_dot(stretches: Stretches, sink: BinaryIO, showing: Showing) -> Iterator[int]:
    """Write the graph; yield the number of events of each stretch."""
    sink.write(b'digraph history {\n  rankdir=LR;\n  node [shape=box, style=rounded, fontname="sans-serif"];\n')
    several = stretches.exported_computations > 1
    last: dict[int, int] = {}
    for stretch in stretches.iterate():
        statements: list[str] = []
        for row, (event, code) in enumerate(zip(stretches.events(stretch), stretch.code.tolist(), strict=True)):
            title = f"{event.process}\n{event.computation}" if several else event.process
            # Graphviz merges clusters of the same name.
            cluster = f"  subgraph cluster_{code} {{ "
            if code not in last:
                cluster += f"label={_quote(title)}; "
            statements.append(
                f"{cluster}e{event.position} [label={_quote(_write_label(event))}{_write_tooltip(event, showing)}]; }}\n"
            )
            before = last.get(code)
            follows = stretch.follows[row] if stretch.follows is not None else [] if before is None else [before]
            statements += [
                f"  e{cause} -> e{event.position} [weight=10, arrowhead=none];\n" for cause in sorted(set(follows))
            ]
            if before is not None and before not in follows:
                statements.append(f"  e{before} -> e{event.position} [weight=10, arrowhead=none, style=dashed];\n")
            for cause, assumed in stretch.causes_with_assumed(row):
                if cause not in follows:
                    style = ", style=dotted" if assumed else ""
                    statements.append(f"  e{cause} -> e{event.position} [color=blue{style}];\n")
            last[code] = event.position
        sink.write("".join(statements).encode())
        yield len(stretch)
    sink.write(b"}\n")


def _write_label(event: Event) -> str:
    return f"{label(event)}\n{event.id}" if label(event) != event.id else event.id


def _write_tooltip(event: Event, showing: Showing) -> str:
    time = showing.time_of(event)
    return "" if time is None else f", tooltip={_quote(f'{showing.times} time {time}')}"


def _quote(text: str) -> str:
    r"""Write a string of Graphviz. Double backslashes, since it has escapes such as ``\N``."""
    escaped = (
        text.replace("\\", "\\\\").replace('"', '\\"').replace("\r", "\\r").replace("\n", "\\n").replace("\0", " ")
    )
    return f'"{escaped}"'
