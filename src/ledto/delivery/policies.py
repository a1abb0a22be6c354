"""Policies of delivery: frozen values that choose between causal order and delay, by name or as objects.

A policy becomes a `DeliveryRule`, which gives each report its place in the order and the tick when it is due. In the terms
of Kulkarni & Arumugam, Approximate Causal Observer (2005), sections 3 and 4:

- ``key(m) = (r + c, kn[c], kn[c-1], ..., process, seq)``: the tuple that their `less` compares. The paper ends it with
  the process; `seq` is added so that two messages of one process and one tick have an order too.
- ``due(m) = ceil(r + phi * (c + delta + eps))``: their `delcond`, rounded up to a whole tick.

Partial stamps (section 6.5) drop parts of the stamp from both: `uses_c` False treats c as 0, and `elements` keeps the
first k elements of kn (0 for none). On a command line a policy is ``NAME`` or ``NAME:PHI``: ``exact``, ``cbd:0.6``.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from decimal import Decimal
from fractions import Fraction
from types import MappingProxyType
from typing import ClassVar, TypeAlias

from ledto.events.report import Report

UNITS = ("tick", "s", "ms", "us", "ns")
"""The units of eps, delta, r and arrival: one unit for all of them, in whole numbers."""
MAX_TICKS = 1 << 42
"""The most ticks of eps and of delta, so that due times stay exact in 64 bits: 73 minutes in nanoseconds."""
MILLION = 1_000_000
"""Phi is counted in millionths."""

Phi: TypeAlias = Fraction | Decimal | float | str
"""A fraction of the full wait: 0.4, "0.4", "40%", Fraction(2, 5). Kept as a whole number of millionths."""


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
"""The policies that order by bounded stamps, by name. `ledto.delivery.ses.SES` orders by recorded stamps, online only."""

PAPER_NAMES: Mapping[str, str] = MappingProxyType({"dpc1": PhysicalOnly.name, "dpc2": PhysicalAndC.name})
"""The paper's names of two policies, which ``ledto simulate`` takes as well."""
WHOLE_WAIT = "1"
"""The phi of ``ledto simulate``, if none is given."""


def read_paper_name(text: str) -> str:
    """Replace a name of the paper by ours: ``dpc1:0.6`` becomes ``physical-only:0.6``."""
    name, colon, phi = text.partition(":")
    return f"{PAPER_NAMES.get(name, name)}{colon}{phi}"


@dataclass(frozen=True, slots=True)
class PolicyOption:
    """One policy of a command line, before eps and delta are known."""

    policy: str
    phi: Fraction | None

    @property
    def name(self) -> str:
        """The name of the policy's deliveries: ``exact``, ``cbd-0.6``."""
        return self.policy if self.phi is None else f"{self.policy}-{float(self.phi):g}"

    def in_ticks(self, *, eps_ticks: int, delta_ticks: int, elements: int | None = None) -> StampPolicy:
        """Make the policy; `elements` is for policies that compare kn."""
        options: dict[str, object] = {"eps": eps_ticks, "delta": delta_ticks}
        if self.phi is not None:
            options["phi"] = self.phi
        if elements is not None and takes_option(self.policy, "elements"):
            options["elements"] = elements
        return policy_from_name(self.policy, **options)


def read_policies(texts: Sequence[str], *, phi: Phi | None = None) -> list[PolicyOption]:
    """Parse the texts, in their order; `phi` is for those that need one and do not have it.

    Raises `ValueError` that says what is allowed.
    """
    options: list[PolicyOption] = []
    for text in texts:
        name, colon, own_phi = text.partition(":")
        if name in PAPER_NAMES:
            raise ValueError(f"ledto simulate takes {name}; here it is called {PAPER_NAMES[name]}")
        if name not in POLICIES:
            raise ValueError(f"no delivery policy is called {name!r:.60}; there are {', '.join(POLICIES)}")
        takes_phi = takes_option(name, "phi")
        if colon and not takes_phi:
            raise ValueError(f"policy {name} always waits for all of its time and takes no phi: write {name}")
        chosen = own_phi if colon else phi
        if takes_phi and chosen is None:
            raise ValueError(f"policy {name} needs phi, the share of the full wait from 0 to 1: write {name}:0.6")
        checked = policy_from_name(name, eps=0, delta=0, **({"phi": chosen} if takes_phi else {}))
        option = PolicyOption(name, Fraction(checked.phi) if takes_phi else None)  # type: ignore[union-attr]
        if option in options:
            raise ValueError(f"policy {option.name} is given twice: name each once")
        options.append(option)
    return options


def policies_from_options(
    texts: Sequence[str], *, eps: int, delta: int, tick: int, phi: Phi | None = None, elements: int | None = None
) -> dict[str, StampPolicy]:
    """Make the policies that the texts name, by name, in ticks; eps, delta and tick are in one unit.

    Both are rounded up: cut to ticks, a difference of two times can be one tick more than the times' own.
    """
    if tick < 1:
        raise ValueError(f"tick is 1 or more, not {tick}")
    ticks = {"eps_ticks": -(-eps // tick), "delta_ticks": -(-delta // tick)}
    return {option.name: option.in_ticks(**ticks, elements=elements) for option in read_policies(texts, phi=phi)}


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


def takes_option(policy: str, option: str) -> bool:
    """Tell whether a policy has this option."""
    return any(field.name == option for field in fields(POLICIES[policy]))


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


def check_phi(phi: Phi) -> None:
    """Raise `ValueError`, which says what is allowed, if this is no phi."""
    _millionths(phi)


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
