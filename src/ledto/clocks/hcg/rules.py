"""The ordering rules of HCG as pure functions on plain values, the sound ones and the paper's own side by side.

Source: Kawanami, Enokido & Takizawa, Group Communication Protocol with Heterogeneous Clock, sections 3.2 to 3.4. The
paper states its rules as "if"; only their converse can hold, and only after repairs. Both forms are here, to be compared:

=======================================  ============================================================================
the paper, taken literally               what is sound
=======================================  ============================================================================
3.3: concurrent if Tr - Ts <= 2 delta    concurrent if Tr - Ts < 2 delta: a round trip can take exactly 2 delta
3.3: VT_j then stays what it was         VT_j is 1 + the largest VT_j of what may precede: see `group.log`
3.4: concurrent if RTs are within 2 tau  two sends of one process can be that close; LT decides within the tolerance
3.4: precedes if RT and LT are greater   *may* precede: greater clocks prove nothing
=======================================  ============================================================================

All times of one call are in one unit. Nothing here reads a clock or keeps state, so every rule can be applied to a
recorded trace.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

Skew = Literal["pairwise", "utc"]
"""What tau bounds: the difference of any two clocks of a subgroup, or of each clock from UTC."""

Rules = Literal["sound", "literal"]


@dataclass(frozen=True, slots=True)
class NetworkBounds:
    """The bounds on the clocks and the network of one subgroup."""

    skew: int
    """How far one clock of the subgroup can be ahead of another at one moment."""
    delta: int
    """The least delay of a message inside the subgroup; see `ledto.clocks.hcg.structure.Subgroup`."""

    @property
    def tolerance(self) -> int:
        """How far the RT of a cause can be ahead of its effect's in another process; negative: it must be behind."""
        return self.skew - self.delta


class SentLocally(NamedTuple):
    """The fields of a message sent in a subgroup that the rules compare."""

    sender: str
    rt: int
    """The sender's physical clock at the send."""
    lt: int
    """The sender's linear clock at the send."""
    ts: int | None = None
    """When the gateway sent it into the subgroup, by the gateway's own clock; None if a member sent it."""
    tr: int | None = None
    """When the gateway received it, by the same clock; None if it did not reach the gateway."""


def largest_skew(tau: int, skew: Skew) -> int:
    """Return how far one clock can be ahead of another: tau if it bounds pairs, 2 tau if it bounds |clock - UTC|."""
    return tau if skew == "pairwise" else 2 * tau


def may_precede(a: SentLocally, b: SentLocally, bounds: NetworkBounds) -> bool:
    """Tell whether the send of `a` can have happened before the send of `b`. False is certain, True is not.

    Between two processes the first message out of `a` took `delta` at least, so ``b.rt >= a.rt + delta - skew``. When
    the gateway sent `a` and received `b`, both ways took `delta`, so ``b.tr >= a.ts + 2 delta`` (equality is possible).
    """
    if a.lt >= b.lt:
        return False
    if a.sender == b.sender:
        return True
    if a.rt - b.rt > bounds.tolerance:
        return False
    return a.ts is None or b.tr is None or b.tr - a.ts >= 2 * bounds.delta


def literal_precedes(a: SentLocally, b: SentLocally, *, tau: int, delta: int) -> bool:
    """Apply the theorem of 3.4 and the test of 3.3 as printed: what the paper calls `a` causally preceding `b`."""
    if a.ts is not None and b.tr is not None and b.tr - a.ts <= 2 * delta:
        return False
    if abs(b.rt - a.rt) > 2 * tau:
        return b.rt > a.rt and b.lt > a.lt
    return b.lt > a.lt


def literal_never_causal(a: SentLocally, b: SentLocally, *, tau: int) -> bool:
    """Apply the prose of 3.4 as printed: RTs within 2 tau mean that neither was sent after the other arrived."""
    return abs(a.rt - b.rt) <= 2 * tau


def literal_level(largest: int, last_ts: int | None, tr: int, *, delta: int) -> int:
    """Compute VT_j of a message that the gateway received at `tr`, by 3.2 and 3.3 as printed.

    `largest` is the largest VT_j in the gateway's log; `last_ts` is when it last sent into the subgroup. The paper
    leaves open which logged message 3.3 compares with; this reading uses the last one sent, logged under the gateway's
    VT.
    """
    return largest if last_ts is not None and tr - last_ts <= 2 * delta else largest + 1


def vt_less(a: Mapping[str, int], b: Mapping[str, int]) -> bool:
    """Tell whether ``a < b`` for vectors: nowhere greater and somewhere less. A missing element is zero."""
    return all(level <= b.get(name, 0) for name, level in a.items()) and any(
        level > a.get(name, 0) for name, level in b.items()
    )
