"""A sentence of a paper as data, with the check that decides whether results meet it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, dataclass
from typing import Generic, Literal, TypeVar

Results = TypeVar("Results")

Limit = Literal["paper", "ours"]
"""Who set what decides: a number or range that the paper prints, or our reading of its words."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was obtained, as text, and whether that is what the paper says."""

    obtained: str
    met: bool

    @property
    def word(self) -> str:
        """As the report has it."""
        return "met" if self.met else "missed"


@dataclass(frozen=True, slots=True)
class Stated(Generic[Results]):
    """Something a paper states, in our words."""

    where: str
    says: str
    means: str
    """The check, exactly."""
    figures: tuple[str, ...]
    """The figures whose results the check needs."""
    check: Callable[[Results], Verdict]
    _: KW_ONLY
    limit: Limit = "paper"


@dataclass(frozen=True, slots=True)
class Finding:
    """A statement held against one reading's results."""

    where: str
    says: str
    means: str
    limit: Limit
    reading: str
    verdict: Verdict


def all_of(parts: Iterable[tuple[str, bool]]) -> Verdict:
    """Met when every part is; parts that are not are marked in the text."""
    found = list(parts)
    return Verdict("; ".join(text if met else f"{text} (!)" for text, met in found), all(met for _, met in found))
