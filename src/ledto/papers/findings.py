"""Describe a statement of a paper as data, with the check that decides whether results meet it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, dataclass
from typing import Generic, Literal, TypeVar

Results = TypeVar("Results")

Limit = Literal["paper", "ours"]
"""Where the limit of a check comes from: a number in the paper, or our reading of its words."""


@dataclass(frozen=True, slots=True)
class StatementVerdict:
    """The result of a check: what was obtained, as text, and whether it meets the statement."""

    obtained: str
    met: bool

    @property
    def word(self) -> str:
        """Return the verdict as the report prints it."""
        return "met" if self.met else "missed"


@dataclass(frozen=True, slots=True)
class Statement(Generic[Results]):
    """A statement of a paper, in our words."""

    where: str
    says: str
    means: str
    """What exactly the check tests."""
    figures: tuple[str, ...]
    """The figures whose results the check needs."""
    check: Callable[[Results], StatementVerdict]
    _: KW_ONLY
    limit: Limit = "paper"


@dataclass(frozen=True, slots=True)
class Finding:
    """A statement with its verdict for one reading of the paper."""

    where: str
    says: str
    means: str
    limit: Limit
    reading: str
    verdict: StatementVerdict


def all_of(parts: Iterable[tuple[str, bool]]) -> StatementVerdict:
    """Join the verdicts of parts: met if every part is. Mark in the text those that are not."""
    verdicts = list(parts)
    text = "; ".join(part if met else f"{part} (!)" for part, met in verdicts)
    return StatementVerdict(text, all(met for _, met in verdicts))
