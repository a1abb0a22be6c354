"""The command ``ledto``. Importing this package needs nothing; running a command needs its extra."""

from __future__ import annotations

import atexit
import gc
import sys

from ledto.folders import NO_PLACE, keep_compiled_code

EXTRAS = {"typer": "cli", "rich": "cli", "numpy": "spark", "numba": "spark", "pyspark": "spark"}
EXTRAS |= {"pyarrow": "spark", "duckdb": "spark", "pandas": "spark"}
EXTRAS |= {"matplotlib": "papers", "grpc": "papers"}
EXTRAS |= {"fastapi": "serve", "uvicorn": "serve", "nats": "serve"}
"""Which extra brings a module that a command may miss."""


OBJECTS_BEFORE_COLLECTING = 50_000
"""Python looks for garbage after 700 new objects. Imports make 100,000 that stay: a seventh of the time of a question."""


def _end_quickly() -> None:
    """Spare the last look at every object, a fifth of a question. DuckDB complains of objects that it did not see go."""
    if "duckdb" not in sys.modules:
        gc.freeze()


def app() -> None:
    """Run the command line; a missing dependency is named with the extra that brings it, and so is a missing place."""
    gc.set_threshold(OBJECTS_BEFORE_COLLECTING)
    atexit.register(_end_quickly)
    if not keep_compiled_code():
        sys.stderr.write(f"{NO_PLACE}\n")
        sys.exit(1)
    try:
        from ledto.cli.main import cli
        from ledto.cli.output import guarded_streams

        with guarded_streams():
            cli()
    except ModuleNotFoundError as missing:
        extra = EXTRAS.get((missing.name or "").partition(".")[0])
        if extra is None:
            raise
        sys.stderr.write(f"This command needs {missing.name}: pip install 'ledto[{extra}]'\n")
        sys.exit(2)
