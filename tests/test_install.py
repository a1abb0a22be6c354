from __future__ import annotations

import ast
import subprocess
import sys
import venv
from importlib.metadata import requires
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

import ledto
import ledto.clocks
from tests.test_extras import ASK, SHOP, TELL

ROOT = Path(__file__).parents[1]
SOURCE = Path(ledto.__file__).parent
MOST_ASK_MB = 250
"""What an environment with ``ledto[ask]`` may take, with the byte code of what was used (docs/decisions/0034)."""
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


@pytest.fixture(scope="module")
def release() -> Any:
    """The program of `make wheel`, as a module."""
    spec = spec_from_file_location("wheel_of_ledto", ROOT / ".ci" / "wheel.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Release()


def test_every_module_is_in_one_wheel_of_a_release(release: Any) -> None:
    """A room that no wheel has is missing for every user; one that both have is deleted with either."""
    base, engine = release.files("ledto"), release.files("ledto-engine")
    every = {path.relative_to(SOURCE.parent) for path in SOURCE.rglob("*") if "__pycache__" not in path.parts}
    assert sorted(base + engine) == sorted(path for path in every if (SOURCE.parent / path).is_file())
    assert len(base) + len(engine) == len({*base, *engine})
    assert Path("ledto/clocks/lamport.py") in base
    assert Path("ledto/questions/why.py") in engine


def test_extras_of_a_release_bring_the_engine(release: Any) -> None:
    """Who installs `ledto[spark]` from an index must get what a clone has, of the same version."""
    base, engine = release.project("ledto"), release.project("ledto-engine")
    pinned = f"ledto-engine=={ledto.__version__}"
    assert base["dependencies"] == []
    assert {name for name, needs in base["optional-dependencies"].items() if pinned not in needs} == {"interop", "java"}
    assert {"ask", "sql", "notebook", "cli", "spark", "serve", "papers"} <= set(base["optional-dependencies"])
    assert engine["dependencies"] == [f"ledto=={ledto.__version__}"]
    assert "scripts" in engine
    assert "scripts" not in base


@pytest.mark.slow
def test_who_only_asks_installs_little(tmp_path: Path) -> None:
    """In a real environment with that extra alone, all questions are answered, and little of the disk is taken."""
    venv.create(tmp_path / "env", with_pip=False)
    python = tmp_path / "env" / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check", "--python", str(python)]
    subprocess.run([*pip, "install", "--no-compile", f"{ROOT}[ask]"], check=True)
    (tmp_path / "shop.jsonl").write_text(SHOP)
    done = subprocess.run([python, "-I", "-c", TELL + ASK], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    taken = int(
        subprocess.run(["du", "-sm", tmp_path / "env"], capture_output=True, text=True, check=True).stdout.split()[0]
    )
    assert taken < MOST_ASK_MB
