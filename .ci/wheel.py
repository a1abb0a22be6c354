"""Build the two wheels of a release, install them into empty environments, and check them. `make wheel` runs this.

`ledto` has what an application embeds, and nothing else; `ledto-engine` has all the rest, in the same folder `ledto/`. The
projects of both are made from pyproject.toml, so that no list stands twice (docs/decisions/0035-two-wheels.md). Exits with
a message for each thing that is not as it should be.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tomllib
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zipfile import ZipFile

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "ledto"
BUILT = ROOT / "build" / "wheel"
PROJECTS = ROOT / "build" / "release"
EMPTY = ROOT / "build" / "empty"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())

BASE, ENGINE = "ledto", "ledto-engine"
CONTRACT = "the base wheel imports nothing of the engine"
"""The contract of import-linter that lists what is in each wheel."""
IN_CLONES = ("dev",)
"""Extras that a release has not."""
WITHOUT_ENGINE = ("interop", "java")
"""Extras that need the base wheel alone."""
MOST_BYTES = 1_000_000
"""The limit of the base wheel, and of the files that it installs. Byte code, which pip makes of them, is counted apart."""
MOST_SECONDS = 0.1
"""What `import ledto` may take, at best."""
TRIES = 7
INTEGRATIONS = ("grpc", "httpx", "opentelemetry", "msgpack")
"""Packages of the application that a module of the base wheel works with, and may miss."""

IMPORT = """
import time
start = time.perf_counter()
import ledto
print(time.perf_counter() - start)
"""
EMBED = """
import sys
from ledto.clocks import LamportClock, VectorClock
import ledto.reporting
LamportClock("shop").local(), VectorClock("shop").send()
outside = {name.partition(".")[0] for name in sys.modules} - sys.stdlib_module_names - {"ledto", "__main__"}
print(*sorted(name for name in outside if not name.startswith("_")))
"""
"""Stamp an event, as an application does that has installed nothing else."""
IMPORT_ALL = f"""
import pkgutil, ledto
from importlib import import_module
for module in pkgutil.walk_packages(ledto.__path__, "ledto.", onerror=lambda name: None):
    try:
        import_module(module.name)
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in {INTEGRATIONS!r}:
            print(module.name, "imports", missing.name)
"""
"""Import every module that is there; print those that need what is not there."""
ASK = """
import ledto
for ask in (lambda: ledto.open("h"), lambda: ledto.observe("log.jsonl", "h")):
    try:
        ask()
    except ledto.errors.LedtoError as refused:
        print(refused)
"""


class Release:
    """The files of the two wheels, and their projects."""

    def __init__(self) -> None:
        (contract,) = (each for each in PROJECT["tool"]["importlinter"]["contracts"] if each["name"] == CONTRACT)
        self.rooms: dict[str, list[str]] = {BASE: contract["source_modules"], ENGINE: contract["forbidden_modules"]}
        self.version = _version()

    def files(self, wheel: str) -> list[Path]:
        """List the files of a wheel below ``src``. Raises `SystemExit` for a room that the contract does not list."""
        files = [SOURCE / "__init__.py", SOURCE / "py.typed"] if wheel == BASE else []
        for room in self.rooms[wheel]:
            place = ROOT / "src" / room.replace(".", "/")
            found = [*_below(place)] if place.is_dir() else [place.with_suffix(".py")]
            if not all(path.is_file() for path in found) or not found:
                sys.exit(f"pyproject.toml, the contract {CONTRACT!r}: there is no {room}")
            files += found
        return [path.relative_to(ROOT / "src") for path in files]

    def project(self, wheel: str) -> dict[str, Any]:
        """Make the table ``project`` of a wheel's pyproject.toml from the one of the clone."""
        project = {name: value for name, value in PROJECT["project"].items() if name not in ("dynamic", "scripts")}
        project |= {"name": wheel, "version": self.version}
        if wheel == ENGINE:
            del project["optional-dependencies"]
            project |= {"description": "The engine of ledto: what its extras run.", "readme": "engine.md"}
            return project | {"dependencies": [f"{BASE}=={self.version}"], "scripts": PROJECT["project"]["scripts"]}
        extras = {
            name: list(needs) for name, needs in project["optional-dependencies"].items() if name not in IN_CLONES
        }
        for name, needs in extras.items():
            if name not in WITHOUT_ENGINE:
                needs.append(f"{ENGINE}=={self.version}")
        return project | {"optional-dependencies": extras}

    def write(self, wheel: str) -> Path:
        """Write the project of a wheel, with copies of its files; return its folder."""
        folder = PROJECTS / wheel
        shutil.rmtree(folder, ignore_errors=True)
        for path in self.files(wheel):
            (folder / "src" / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / "src" / path, folder / "src" / path)
        for path in (ROOT / "README.md", ROOT / "LICENSE", ROOT / "release" / "engine.md"):
            shutil.copy2(path, folder)
        hatch = {"build": {"targets": {"wheel": {"packages": ["src/ledto"]}}}}
        (folder / "pyproject.toml").write_text(
            _toml({"build-system": PROJECT["build-system"], "project": self.project(wheel), "tool": {"hatch": hatch}})
        )
        return folder

    def build(self) -> dict[str, Path]:
        """Build both wheels; return their paths."""
        shutil.rmtree(BUILT, ignore_errors=True)
        for wheel in (BASE, ENGINE):
            _pip("wheel", "--no-deps", "-w", str(BUILT), str(self.write(wheel)))
        return {wheel: BUILT / f"{wheel.replace('-', '_')}-{self.version}-py3-none-any.whl" for wheel in (BASE, ENGINE)}


def check_files(wheels: dict[str, Path]) -> Iterator[str]:
    """Check that the wheels have the files of ``src/ledto`` between them, each once."""
    inside = {
        wheel: {name for name in ZipFile(path).namelist() if name.startswith("ledto/")}
        for wheel, path in wheels.items()
    }
    if twice := inside[BASE] & inside[ENGINE]:
        yield f"in both wheels: {', '.join(sorted(twice)[:5])}"
    sources = {str(path.relative_to(ROOT / "src")) for path in _below(SOURCE)}
    if missing := sources - inside[BASE] - inside[ENGINE]:
        yield f"in no wheel: {', '.join(sorted(missing)[:5])}; list the room in the contract {CONTRACT!r} of pyproject.toml"
    if unknown := (inside[BASE] | inside[ENGINE]) - sources:
        yield f"in a wheel, and not in src/ledto: {', '.join(sorted(unknown)[:5])}"


def check_base(wheel: Path) -> Iterator[str]:
    """Check the base wheel alone in an empty environment; print its figures."""
    python = _environment(str(wheel))
    packages = {path.name.partition("-")[0] for path in _site(python).glob("*.dist-info")}
    size, sizes = (
        wheel.stat().st_size,
        {path: path.stat().st_size for path in _site(python).rglob("*") if path.is_file()},
    )
    byte_code = sum(bytes_ for path, bytes_ in sizes.items() if path.suffix == ".pyc")
    installed = sum(sizes.values()) - byte_code
    seconds = min(float(_output(python, IMPORT)) for _ in range(TRIES))
    print(f"{BASE}: {size / 1e6:.2f} MB, installed {installed / 1e6:.2f} MB (each at most {MOST_BYTES / 1e6:.2f})")
    print(f"byte code of all its modules: {byte_code / 1e6:.2f} MB")
    print(f"import ledto: {seconds * 1e3:.1f} ms, the best of {TRIES} (at most {MOST_SECONDS * 1e3:.0f})")
    if packages != {BASE}:
        yield f"the base install brings in {', '.join(sorted(packages - {BASE}))}; make it an extra"
    if outside := _output(python, EMBED).split():
        yield f"stamping an event imports {', '.join(outside)}; import it inside the function that needs it"
    for lines in _output(python, IMPORT_ALL).splitlines():
        yield f"the base wheel lacks what it needs: {lines}"
    if max(size, installed) > MOST_BYTES:
        yield f"the base wheel has {size} bytes, and {installed} once installed, over {MOST_BYTES}: unzip -l {wheel}"
    if seconds > MOST_SECONDS:
        yield f"import ledto takes {seconds:.3f} s; find out why: {python} -X importtime -c 'import ledto'"
    refusals = _output(python, ASK).splitlines()
    if len(refusals) != 2 or not all("pip install 'ledto[ask]'" in refusal for refusal in refusals):
        yield f"without the engine, a question should name the extra, and says {refusals}"


def check_both(version: str) -> Iterator[str]:
    """Check that an extra of the base wheel brings the engine, and that the two work as one."""
    python = _environment("--find-links", str(BUILT), f"{BASE}[cli]=={version}")
    command = [str(python.with_name("ledto"))]
    printed = subprocess.run([*command, "--version"], capture_output=True, text=True, check=False)
    if printed.stdout.strip() != f"ledto {version}":
        yield f"ledto --version of ledto[cli] gives {printed.stdout!r} {printed.stderr!r}"
    refused = subprocess.run([*command, "processes", "--help"], capture_output=True, text=True, check=False)
    if refused.returncode:
        yield f"ledto processes --help of ledto[cli] gives {refused.stderr!r}"


def main() -> None:
    """Check all of it; print the figures."""
    release = Release()
    wheels = release.build()
    print(f"{ENGINE}: {wheels[ENGINE].stat().st_size / 1e6:.2f} MB")
    failures = [*check_files(wheels), *check_base(wheels[BASE]), *check_both(release.version)]
    if failures:
        sys.exit("\n".join(failures))


def _below(folder: Path) -> Iterator[Path]:
    """List the files below a folder that belong into a wheel."""
    yield from (path for path in sorted(folder.rglob("*")) if path.is_file() and "__pycache__" not in path.parts)


def _version() -> str:
    for line in (SOURCE / "__init__.py").read_text().splitlines():
        if line.startswith("__version__ = "):
            return line.partition("= ")[2].strip('"')
    sys.exit("src/ledto/__init__.py has no __version__")


def _toml(tables: dict[str, Any]) -> str:
    """Write tables of texts, lists of texts and further tables. JSON spells texts and lists of them as TOML does."""

    def lines(table: dict[str, Any], name: str) -> Iterator[str]:
        yield f"[{name}]"
        for key, value in table.items():
            if not isinstance(value, dict):
                yield f"{key} = {json.dumps(value, ensure_ascii=False)}"
        for key, value in table.items():
            if isinstance(value, dict):
                yield from lines(value, f"{name}.{key}")

    return "\n".join(line for name, table in tables.items() for line in lines(table, name)) + "\n"


def _environment(*arguments: str) -> Path:
    """Install into an empty environment; return its Python."""
    venv.create(EMPTY, clear=True, with_pip=False)
    python = EMPTY / "bin" / "python"
    _pip("--python", str(python), "install", *arguments)
    return python


def _site(python: Path) -> Path:
    (folder,) = python.parents[1].glob("lib/python*/site-packages")
    return folder


def _pip(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "pip", "-q", "--disable-pip-version-check", *arguments], check=True)


def _output(python: Path, code: str) -> str:
    # -I: nothing from the current folder or the environment, only what is installed.
    return subprocess.run([python, "-I", "-c", code], check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    main()
