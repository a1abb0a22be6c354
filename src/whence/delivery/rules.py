"""What a policy means for one report: its place in the order, and when it is due.

In the terms of Kulkarni & Arumugam, Approximate Causal Observer (2005), sections 3 and 4:

- ``key(m) = (r + c, kn[c], kn[c-1], ..., process, seq)``: the tuple that their `less` compares. The paper ends it with
  the process; `seq` is added so that two messages of one process and one tick have an order too.
- ``due(m) = ceil(r + phi * (c + delta + eps))``: their `delcond`, rounded up to a whole tick.

Partial stamps (section 6.5) drop parts of the stamp from both: `uses_c` False treats c as 0, and `elements` keeps the
first k elements of kn (0 for none).
"""

from __future__ import annotations

from dataclasses import dataclass

from whence.events.report import Report

MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class DeliveryRule:
    """A policy as numbers; made by ``policy.rule()``.

    All arithmetic is on integers: phi is a whole number of millionths, so every machine rounds every due time alike.
    """

    phi_millionths: int
    eps: int
    delta: int
    elements: int | None
    """How many elements of kn are compared; None for all that the stamps have."""
    uses_c: bool
    checks_queue: bool
    """Check before delivery (CBD): a message also waits for every smaller one in the buffer that is not due."""

    def compared(self, carried: int) -> int:
        """Return how many elements are compared if stamps have `carried`; `ValueError` if the stamps have too few."""
        if self.elements is None:
            return carried
        if self.elements > carried:
            raise ValueError(
                f"the policy compares {self.elements} kn elements and the stamps carry {carried}: "
                f"stamp with at least {self.elements}, or set elements to {carried or None} in the policy"
            )
        return self.elements

    def key(self, report: Report) -> tuple[int, ...]:
        """Return the report's sort key: sorted by it, causes come before effects, unless reports are late."""
        c = report.c if self.uses_c else 0
        return (report.r + c, *report.kn[: self.compared(len(report.kn))], report.process, report.seq)

    def due(self, report: Report) -> int:
        """Return the first reading of the observer's clock at which the report may be delivered."""
        wait = (report.c if self.uses_c else 0) + self.delta + self.eps
        return report.r - (-self.phi_millionths * wait) // MILLION
