"""The mappings that come with ledto and whose files are recognised, each as a format of its own.

What a format means is in ``src/ledto/sources/mappings/NAME.toml``; ``--format ecs`` and ``--mapping ecs`` read the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Final

from ledto.sources.mapping.source import Mapped


@dataclass(frozen=True)
class BuiltInMapping(Mapped):
    """A source of a format that is a mapping."""

    @property
    def note(self) -> str | None:
        """Say which mapping reads the files: the user may want another."""
        return f"{self.name} is read by the mapping {self.name} that comes with ledto"


@dataclass(frozen=True)
class EcsLogs(BuiltInMapping):
    """A source of logs in the Elastic Common Schema."""

    name: ClassVar[str] = "ecs"
    mapping: str | None = field(default="ecs", init=False)


@dataclass(frozen=True)
class GoogleCloudLogs(BuiltInMapping):
    """A source of Google Cloud's log entries."""

    name: ClassVar[str] = "gcp"
    mapping: str | None = field(default="gcp", init=False)


@dataclass(frozen=True)
class CloudTrail(BuiltInMapping):
    """A source of the API calls that AWS CloudTrail recorded."""

    name: ClassVar[str] = "cloudtrail"
    mapping: str | None = field(default="cloudtrail", init=False)


@dataclass(frozen=True)
class KubernetesAudit(BuiltInMapping):
    """A source of audit events of the Kubernetes API server."""

    name: ClassVar[str] = "k8s-audit"
    mapping: str | None = field(default="k8s-audit", init=False)


@dataclass(frozen=True)
class Tetragon(BuiltInMapping):
    """A source of what Tetragon saw on machines."""

    name: ClassVar[str] = "tetragon"
    mapping: str | None = field(default="tetragon", init=False)


@dataclass(frozen=True)
class Falco(BuiltInMapping):
    """A source of Falco's alerts."""

    name: ClassVar[str] = "falco"
    mapping: str | None = field(default="falco", init=False)


BUILT_IN: Final[dict[str, type[BuiltInMapping]]] = {
    source.name: source for source in (EcsLogs, GoogleCloudLogs, CloudTrail, KubernetesAudit, Tetragon, Falco)
}
"""The formats that are mappings, by name."""
