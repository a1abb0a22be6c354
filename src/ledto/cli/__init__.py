"""The command ``ledto``: takes a command line, and prints. One module is one command, or a group of them.

::

    ledto why shop.history web:2    ->   ledto.cli.questions.why("shop.history", "web:2")

Importing this package needs nothing. Running a command needs its extra.
"""

from __future__ import annotations

import atexit
import gc
import sys

from ledto.extras import MissingExtra, name_missing_extra

OBJECTS_BEFORE_COLLECTING = 50_000
"""New objects after which Python looks for garbage. Its default, 700, costs a question a seventh of its time: imports make
100,000 objects that stay."""


def _end_quickly() -> None:
    """Skip the last garbage collection: a fifth of a question's time. Not with DuckDB, which warns of open objects."""
    if "duckdb" not in sys.modules:
        gc.freeze()


def _is_utf8(argument: str) -> bool:
    """Return whether an argument can be written. Python keeps bytes that are not UTF-8 as lone surrogates."""
    return not any("\ud800" <= sign <= "\udfff" for sign in argument)


def app() -> None:
    """Run the command line. Exit with 2 and name the extra if a dependency is missing; with 1 if stdout is full."""
    gc.set_threshold(OBJECTS_BEFORE_COLLECTING)
    if any(not _is_utf8(argument) for argument in sys.argv):
        sys.stderr.write("an argument is not UTF-8; a file of such a name must be renamed\n")
        sys.exit(2)
    atexit.register(_end_quickly)
    try:
        with name_missing_extra():
            from ledto.cli.main import cli
            from ledto.cli.output import exit_when_stdout_is_full, guard_streams

            with guard_streams(), exit_when_stdout_is_full():
                cli()
    except MissingExtra as missing:
        sys.stderr.write(f"This command cannot run: {missing}\n")
        sys.exit(2)
