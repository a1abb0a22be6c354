"""The commands of ``ledto``, and the module of each. Running a command imports its module only."""

from __future__ import annotations

import os
import re
import shlex
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

from ledto import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping

HISTORY_VARIABLE: Final = "LEDTO_HISTORY"
"""The environment variable that names the history of commands which are given none."""
COMMANDS: Final[Mapping[str, str]] = {
    "observe": "observe",
    "map": "map",
    "serve": "serve",
    "report": "report",
    "export": "export",
    "simulate": "simulate",
    "reproduce": "reproduce",
    "find": "find",
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
    "schema": "schema",
}
"""By command, in the order of the help: the module of ``ledto.cli`` that has a function of that name."""

EXAMPLE: Final = re.compile(r"\n\n(?=(?:Example: )?ledto )")
"""Begins a paragraph of command lines in a help. They must not be wrapped, or they could not be copied."""
MOVED: Final[Mapping[tuple[str, str], str]] = {
    ("observe", option): "ledto simulate HISTORY" for option in ("--phi", "--elements", "--tick", "--as-known")
}
"""By command and option that it does not have: the command that has it."""


class _LedtoCommand(TyperCommand):
    """A command that takes a history left out from the environment, and names the place of options looked for here."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        given = self._complete(ctx, args)
        try:
            return super().parse_args(ctx, [*given])
        except Exception as failure:
            # Typer has no public name for the error of an unknown option, which alone has `possibilities`.
            refused: Any = failure
            if hasattr(refused, "possibilities") and (hint := self._find_place(ctx, refused.option_name)):
                refused.message = f"No such option {refused.option_name}: {hint}"
                refused.possibilities = None
            elif str(getattr(refused, "message", "")).startswith("Got unexpected extra argument"):
                refused.message += self._suggest_quotes(ctx, given)
            raise

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Name the arguments as the pages do: without the braces that Typer puts around those that are required."""
        return [piece.replace("{", "").replace("}", "") for piece in super().collect_usage_pieces(ctx)]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """List arguments and options in their panels, as plain text: half as long as in Typer's boxes."""
        panels: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            if (record := param.get_help_record(ctx)) is not None:
                name, text = record
                if param.param_type_name == "argument":
                    name = name.partition(" <")[0]
                panel = getattr(param, "rich_help_panel", None) or f"{param.param_type_name.capitalize()}s"
                panels.setdefault(panel, []).append((name, text))
        for panel, records in panels.items():
            with formatter.section(panel):
                formatter.write_dl(records)

    def _complete(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the history of LEDTO_HISTORY first, unless as many arguments are given as the command can take."""
        history = os.environ.get(HISTORY_VARIABLE)
        arguments = [param for param in self.get_params(ctx) if param.param_type_name == "argument"]
        if not history or not arguments or arguments[0].envvar != HISTORY_VARIABLE:
            return args
        values, *_ = self.make_parser(ctx).parse_args([*args])
        return args if values.get(arguments[-1].name) is not None else [history, *args]

    def _suggest_quotes(self, ctx: Any, args: list[str]) -> str:
        """Write the last arguments as one text in quotes, which is what they are most likely meant to be."""
        values, extra, _ = self.make_parser(ctx).parse_args([*args])
        *before, last = [param for param in self.get_params(ctx) if param.param_type_name == "argument"]
        if not before or not isinstance(values.get(last.name), str):
            return ""
        return f": quote a text of several words, as in {shlex.quote(' '.join([values[last.name], *extra]))}"

    def _find_place(self, ctx: Any, option: str) -> str | None:
        """Say what to type instead of an option that the command does not have; None if nothing is known of it."""
        if place := MOVED.get((self.name or "", option)):
            return f"use `{place}`"
        if option == "--history" and any(param.name == "history" for param in self.get_params(ctx)):
            _, *arguments = self.collect_usage_pieces(ctx)
            written = " ".join(["ledto", self.name or "", *(arguments or ["--to DIR"])])
            return f"the history comes first, as in `{written}`" if arguments else f"use `{written}`"
        return None


class _Commands(TyperGroup):
    """A group that imports a command when it is run, or listed with its help."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        function = getattr(import_module(f"ledto.cli.{COMMANDS[cmd_name]}"), cmd_name)
        alone = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
        alone.command(cmd_name, cls=_LedtoCommand)(function)
        command = typer.main.get_command(alone)
        command.help = EXAMPLE.sub("\n\n\b\n", command.help or "")
        return command


cli = typer.Typer(
    cls=_Commands,
    help="What could have caused this event?",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
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
