"""The commands of ``whence``, one module each."""

from __future__ import annotations

import typer

from whence.cli import questions
from whence.cli.clocks import clocks
from whence.cli.export import export
from whence.cli.observe import observe
from whence.cli.output import guarded_streams
from whence.cli.questions_tables import order, sql
from whence.cli.report import report
from whence.cli.reproduce import reproduce
from whence.cli.serve import serve
from whence.cli.simulate import simulate

cli = typer.Typer(
    help="What could have caused this event?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
cli.command()(observe)
cli.command()(serve)
cli.command()(report)
cli.command()(export)
cli.command()(simulate)
cli.command()(reproduce)
for question in (
    questions.why,
    questions.impact,
    questions.relation,
    questions.explain,
    questions.concurrent,
    questions.cut,
    order,
    questions.processes,
    questions.check,
    clocks,
    questions.quarantine,
    sql,
):
    cli.command()(question)


@cli.callback()
def _commands(context: typer.Context) -> None:
    """Guards the streams of whatever command follows; and keeps commands named even if there is only one."""
    context.with_resource(guarded_streams())
