"""Build the wheel, install it alone into an empty environment, and check that it stays light. `make wheel` runs this.

Exits with a message if the installation brings in another package, is too large, or takes too long to import.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILT = ROOT / "build" / "wheel"
EMPTY = ROOT / "build" / "empty"

MOST_BYTES = 1_000_000
"""What `pip install ledto` may load: the wheel, since the base install has no dependencies."""
MOST_SECONDS = 0.1
"""What `import ledto` may take, at best."""
TRIES = 7

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
import ledto.events.report
LamportClock("shop").local(), VectorClock("shop").send()
outside = {name.partition(".")[0] for name in sys.modules} - sys.stdlib_module_names - {"ledto", "__main__"}
print(*sorted(name for name in outside if not name.startswith("_")))
"""
"""Stamp an event, as an application does that has installed nothing else."""


def build() -> Path:
    """Build the wheel of this working copy; return its path."""
    shutil.rmtree(BUILT, ignore_errors=True)
    _pip("wheel", "--no-deps", "-w", str(BUILT), str(ROOT))
    (wheel,) = BUILT.glob("ledto-*.whl")
    return wheel


def install(wheel: Path) -> tuple[Path, set[str]]:
    """Install the wheel without extras into an empty environment; return its Python and the packages it has."""
    venv.create(EMPTY, clear=True, with_pip=False)
    python = EMPTY / "bin" / "python"
    _pip("--python", str(python), "install", "--no-compile", str(wheel))
    packages = {path.name.partition("-")[0] for path in EMPTY.glob("lib/python*/site-packages/*.dist-info")}
    _output(python, IMPORT)  # compiles the modules, as the first use after any installation does
    return python, packages


def main() -> None:
    """Check all of it; print the figures."""
    wheel = build()
    size = wheel.stat().st_size
    python, packages = install(wheel)
    seconds = min(float(_output(python, IMPORT)) for _ in range(TRIES))
    outside = _output(python, EMBED).split()
    print(
        f"wheel: {size / 1e6:.2f} MB (at most {MOST_BYTES / 1e6:.2f}); installed with it: {len(packages) - 1} packages"
    )
    print(f"import ledto: {seconds * 1e3:.1f} ms, the best of {TRIES} (at most {MOST_SECONDS * 1e3:.0f})")
    failures = []
    if packages != {"ledto"}:
        failures.append(f"the base install brings in {', '.join(sorted(packages - {'ledto'}))}; make it an extra")
    if outside:
        failures.append(f"stamping an event imports {', '.join(outside)}; import it inside the function that needs it")
    if size > MOST_BYTES:
        failures.append(f"the wheel has {size} bytes, over the limit of {MOST_BYTES}; see them: unzip -l {wheel}")
    if seconds > MOST_SECONDS:
        failures.append(f"import ledto takes {seconds:.3f} s; find out why: {python} -X importtime -c 'import ledto'")
    if failures:
        sys.exit("\n".join(failures))


def _pip(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "pip", "-q", "--disable-pip-version-check", *arguments], check=True)


def _output(python: Path, code: str) -> str:
    # -I: nothing from the current folder or the environment, only what is installed.
    return subprocess.run([python, "-I", "-c", code], check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    main()
