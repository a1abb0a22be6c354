"""The commands of ``ledto``, and the module of each. Running a command imports its module only."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

from ledto import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping

COMMANDS: Final[Mapping[str, str]] = {
    "observe": "observe",
    "serve": "serve",
    "report": "report",
    "export": "export",
    "simulate": "simulate",
    "reproduce": "reproduce",
    "why": "questions",
    "impact": "questions",
    "relation": "questions",
    "explain": "questions",
    "concurrent": "questions",
    "cut": "questions",
    "order": "tables",
    "processes": "check",
    "check": "check",
    "clocks": "clocks",
    "quarantine": "check",
    "sql": "tables",
}
"""By command, in the order of the help: the module of ``ledto.cli`` that has a function of that name."""

MOVED: Final[Mapping[tuple[str, str], str]] = {
    ("observe", option): "ledto simulate --history" for option in ("--phi", "--elements", "--tick", "--as-known")
}
"""By command and option that it does not have: the command that has it."""


class _LedtoCommand(TyperCommand):
    """A command that names the place of options which users look for here."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except Exception as failure:
            # Typer has no public name for the error of an unknown option, which alone has `possibilities`.
            refused: Any = failure
            place = MOVED.get((self.name or "", getattr(refused, "option_name", "")))
            if place is not None and hasattr(refused, "possibilities"):
                refused.message = f"No such option {refused.option_name}: use `{place}`"
                refused.possibilities = None
            raise


class _Commands(TyperGroup):
    """A group that imports a command when it is run, or listed with its help."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        function = getattr(import_module(f"ledto.cli.{COMMANDS[cmd_name]}"), cmd_name)
        alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        alone.command(cmd_name, cls=_LedtoCommand)(function)
        return typer.main.get_command(alone)


cli = typer.Typer(
    cls=_Commands,
    help="What could have caused this event?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from ledto.cli.output import say

        say(f"ledto {__version__}")
        raise typer.Exit


@cli.callback()
def _commands(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Guard stdout and stderr for the command that follows."""
    from ledto.cli.output import guard_streams

    context.with_resource(guard_streams())
