"""The locked requirements of the service: all of them, each by its hashes."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[2]
LOCK = (ROOT / "requirements" / "serve.lock").read_text()
EXTRAS = ("serve", "java")


def locked() -> Iterator[tuple[Requirement, list[str]]]:
    """Each entry, with its hashes."""
    for entry in re.sub(r"\\\n", " ", re.sub(r"(?m)^#.*\n", "", LOCK)).splitlines():
        said, *hashes = re.split(r"\s+--hash=", entry.strip())
        yield Requirement(said), hashes


def applies(requirement: Requirement, extra: str = "") -> bool:
    return requirement.marker is None or requirement.marker.evaluate({"extra": extra})


PINNED = {canonicalize_name(each.name): each for each, _ in locked() if applies(each)}


def version_of(requirement: Requirement) -> Version:
    (pin,) = requirement.specifier
    assert pin.operator == "=="
    return Version(pin.version)


def asked(extra: str) -> Iterator[Requirement]:
    """What an extra of ours needs, those it is made of included."""
    told = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for each in map(Requirement, told[extra]):
        if each.name == "ledto":
            for further in each.extras:
                yield from asked(further)
        else:
            yield each


def test_every_package_is_named_by_version_and_hash_and_by_no_host() -> None:
    """An image would be made of whatever a registry, or whoever sits before it, gives out that day."""
    entries = [*locked()]
    assert len(entries) > 20
    for requirement, hashes in entries:
        assert version_of(requirement)
        assert requirement.url is None
        assert hashes, requirement
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", each) for each in hashes), requirement
    assert "://" not in LOCK
    assert "--" not in LOCK.replace("--hash=", "")


def test_nothing_that_the_service_needs_is_missing() -> None:
    """`pip install --require-hashes` would refuse the lock; `make lock` makes it anew."""
    for extra in EXTRAS:
        for requirement in asked(extra):
            pin = PINNED.get(canonicalize_name(requirement.name))
            assert pin is not None, f"{requirement} is not locked: make lock"
            assert version_of(pin) in requirement.specifier, f"{pin} is not {requirement}: make lock"
    for name, pin in PINNED.items():
        try:
            found = distribution(name)
        except PackageNotFoundError:
            continue
        if Version(found.version) != version_of(pin):
            continue  # Another version may need other packages.
        for needed in map(Requirement, found.requires or []):
            if any(applies(needed, extra) for extra in ("", *pin.extras)):
                assert canonicalize_name(needed.name) in PINNED, f"{needed}, of {pin}, is not locked: make lock"
