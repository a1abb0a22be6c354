"""Parse policies as a command line names them: ``NAME`` or ``NAME:PHI``, such as ``exact`` and ``cbd:0.6``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from fractions import Fraction

from whence.delivery.policies import POLICIES, Phi, StampPolicy, policy_from_name


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
        if elements is not None and _takes_option(self.policy, "elements"):
            options["elements"] = elements
        return policy_from_name(self.policy, **options)


def read_policies(texts: Sequence[str], *, phi: Phi | None = None) -> list[PolicyOption]:
    """Parse the texts, in their order; `phi` is for those that need one and do not have it.

    Raises `ValueError` that says what is allowed.
    """
    options: list[PolicyOption] = []
    for text in texts:
        name, colon, own_phi = text.partition(":")
        if name not in POLICIES:
            raise ValueError(f"no delivery policy is called {name!r:.60}; there are {', '.join(POLICIES)}")
        takes_phi = _takes_option(name, "phi")
        if colon and not takes_phi:
            raise ValueError(f"policy {name} always waits for all of its time and takes no phi: write {name}")
        chosen = own_phi if colon else phi
        if takes_phi and chosen is None:
            raise ValueError(
                f"policy {name} needs phi, the share of the full wait from 0 to 1: write {name}:0.6, or give phi for all"
            )
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


def _takes_option(policy: str, option: str) -> bool:
    """Tell whether a policy has this option."""
    return any(field.name == option for field in fields(POLICIES[policy]))
