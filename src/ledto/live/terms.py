"""State what a live history promises and assumes. Terms are fixed when its stream begins, and stored with it."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np

from ledto.causality.bounded_stamps import default_tick
from ledto.errors import LedtoError
from ledto.history.deliver.files import Terms, agree_terms
from ledto.history.deliver.rows import Blocks

CLOSE_ROWS = 50_000
"""A part of the stream is closed when it has this many events: solved once more and written for good. Until then every
micro-batch solves it anew, which at this size takes some tenths of a second."""
CLOSE_AFTER = 600_000_000_000
"""A part of the stream is closed after this many nanoseconds, however few events it has."""


class OtherTerms(LedtoError):
    """The given terms differ from those the stream began with."""


@dataclass(frozen=True)
class LiveTerms:
    """Bounds and policies of a stream. Lengths are nanoseconds."""

    policies: tuple[str, ...] = ("exact",)
    """``NAME`` or ``NAME:PHI``; the delivery log is in the order of the first."""
    eps: int = 50_000_000
    """How far two clocks differ at most."""
    delta: int = 2_000_000_000
    """How long a report takes to arrive at most; one that takes longer is late."""
    tick: int | None = None
    phi: str | None = None
    elements: int | None = None
    close_rows: int = CLOSE_ROWS
    close_after: int = CLOSE_AFTER

    def __post_init__(self) -> None:
        """Raise `ValueError` for terms that no stream can have: when they are given, not when the stream begins."""
        for name in ("eps", "delta"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} is 0 or more, not {getattr(self, name)}")
        self.delivering  # noqa: B018

    @cached_property
    def tick_ns(self) -> int:
        """The tick of stamps, in ns."""
        return default_tick(self.eps) if self.tick is None else self.tick

    @cached_property
    def delivering(self) -> Terms:
        """The policies, in ticks."""
        return agree_terms(
            self.policies,
            Blocks(*[np.empty(0, np.int64)] * len(fields(Blocks))),
            eps=self.eps,
            delta=self.delta,
            tick=self.tick_ns,
            phi=self.phi,
            elements=self.elements,
            as_known=True,
        )

    @property
    def order_policy(self) -> str:
        """The name of the policy that orders the delivery log."""
        return self.delivering.options[0].name

    @property
    def settling(self) -> int:
        """How long after its time a delivery may still change its place, under a policy that looks at the whole buffer.

        A report with a smaller stamp in the buffer holds others up. Its stamp is final when its causes have come, which
        is at most 2 eps after the reports that it holds up are due (`ledto.live.emit`).
        """
        rule = self.delivering.policies[self.order_policy].rule()
        return 2 * self.eps + 2 * self.tick_ns if rule.checks_queue and rule.uses_c else 0

    @property
    def patience(self) -> int:
        """How long after a time everything dated before it has come and is delivered."""
        return self.delta + 3 * self.eps + 4 * self.tick_ns
