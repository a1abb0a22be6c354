"""What each order of the events gets wrong, and what it costs to wait for it, as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from whence.cli.wording import counted
from whence.durations import show_duration

if TYPE_CHECKING:
    from rich.table import Table


def ledger_lines(ledger: dict[str, Any]) -> list[str]:
    """What became of the reports, and why those that were quarantined were."""
    counts = {name: ledger.get(name, 0) for name in ("reports", "delivered", "duplicate", "quarantined")}
    _, *outcomes = (f"{count:,} {name}" for name, count in counts.items())
    lines = [f"{counted(counts['reports'], 'report')} in = {' + '.join(outcomes)}"]
    lines += [f"  {count:,} {code}" for code, count in ledger.get("reasons", {}).items()]
    if missing := ledger.get("missing_causes"):
        name = "event names" if missing == 1 else "events name"
        lines.append(f"  {missing:,} delivered {name} a cause that nobody reported")
    return lines


def channel_lines(channels: dict[str, int]) -> list[str]:
    """How sends and receives without names of messages were matched; nothing where there are none."""
    if not any(channels.values()):
        return []
    counts = {
        name.replace("_", " "): channels.get(name, 0) for name in ("matched", "unmatched_receives", "unmatched_sends")
    }
    shown = ", ".join(f"{count:,} {name}" for name, count in counts.items())
    doubts = {
        name.partition("_")[2]: count for name, count in channels.items() if name.startswith("ambiguous_") and count
    }
    why = f" ({', '.join(f'{count:,} {name}' for name, count in doubts.items())})" if doubts else ""
    left_out = channels.get("left_out", 0)
    unknown = f", of which {left_out:,} follow no send, for it would be a guess" if left_out else ""
    return [f"channels: {shown}; {channels.get('ambiguous', 0):,} ambiguous{why}{unknown}"]


def orders_table(wall_clock: dict[str, Any], policies: dict[str, Any], unit: str) -> Table:
    """Plain wall-clock order and each policy of delivery, from a manifest's entries of these names."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(
        title="Wrong in each order, and how long it waits",
        title_justify="left",
        caption="messages received before they were sent; events before one of their causes; pairs of cause and effect",
        caption_justify="left",
        box=SIMPLE_HEAD,
        pad_edge=False,
    )
    table.add_column("order", no_wrap=True)
    for name in ("messages", "events", "pairs", "p50", "p99", "longest", "late"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_row("wall clock", *_counts(wall_clock.get("violations", {})), "", "", "", "")
    for name, found in policies.items():
        waits = [_wait(found.get("delays", {}), which, unit) for which in ("p50", "p99", "max")]
        table.add_row(name, *_counts(found.get("violations", {})), *waits, f"{found.get('late', 0):,}")
    return table


def _counts(violations: dict[str, Any]) -> tuple[str, ...]:
    if violations.get("events") == 0:
        return ("no times",) * 3
    return tuple(_number(violations.get(name)) for name in ("messages_inverted", "before_cause", "pairs"))


def _number(value: int | None) -> str:
    return "not known" if value is None else f"{value:,}"


def _wait(delays: dict[str, Any], which: str, unit: str) -> str:
    value = delays.get(which)
    return "" if value is None else show_duration(int(value), unit)
