"""The commands of ``whence``, one module each."""

from __future__ import annotations

import typer

from whence.cli.reproduce import reproduce
from whence.cli.simulate import simulate

cli = typer.Typer(
    help="What could have caused this event?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
cli.command()(simulate)
cli.command()(reproduce)


@cli.callback()
def _commands() -> None:
    """Keeps commands named even if there is only one."""
