"""A plugin of pytest for ``make test-bounds``: a run in which some kernel was never called compiled has failed.

Compiled code that is not called is not checked, and nobody would see that a new kernel was left out.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import ledto
from ledto.kernels import KERNELS

PACKAGE = Path(ledto.__file__).parent
_called: set[str] = set()
_left_out: list[str] = []


def all_kernels() -> set[str]:
    """The names of the kernels of all modules."""
    for module in PACKAGE.rglob("*.py"):
        if "from ledto.kernels import" in module.read_text(encoding="utf-8"):
            import_module(".".join(("ledto", *module.relative_to(PACKAGE).with_suffix("").parts)))
    return {name for name in KERNELS if name.startswith("ledto.")}


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Gather what this process called; the process that started the workers judges."""
    _called.update(name for name, kernel in KERNELS.items() if kernel.called["compiled"])
    sent: Any = getattr(session.config, "workeroutput", None)
    if sent is not None:
        sent["kernels"] = sorted(_called)
        return
    _left_out.extend(sorted(all_kernels() - _called))
    if _left_out:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take over what a worker called."""
    _called.update(getattr(node, "workeroutput", {}).get("kernels", ()))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say which kernels were left out."""
    if _left_out:
        terminalreporter.write_line(f"Never called compiled, so not checked: {', '.join(_left_out)}", red=True)
    else:
        terminalreporter.write_line(f"All {len(all_kernels())} kernels were called compiled")
