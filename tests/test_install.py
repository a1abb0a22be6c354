from __future__ import annotations

import ast
import subprocess
import sys
from importlib.metadata import requires
from pathlib import Path

import ledto
import ledto.clocks

SOURCE = Path(ledto.__file__).parent
HEAVY = {"numpy", "numba", "pyspark", "pyarrow", "pandas", "duckdb", "typer", "rich", "matplotlib"}


def test_stamping_loads_nothing_heavy() -> None:
    """An application that only stamps its events must not pay for Spark in memory or start-up time."""
    code = "import sys, ledto, ledto.clocks; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "ledto.clocks" in loaded
    assert HEAVY & set(loaded) == set()


IMPORT_EACH_FIRST = """
import os, sys, traceback
from importlib import import_module
for name in sys.argv[1:]:
    child = os.fork()
    if not child:
        try:
            module, _, attribute = name.partition(":")
            getattr(import_module(module), attribute or "__name__")
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        sys.exit(f"{name} cannot be the first thing that a program imports")
"""
"""A process for each name, made from one that has imported nothing of ledto."""


def test_whatever_an_application_embeds_can_be_imported_first() -> None:
    """An import cycle shows only to a program that enters it at the wrong end: our own tests import much else before."""
    names = [f"ledto.clocks:{name}" for name in ledto.clocks.__all__]
    for folder in ("clocks",):
        modules = [path.relative_to(SOURCE.parent).with_suffix("") for path in (SOURCE / folder).rglob("*.py")]
        names += [".".join(module.parts).removesuffix(".__init__") for module in modules]
    assert "ledto.clocks:LamportClock" in names
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_EACH_FIRST, *names], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_base_install_pulls_in_nothing() -> None:
    """`pip install ledto` in an application brings ledto alone; everything else is asked for by an extra."""
    assert [requirement for requirement in requires("ledto") or [] if "extra ==" not in requirement] == []


def test_clocks_need_python_only() -> None:
    """One import from elsewhere, even inside a function, and stamping fails in an application that has only ledto."""
    imported: set[tuple[str, str]] = set()
    for module in (SOURCE / "errors.py", *SOURCE.glob("clocks/**/*.py")):
        for node in ast.walk(ast.parse(module.read_text())):
            if isinstance(node, ast.Import):
                imported |= {(module.name, alias.name) for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported.add((module.name, "." * node.level + (node.module or "")))
    assert any(name.startswith("ledto.clocks.") for _, name in imported)
    standard = {(module, name) for module, name in imported if name.split(".")[0] in sys.stdlib_module_names}
    ours = ("ledto.clocks.", "ledto.errors.")
    assert {(m, name) for m, name in imported - standard if not f"{name}.".startswith(ours)} == set()
