"""What wall clocks say of messages, as text: how many were received before they were sent, and between whom."""

from __future__ import annotations

from typing import Any

from whence.cli.output import say
from whence.cli.rendering import print_rows
from whence.cli.wording import counted
from whence.durations import show_duration


def print_between_clocks(found: dict[str, Any] | None, unit: str) -> None:
    """A manifest's entry ``between_clocks``; nothing where there is none."""
    if found is None:
        return
    early = found["before_cause"]
    if not found["messages"]:
        say("no message has times of two clocks at its ends, so that wall clocks put none before its cause")
        return
    by = f", by up to {show_duration(found['earlier_by'], unit)}" if early else ""
    say(
        f"{counted(found['messages'], 'message')} between clocks: {early:,} received before they were sent{by}; "
        f"{found['ties']:,} at the same time"
    )
    own = found["within_one_clock"]
    if own["before_cause"]:
        say(
            f"{own['before_cause']:,} of {own['messages']:,} within one clock go back, by up to "
            f"{show_duration(own['earlier_by'], unit)}: that clock was set back"
        )
    if early:
        print_rows(
            ["from", "to", "messages", "before", "by up to", "ties"],
            [
                (
                    each["sender"],
                    each["receiver"],
                    f"{each['messages']:,}",
                    f"{each['before_cause']:,}",
                    show_duration(each["earlier_by"], unit),
                    f"{each['ties']:,}",
                )
                for each in found["pairs"]
            ],
        )
        if more := found["pairs_before_cause"] - len(found["pairs"]):
            say(f"and between {more:,} more pairs of clocks")
