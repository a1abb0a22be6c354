"""Read the lengths of time of a command line, and refuse them as they were typed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import typer

from ledto.durations import explain_limit, read_duration

if TYPE_CHECKING:
    from ledto.history.deliver.files import TooManyTicks


def read_length(name: str, text: str | None, unit: str) -> int | None:
    """Parse the value of an option, in `unit`; raise `typer.BadParameter` if it is no length."""
    try:
        return None if text is None else read_duration(text, unit)
    except ValueError as refused:
        raise typer.BadParameter(str(refused), param_hint=f"--{name}") from None


def refuse_length(refused: TooManyTicks, typed: Mapping[str, str | None], unit: str) -> typer.BadParameter:
    """Tell the limit in the unit that was typed. A length that was not typed is told in the unit of the history."""
    text = typed.get(refused.name)
    limit = str(refused) if text is None else explain_limit(refused.limit, unit, text)
    return typer.BadParameter(limit, param_hint=f"--{refused.name}")
