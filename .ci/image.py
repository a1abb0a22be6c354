"""Run the steps of the Dockerfile without a container runtime, and the service from what they made.

Each stage is a folder. For the base image it has a copy of this Python in /usr/local and this machine's /usr, read-only and
without its Java. The last stage is then used as a hardened container would be: its root is read-only, the user is 10001
without capabilities, there is loopback and no other network. The service is started with the image's command; it has to
pass the image's health check, take a report, and answer a question about it.

Needs root, for mounts. `make check-deploy` runs this.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dockerfile_parse import DockerfileParser

ROOT = Path(__file__).resolve().parents[1]
WORK = ROOT / "build" / "image"
FROM_ETC = (
    *("group", "hosts", "ld.so.conf", "ld.so.conf.d", "login.defs", "nsswitch.conf", "passwd", "pip.conf"),
    *("resolv.conf", "ssl/certs/ca-certificates.crt"),
)
"""What programs need of /etc."""
NOT_COPIED = ("site-packages", "test", "tests", "idlelib", "tkinter", "__pycache__")


@dataclass
class ImageStage:
    """A stage of the Dockerfile, as far as it has run."""

    name: str
    files: Path
    """Its root, without /usr, except for /usr/local."""
    environment: dict[str, str]
    settings: dict[str, str] = field(default_factory=dict)
    """The last value of USER, WORKDIR, VOLUME, CMD, ENTRYPOINT and HEALTHCHECK."""

    def find(self, path: str | Path) -> Path:
        """Find a file of the stage on this machine."""
        return self.files / str(path).lstrip("/")

    def count_bytes(self) -> int:
        """Count the bytes of its files on disk."""
        return int(_output(["du", "-s", "--block-size=1", self.files]).split()[0])


def main() -> int:
    """Build and run; return 1 with the reason if a step fails."""
    if os.getuid() != 0:
        sys.exit("image: needs root, for mounts")
    shutil.rmtree(WORK, ignore_errors=True)
    stages = build()
    first, *_, last = stages.values()
    size = last.count_bytes() - first.count_bytes()
    print(f"image: {len(stages)} stages built; the last has {size / 1e6:.0f} MB more than its base image", flush=True)
    status = run_service(last)
    if status == 0:
        shutil.rmtree(WORK)
    return status


def build() -> dict[str, ImageStage]:
    """Run the steps of all stages."""
    stages: dict[str, ImageStage] = {}
    stage: ImageStage | None = None
    for step in DockerfileParser(str(ROOT)).structure:
        kind, value = step["instruction"], step["value"]
        if kind == "COMMENT":
            continue
        if kind == "FROM":
            stage = _begin(value.split(), stages)
            stages[stage.name] = stage
            continue
        assert stage is not None
        if kind == "ENV":
            stage.environment |= {name: _expand(text, stage) for name, text in _pairs(value)}
        elif kind == "COPY":
            _copy(value.split(), stage, stages)
        elif kind == "RUN":
            print(f"image: {stage.name}: {value[:100]}", flush=True)
            _run_step(stage, value)
        else:
            stage.settings[kind] = value
            if kind == "WORKDIR":
                stage.find(value).mkdir(parents=True, exist_ok=True)
    return stages


def _begin(words: list[str], stages: dict[str, ImageStage]) -> ImageStage:
    base, name = words[0], words[-1]
    files = WORK / name
    if base in stages:
        below = stages[base]
        subprocess.run(["cp", "-a", "--reflink=auto", below.files, files], check=True)
        return ImageStage(name, files, dict(below.environment), dict(below.settings))
    for folder in ("dev", "proc", "run", "tmp", "usr", "var/tmp"):
        (files / folder).mkdir(parents=True)
    for link in ("bin", "lib", "lib64", "sbin"):
        (files / link).symlink_to(f"usr/{link}")
    for needed in FROM_ETC:
        if (path := Path("/etc", needed)).exists():
            (files / "etc" / needed).parent.mkdir(parents=True, exist_ok=True)
            subprocess.run(["cp", "-aL", path, files / "etc" / needed], check=True)
    local = files / "usr" / "local"
    shutil.copytree(sys.base_prefix, local, symlinks=True, ignore=shutil.ignore_patterns(*NOT_COPIED))
    (local / "bin" / "python").unlink(missing_ok=True)
    (local / "bin" / "python").symlink_to(f"python{sys.version_info[0]}.{sys.version_info[1]}")
    stage = ImageStage(name, files, {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"})
    _run_step(stage, "ldconfig && python -m ensurepip && ln -sf pip3 /usr/local/bin/pip")
    return stage


def _copy(words: list[str], stage: ImageStage, stages: dict[str, ImageStage]) -> None:
    *sources, target = [word for word in words if not word.startswith("--")]
    origin = next((word.partition("=")[2] for word in words if word.startswith("--from=")), None)
    folder = Path(stage.settings.get("WORKDIR", "/")) / target
    for source in sources:
        path = ROOT / source if origin is None else stages[origin].find(source)
        into = stage.find(folder)
        if not path.is_dir():
            into = into / path.name if target.endswith(("/", ".")) else into
            into.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, into)
            continue
        ignored = shutil.ignore_patterns("__pycache__") if origin is None else None
        shutil.copytree(path, into, symlinks=True, ignore=ignored, dirs_exist_ok=True)


def _run_step(stage: ImageStage, command: str) -> None:
    settings = {name: value for name, value in os.environ.items() if name.startswith("PIP_") or "proxy" in name.lower()}
    where = stage.settings.get("WORKDIR", "/")
    subprocess.run(
        ["unshare", "--mount", "sh", "-ec", _mounts(stage), "sh", "sh", "-ec", f"cd {where}\n{command}"],
        env=settings | stage.environment,
        check=True,
    )


def _mounts(stage: ImageStage, *, sealed: bool = False) -> str:
    """Write the script that mounts the stage's root, and then runs its arguments in it.

    A `sealed` root is read-only, with a folder for temporary files and /data, and has loopback as its only network.
    """
    place = WORK / "root"
    place.mkdir(exist_ok=True)
    lines = [
        f"mount --bind {stage.files} {place}",
        f"mount --bind /usr {place}/usr",
        f"mount -o remount,bind,ro {place}/usr",
        f"mount --bind {stage.files}/usr/local {place}/usr/local",
        f"[ ! -d {place}/usr/lib/jvm ] || mount -t tmpfs tmpfs {place}/usr/lib/jvm",
        f"mount -t proc proc {place}/proc",
        f"mount --rbind /dev {place}/dev",
    ]
    if not sealed:
        lines.append(f'exec chroot {place} "$@"')
        return "\n".join(lines)
    lines += [
        f"mount --bind {WORK}/data {place}/data",
        f"mount -o remount,bind,ro {place}",
        f"mount -o remount,bind,ro {place}/usr/local",
        f"mount -t tmpfs -o mode=1777,noexec,nosuid,size=1g tmpfs {place}/tmp",
        "ip link set lo up",
        f'exec chroot {place} setpriv --reuid {{user}} --regid {{user}} --clear-groups --no-new-privs --inh-caps=-all "$@"',
    ]
    return "\n".join(lines)


def run_service(stage: ImageStage) -> int:
    """Start the image's command in hardened surroundings; return 0 if it is healthy, stores and answers."""
    user = stage.settings["USER"].partition(":")[0]
    data = WORK / "data"
    data.mkdir()
    os.chown(data, int(user), int(user))
    writer, reader = secrets.token_hex(16), secrets.token_hex(16)
    tokens = stage.find("/run/secrets/tokens")
    tokens.parent.mkdir(parents=True)
    tokens.write_text(f"writer image {writer}\nreader image {reader}\n")
    tokens.chmod(0o644)
    healthy = shlex.join(json.loads(re.sub(r"^.*?CMD ", "", stage.settings["HEALTHCHECK"], flags=re.DOTALL)))
    command = shlex.join([*json.loads(stage.settings["ENTRYPOINT"]), *json.loads(stage.settings["CMD"])])
    script = TRY.format(command=command, healthy=healthy, writer=writer, reader=reader)
    mounts = _mounts(stage, sealed=True).replace("{user}", user)
    done = subprocess.run(
        ["unshare", "--mount", "--net", "--pid", "--fork", "--uts", "sh", "-ec", mounts, "sh", "sh", "-ec", script],
        env=stage.environment,
        check=False,
    )
    return done.returncode


TRY = """
cd /data
if touch /opt/written /usr/written 2> /dev/null; then echo "image: the root can be written"; exit 1; fi
{command} &
service=$!
ask() {{ python - "$@" <<'END'
import sys, urllib.request
path, token, *body = sys.argv[1:]
headers = {{"Authorization": "Bearer " + token, "Content-Type": "application/x-ndjson"}}
request = urllib.request.Request("http://127.0.0.1:4318" + path, body[0].encode() if body else None, headers)
print(urllib.request.urlopen(request, timeout=10).read().decode())
END
}}
seconds=0
until {healthy} 2> /dev/null; do
    seconds=$((seconds + 1))
    [ $seconds -lt 120 ] && kill -0 $service || {{ echo "image: the health check never passed"; exit 1; }}
    sleep 1
done
echo "image: healthy as user $(id -u)"
ask /v1/reports {writer} '{{"process": "image", "seq": 1, "time": '$(date +%s)'000000000, "name": "it runs"}}'
seconds=0
until ask '/v1/history/why?event=image:1' {reader} 2> /dev/null | grep -q 'it runs'; do
    seconds=$((seconds + 1))
    [ $seconds -lt 180 ] || {{ echo "image: no answer"; ask /readyz {reader}; exit 1; }}
    sleep 1
done
echo "image: the report is in the history, and a question about it is answered"
kill -TERM $service
wait $service
echo "image: ended with status $?"
"""


def _pairs(value: str) -> list[tuple[str, str]]:
    return [(name, text) for name, _, text in (word.partition("=") for word in shlex.split(value))]


def _expand(text: str, stage: ImageStage) -> str:
    return re.sub(r"\$(\w+)", lambda match: stage.environment.get(match[1], ""), text)


def _output(command: Sequence[str | Path]) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    sys.exit(main())
