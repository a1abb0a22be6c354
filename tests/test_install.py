from __future__ import annotations

import ast
import subprocess
import sys
from importlib.metadata import requires
from pathlib import Path

import ledto

SOURCE = Path(ledto.__file__).parent
HEAVY = {"numpy", "numba", "pyspark", "pyarrow", "pandas", "duckdb", "typer", "rich", "matplotlib"}


def test_stamping_loads_nothing_heavy() -> None:
    """An application that only stamps its events must not pay for Spark in memory or start-up time."""
    code = "import sys, ledto, ledto.clocks; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "ledto.clocks" in loaded
    assert HEAVY & set(loaded) == set()


def test_the_base_install_pulls_in_nothing() -> None:
    """`pip install ledto` in an application brings ledto alone; everything else is asked for by an extra."""
    assert [requirement for requirement in requires("ledto") or [] if "extra ==" not in requirement] == []


def test_clocks_need_python_only() -> None:
    """One import from elsewhere, even inside a function, and stamping fails in an application that has only ledto."""
    imported: set[tuple[str, str]] = set()
    for module in SOURCE.glob("clocks/**/*.py"):
        for node in ast.walk(ast.parse(module.read_text())):
            if isinstance(node, ast.Import):
                imported |= {(module.name, alias.name) for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported.add((module.name, "." * node.level + (node.module or "")))
    assert any(name.startswith("ledto.clocks.") for _, name in imported)
    standard = {(module, name) for module, name in imported if name.split(".")[0] in sys.stdlib_module_names}
    assert {(m, name) for m, name in imported - standard if not f"{name}.".startswith("ledto.clocks.")} == set()
