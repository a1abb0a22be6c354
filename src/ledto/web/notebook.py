"""Draw answers and histories for notebooks, as a part of the notebook's page.

Takes an `Answer`; gives one HTML text: the space-time diagram of its events, then a table. It needs no scripts, no network
and no other files; its style applies to nothing else on the page; and everything that comes from logs is escaped and cut.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Collection, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING

from ledto.questions.answer import ASKED, CONCURRENT, POSSIBLE, RECEIVED, Answer, ShownEvents, attributes_text, count
from ledto.questions.clocks import Clocks
from ledto.questions.event import Event
from ledto.questions.path import JOIN, LINE, MESSAGE, START, ListedEdge
from ledto.questions.standing import Standing
from ledto.web import diagram
from ledto.web.clocks_plot import draw_clocks
from ledto.web.diagram import Dot, draw_diagram, format_wall_time
from ledto.web.gather import is_loud, label
from ledto.web.style import escape, shorten, style_within

if TYPE_CHECKING:
    import pyarrow as pa

    from ledto.questions.history import History

MOST_SHOWN = 40
"""How many events or rows are shown: a notebook keeps what it shows in its file."""
CELL_CHARACTERS = 160
TITLE_CHARACTERS = 600
NOTES = 10
"""How many sentences on what is missing or left out are shown."""
WITHIN = ".ledto-answer"
OWN_STYLE = f"""
{WITHIN} {{ background: var(--ground); color: var(--ink); font: 14px/1.45 system-ui, sans-serif; padding: .6rem; }}
{WITHIN} p, {WITHIN} ul {{ margin: .3rem 0; }}
{WITHIN} td, {WITHIN} th {{ background: none; color: inherit; text-align: left; overflow-wrap: anywhere; }}
{WITHIN} .scroll {{ margin: .4rem 0; max-height: 36rem; overflow: auto; }}
"""
ROLES = {
    ASKED: diagram.FOCUS,
    POSSIBLE: diagram.POSSIBLE,
    CONCURRENT: diagram.BYSTANDER,
    RECEIVED: diagram.BYSTANDER,
    Standing.UNKNOWN.value: diagram.BYSTANDER,
}
"""By role of an event in an answer: how it is drawn. All others are recorded."""


def draw_answer(answer: Answer) -> str:
    """Draw an answer: what it is in one line, its diagram, its rows, and what it leaves out."""
    summary = f"{type(answer).__name__}: {answer.summary()}"
    shown = answer.shown_events(MOST_SHOWN)
    parts = [f"<p><strong>{escape(shorten(summary, 2 * CELL_CHARACTERS))}</strong></p>"]
    if shown is not None:
        key = (
            "ledto-" + sha256("".join(f"{role} {event.id} " for role, event in shown.events).encode()).hexdigest()[:12]
        )
        parts += [_draw_events(shown, answer.summary(), key), _write_events(shown, key)]
        left_out = shown.total - len(shown.events)
    else:
        if isinstance(answer, Clocks):
            parts.append(_draw_clocks(answer))
        rows, total = answer.shown_rows(MOST_SHOWN)
        parts.append(_write_rows(rows))
        left_out = -1 if total is None else total - len(rows)
    notes = [*answer.notes()]
    if left_out:
        notes.insert(0, f"{'More' if left_out < 0 else f'{left_out:,} more'} not shown here; to_pandas() has all.")
    return _within_page([*parts, _write_notes(notes)])


def draw_history(history: History) -> str:
    """Summarize a history: where it is, how much it has, from when to when, and what became of the reports."""
    manifest, processes = history.run.manifest, history.run.processes.table
    first = min((time for time in processes["first_time"].to_pylist() if time is not None), default=None)
    last = max((time for time in processes["last_time"].to_pylist() if time is not None), default=None)
    ledger = manifest.ledger
    rows = {
        "history": str(history.run.store),
        "events": f"{len(history):,} of {count(len(processes), 'process')}",
        "from": format_wall_time(first, history.unit),
        "to": format_wall_time(last, history.unit),
        "unit of times": history.unit,
        "reports": f"{ledger.reports:,}: {ledger.delivered:,} delivered, {ledger.duplicate:,} duplicate, "
        f"{ledger.quarantined:,} quarantined",
        "policies": ", ".join(manifest.policies) or "none",
        "ask": "why, impact, relation, explain, concurrent, cut, order, sql, processes, clocks, check, quarantine",
    }
    body = "".join(
        f'<tr><th scope="row">{name}</th><td>{escape(shorten(text, CELL_CHARACTERS))}</td></tr>'
        for name, text in rows.items()
    )
    return _within_page([f'<div class="scroll"><table><tbody>{body}</tbody></table></div>'])


def _within_page(parts: Sequence[str]) -> str:
    return "\n".join(
        [
            f'<div class="{WITHIN[1:]}">',
            f"<style>{style_within(WITHIN)}{OWN_STYLE}</style>",
            *filter(None, parts),
            "</div>",
        ]
    )


def _draw_events(shown: ShownEvents, summary: str, key: str) -> str:
    steps = [*shown.steps] or _steps_by_message([event for _, event in shown.events])
    # In a history without lines, an event follows the one before in its process: numbers tell whether one is left out.
    known = bool(shown.steps) and any(event.line is not None for _, event in shown.events)
    dots = [
        _make_dot(event, role, f"{key}-{number}", steps, follows_known=known)
        for number, (role, event) in enumerate(shown.events, 1)
    ]
    unit = shown.events[0][1].unit if shown.events else "ns"
    description = "One row for each event, every cause above its effects. The table below has the same events."
    svg = draw_diagram(dots, unit=unit, title=shorten(summary, CELL_CHARACTERS), description=description, key=key)
    return f'<div class="scroll">{svg}</div>'


def _steps_by_message(events: Sequence[Event]) -> list[ListedEdge]:
    """Find the messages between events by their keys, for an answer that does not list steps."""
    sends = {event.sends: event.position for event in events if event.sends is not None}
    return [
        ListedEdge(sends[event.receives], event.position, MESSAGE)
        for event in events
        if event.receives in sends and sends[event.receives] != event.position
    ]


def _make_dot(event: Event, role: str, anchor: str, steps: Collection[ListedEdge], *, follows_known: bool) -> Dot:
    into = [step for step in steps if step.effect == event.position]
    within = [step.cause for step in into if step.kind in (LINE, START, JOIN)]
    title = [
        f"{event.process} · {label(event)}",
        f"{event.id}, {role}, wall time {format_wall_time(event.time, event.unit)}",
        attributes_text(event.attributes) or "",
    ]
    return Dot(
        anchor,
        event.process,
        event.seq,
        label(event),
        shorten("\n".join(filter(None, title)), TITLE_CHARACTERS),
        ROLES.get(role, diagram.PAST),
        event.time,
        position=event.position,
        causes=tuple(step.cause for step in into if step.kind not in (LINE, START, JOIN)),
        loud=bool(event.error) or is_loud(event.attributes),
        line=event.line,
        follows=tuple(within) if follows_known else None,
        assumed=frozenset(step.cause for step in into if step.kind not in (LINE, START, JOIN, MESSAGE)),
    )


def _write_events(shown: ShownEvents, key: str) -> str:
    rows = [
        [
            role,
            event.id,
            label(event),
            format_wall_time(event.time, event.unit),
            attributes_text(event.attributes) or "",
        ]
        for role, event in shown.events
    ]
    ids = [f"{key}-{number}" for number in range(1, len(rows) + 1)]
    return _write_table(["role", "event", "what happened", "wall time", "attributes"], rows, ids)


def _write_rows(table: pa.Table) -> str:
    columns = (column.to_pylist() for column in table.columns)
    rows = [["" if value is None else str(value) for value in row] for row in zip(*columns, strict=True)]
    return _write_table(table.column_names, rows)


def _write_table(heads: Sequence[str], rows: Sequence[Sequence[str]], ids: Sequence[str] = ()) -> str:
    body = []
    for number, row in enumerate(rows):
        cells = "".join(f"<td>{escape(shorten(cell, CELL_CHARACTERS))}</td>" for cell in row)
        body.append(f'<tr id="{ids[number]}">{cells}</tr>' if ids else f"<tr>{cells}</tr>")
    head = "".join(f'<th scope="col">{escape(shorten(name, CELL_CHARACTERS))}</th>' for name in heads)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead>\n<tbody>{"".join(body)}</tbody></table></div>'


def _draw_clocks(clocks: Clocks) -> str:
    # As an image: the file has a style of its own, which would apply to the whole page of the notebook.
    image = b64encode(draw_clocks(clocks, clocks.unit).encode()).decode()
    return f'<div class="scroll"><img alt="{escape(clocks.summary())}" src="data:image/svg+xml;base64,{image}"></div>'


def _write_notes(notes: Sequence[str]) -> str:
    items = [f"<li>{escape(shorten(note, 2 * CELL_CHARACTERS))}</li>" for note in notes[:NOTES]]
    if len(notes) > NOTES:
        items.append(f"<li>and {len(notes) - NOTES:,} more</li>")
    return f"<ul>{''.join(items)}</ul>" if items else ""
