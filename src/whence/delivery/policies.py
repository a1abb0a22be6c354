"""Policies of delivery, as data: frozen values that choose between causal order and delay.

| policy | delivers | source |
|---|---|---|
| `Exact` | in causal order, after ``c + delta + eps`` | Approximate Causal Observer, 3.2 |
| `DAPW` | after the fraction phi of that wait | 4, deliver after partial wait |
| `CBD` | like DAPW, but after every smaller message in the buffer | 4, check before delivery |
| `PhysicalOnly` | CBD with c and kn taken as 0 | 6.5, there called DPC1 |
| `PhysicalAndC` | CBD with kn taken as 0 | 6.5, there called DPC2 |
| `whence.delivery.ses.SES` | by what the stamps record, with a time-out; needs no bounds | Berry, 4.3 |

`eps` bounds the difference between any two clocks, `delta` the time a report takes by its sender's clock. HAZARD: both
are promises about the system. If a report takes longer, it is delivered late and flagged. If clocks drift further, or a
receive can fall between two ticks (then make eps one tick more than the drift), the order can be wrong without a flag.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from decimal import Decimal
from fractions import Fraction
from types import MappingProxyType
from typing import ClassVar, TypeAlias

from whence.delivery.rules import MILLION, DeliveryRule

UNITS = ("tick", "s", "ms", "us", "ns")
"""The units of eps, delta, r and arrival: one unit for all of them, in whole numbers."""
MAX_TICKS = 1 << 42
"""The most ticks of eps and of delta, so that due times stay exact in 64 bits: 73 minutes in nanoseconds."""

Phi: TypeAlias = Fraction | Decimal | float | str
"""A fraction of the full wait: 0.4, "0.4", "40%", Fraction(2, 5). Kept as a whole number of millionths."""


@dataclass(frozen=True, slots=True)
class Exact:
    """Causal order without violations, as long as eps and delta hold. The order is the sort by `DeliveryRule.key`."""

    name: ClassVar[str] = "exact"

    eps: int
    delta: int
    elements: int | None = field(default=None, kw_only=True)
    unit: str = field(default="tick", kw_only=True)

    def __post_init__(self) -> None:
        _check(self)

    def rule(self) -> DeliveryRule:
        return DeliveryRule(MILLION, self.eps, self.delta, self.elements, uses_c=True, checks_queue=False)


@dataclass(frozen=True, slots=True)
class DAPW:
    """Deliver after partial wait: each message at its due time, or on arrival if that is later; ties by key."""

    name: ClassVar[str] = "dapw"

    phi: Phi
    eps: int
    delta: int
    elements: int | None = field(default=None, kw_only=True)
    unit: str = field(default="tick", kw_only=True)

    def __post_init__(self) -> None:
        _check(self)

    def rule(self) -> DeliveryRule:
        return DeliveryRule(_millionths(self.phi), self.eps, self.delta, self.elements, uses_c=True, checks_queue=False)


@dataclass(frozen=True, slots=True)
class CBD:
    """Check before delivery: as DAPW, and never before a smaller message that is in the buffer."""

    name: ClassVar[str] = "cbd"

    phi: Phi
    eps: int
    delta: int
    elements: int | None = field(default=None, kw_only=True)
    unit: str = field(default="tick", kw_only=True)

    def __post_init__(self) -> None:
        _check(self)

    def rule(self) -> DeliveryRule:
        return DeliveryRule(_millionths(self.phi), self.eps, self.delta, self.elements, uses_c=True, checks_queue=True)


@dataclass(frozen=True, slots=True)
class PhysicalOnly:
    """CBD by the senders' physical clocks alone (the paper's DPC1)."""

    name: ClassVar[str] = "physical-only"

    phi: Phi
    eps: int
    delta: int
    unit: str = field(default="tick", kw_only=True)

    def __post_init__(self) -> None:
        _check(self)

    def rule(self) -> DeliveryRule:
        return DeliveryRule(_millionths(self.phi), self.eps, self.delta, 0, uses_c=False, checks_queue=True)


@dataclass(frozen=True, slots=True)
class PhysicalAndC:
    """CBD by the largest clock reading each sender knew of, without kn (the paper's DPC2)."""

    name: ClassVar[str] = "physical-and-c"

    phi: Phi
    eps: int
    delta: int
    unit: str = field(default="tick", kw_only=True)

    def __post_init__(self) -> None:
        _check(self)

    def rule(self) -> DeliveryRule:
        return DeliveryRule(_millionths(self.phi), self.eps, self.delta, 0, uses_c=True, checks_queue=True)


StampPolicy: TypeAlias = Exact | DAPW | CBD | PhysicalOnly | PhysicalAndC
"""The policies that order by bounded stamps ``<r, c, kn>``, online and in batch."""

POLICIES: Mapping[str, type[StampPolicy]] = MappingProxyType(
    {policy.name: policy for policy in (Exact, DAPW, CBD, PhysicalOnly, PhysicalAndC)}
)
"""The policies that order by bounded stamps, by name. `whence.delivery.ses.SES` orders by recorded stamps, online only."""


def policy_from_name(name: str, **options: object) -> StampPolicy:
    """Make a policy from the words of a command line: ``policy_from_name("cbd", phi="40%", eps="5ms", delta="10ms")``.

    Text is parsed as numbers; a unit after eps or delta becomes the policy's unit, and must be the same everywhere.
    """
    if name not in POLICIES:
        raise ValueError(f"no delivery policy is called {name!r:.60}; there are {', '.join(POLICIES)}")
    policy = POLICIES[name]
    allowed = [option.name for option in fields(policy)]
    unknown = [option for option in options if option not in allowed]
    if unknown:
        raise ValueError(f"policy {name} has no option {unknown[0]!r:.60}; it takes {', '.join(allowed)}")
    needed = [option for option in ("phi", "eps", "delta") if option in allowed and option not in options]
    if needed:
        raise ValueError(f"policy {name} needs {', '.join(needed)}")
    values = dict(options)
    units = {str(values["unit"])} if "unit" in values else set()
    for option in ("eps", "delta"):
        value = values[option]
        if isinstance(value, str):
            values[option], unit = _read_ticks(option, value)
            units |= {unit} if unit else set()
    if len(units) > 1:
        raise ValueError(
            f"eps, delta and unit are in different units ({', '.join(sorted(units))}): give all in one of them"
        )
    if units:
        values["unit"] = units.pop()
    if isinstance(values.get("elements"), str):
        values["elements"] = _read_ticks("elements", str(values["elements"]))[0]
    return policy(**values)  # type: ignore[arg-type]


def _read_ticks(option: str, text: str) -> tuple[int, str]:
    """Parse a whole number and its unit, which may be empty."""
    match = re.fullmatch(r"\s*(\d+)\s*([a-z]*)\s*", text)
    if match is None:
        raise ValueError(f"{option} is a whole number, with a unit or without (10, 10ms), not {text!r:.60}")
    return int(match[1]), match[2]


def _check(policy: StampPolicy) -> None:
    """Refuse values that no policy can have, and keep numbers in one form so that equal policies compare equal."""
    for name in ("eps", "delta"):
        object.__setattr__(policy, name, _whole(name, getattr(policy, name), least=0, most=MAX_TICKS))
    if not isinstance(policy, Exact):
        object.__setattr__(policy, "phi", Fraction(_millionths(policy.phi), MILLION))
    if isinstance(policy, Exact | DAPW | CBD) and policy.elements is not None:
        elements = _whole(
            "elements", policy.elements, least=1, most=policy.eps + 1, meaning=" (at most eps + 1), or None for all"
        )
        object.__setattr__(policy, "elements", elements)
    if policy.unit not in UNITS:
        raise ValueError(f"unit is one of {', '.join(UNITS)}, not {policy.unit!r:.60}")


def _whole(name: str, value: object, *, least: int, most: int, meaning: str = "") -> int:
    """Return a whole number in range; `ValueError` for anything else."""
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = least - 1
    if isinstance(value, bool) or not least <= number <= most:
        raise ValueError(f"{name} is a whole number from {least} to {most}{meaning}, not {value!r:.60}")
    return number


def _millionths(phi: Phi) -> int:
    """Return phi as a whole number of millionths; `ValueError` if it is not one."""
    expected = "phi is a fraction of the full wait from 0 to 1 (or 0% to 100%)"
    if isinstance(phi, bool):
        raise ValueError(f"{expected}, not {phi}")
    text = str(phi).strip()
    try:
        # The shortest decimal spelling of a float is what its writer meant: 0.1 is one tenth.
        exact = Fraction(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except (ValueError, ZeroDivisionError):
        raise ValueError(f"{expected}, not {phi!r:.60}") from None
    if not 0 <= exact <= 1:
        raise ValueError(f"{expected}, not {phi!r:.60}")
    millionths = exact * MILLION
    if millionths.denominator != 1:
        raise ValueError(
            f"phi has at most six decimals, not {phi!r:.60}: round it, for instance to {round(float(exact), 6)}"
        )
    return int(millionths)
