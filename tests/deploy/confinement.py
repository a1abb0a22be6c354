"""Run a command in surroundings like those of a hardened container, made with the kernel's namespaces.

Everything is read-only except the folders that are named; there is no network, no name for the user's number, and no
address for the host's name.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

import ledto

UNKNOWN_USER = 54_321
SETUP = """
set -e
hostname nowhere-$$
awk '{{ print $5 }}' /proc/self/mountinfo | while read -r place; do
    place=$(printf '%b' "$place")
    case $place in /proc*) continue ;; esac
    for options in ro ro,nosuid,nodev,noexec; do
        mount -o remount,bind,$options "$place" 2> /dev/null && break
    done
done || true
for folder in {writable}; do mount -t tmpfs -o mode=1777,size={size} tmpfs "$folder"; done
{network}
exec prlimit --nofile={files}:{files} setpriv --no-new-privs unshare --user --map-user={user} --map-group={user} -- "$@"
"""
LOOPBACK = (
    "import fcntl, socket, struct\n"
    "with socket.socket() as any: fcntl.ioctl(any, 0x8914, struct.pack('16sh14x', b'lo', 0x41))"
)
"""Set the interface lo up and running (SIOCSIFFLAGS), as container runtimes do even without a network."""


def run_confined(
    arguments: Sequence[str | Path],
    *,
    writable: Sequence[Path] = (),
    environment: dict[str, str] | None = None,
    loopback: bool = False,
    files: int = 256,
    size: str = "64m",
) -> subprocess.CompletedProcess[str]:
    """Run with these variables and no others. `writable` folders are empty in there, and gone afterwards.

    Skips the test where the system lets nobody make namespaces.
    """
    if shutil.which("unshare") is None or _confine(["true"], (), {}).returncode:
        pytest.skip("this system lets nobody make namespaces of his own (unshare)")
    given = {"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1", **(environment or {})}
    return _confine(arguments, writable, given, loopback=loopback, files=files, size=size)


def _confine(
    arguments: Sequence[str | Path],
    writable: Sequence[Path],
    environment: dict[str, str],
    *,
    loopback: bool = False,
    files: int = 256,
    size: str = "64m",
) -> subprocess.CompletedProcess[str]:
    script = SETUP.format(
        writable=" ".join(shlex.quote(str(folder)) for folder in writable),
        network=shlex.join([sys.executable, "-c", LOOPBACK]) if loopback else "",
        user=UNKNOWN_USER,
        files=files,
        size=size,
    )
    spaces = ["--mount", "--net", "--uts", "--ipc"]
    return subprocess.run(
        ["unshare", "--map-root-user", *spaces, "sh", "-c", script, "sh", *map(str, arguments)],
        env={"PATH": os.environ["PATH"], **environment},
        cwd=Path(ledto.__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    )
