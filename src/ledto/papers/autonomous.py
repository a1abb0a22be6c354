"""Measure how stamps of autonomous causality grow with joins: the paper's form, the compact form, Interval Tree Clocks.

Baquero & Moura give no measurements. They state that stamps characterise causality (Lemma 5.1) and that they need a
considerable amount of state (section 6). Both are tested on random histories with at most four live instances.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ledto.clocks import Instance, IntervalTreeClock, PaperInstance, Relation, relation
from ledto.papers.artefacts import Artefact
from ledto.papers.curves import Spread
from ledto.papers.findings import Statement, StatementVerdict
from ledto.papers.report import Chapter, Effort, judge
from ledto.simulation import fork_join
from ledto.simulation.fork_join import EVENT, FORK, JOIN

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LIVE = 4
JOINS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
QUICK_JOINS = (1, 2, 5, 10, 20, 50, 100)
COMPARED_OPERATIONS = 200


ROOTS: dict[str, Callable[[], Any]] = {
    "paper": PaperInstance.root,
    "compact": Instance.root,
    "interval tree": IntervalTreeClock.seed,
}
"""By form: makes the first instance of a history."""


@dataclass(frozen=True, slots=True)
class Grown:
    """The measurements of one form with one seed."""

    stamp_bytes: tuple[int, ...]
    """The size of the stamp of an event just after each number of joins in the plan."""
    pairs: int
    """Pairs of events that were compared with reachability, in a shorter history of the same seed."""
    wrong: int
    """How many of these pairs have stamps with a wrong relation."""


@dataclass(frozen=True, slots=True)
class GrowthCell:
    """A task that measures one form with one seed."""

    form: str
    joins: tuple[int, ...]
    seed: int

    def __call__(self) -> Grown:
        pairs, wrong = compare(self.form, self.seed)
        return Grown(tuple(grow(self.form, self.joins, self.seed)), pairs, wrong)


def _duplicate(instance: Any) -> Any:
    return instance.duplicate() if hasattr(instance, "duplicate") else instance.fork()


def _combine(one: Any, other: Any) -> Any:
    return one.combine(other) if hasattr(one, "combine") else one.join(other)


def grow(form: str, joins: tuple[int, ...], seed: int) -> Iterable[int]:
    """Yield the size of a stamp after each of these numbers of joins."""
    history = fork_join(16 * joins[-1] + 64, LIVE, seed)
    live = {0: ROOTS[form]()}
    joined = 0
    for kind, takes, takes_too, gives, gives_too in zip(*(column.tolist() for column in history), strict=True):
        if kind == EVENT:
            live[takes].event()
        elif kind == FORK:
            live[gives], live[gives_too] = _duplicate(live.pop(takes))
        elif kind == JOIN:
            live[gives] = _combine(live.pop(takes), live.pop(takes_too))
            joined += 1
            if joined in joins:
                yield len(live[gives].event().to_bytes())
            if joined == joins[-1]:
                return


def compare(form: str, seed: int) -> tuple[int, int]:
    """Count the pairs of events, and those whose stamps contradict reachability."""
    live = {0: ROOTS[form]()}
    past: dict[int, frozenset[int]] = {0: frozenset()}
    stamps: list[tuple[Any, frozenset[int]]] = []
    history = fork_join(COMPARED_OPERATIONS, LIVE, seed)
    for kind, takes, takes_too, gives, gives_too in zip(*(column.tolist() for column in history), strict=True):
        if kind == EVENT:
            past[takes] |= {len(stamps)}
            stamps.append((live[takes].event(), past[takes]))
        elif kind == FORK:
            live[gives], live[gives_too] = _duplicate(live.pop(takes))
            past[gives] = past[gives_too] = past.pop(takes)
        elif kind == JOIN:
            live[gives] = _combine(live.pop(takes), live.pop(takes_too))
            past[gives] = past.pop(takes) | past.pop(takes_too)
    wrong = sum(
        relation(a, b) is not (Relation.BEFORE if first in past_b else Relation.CONCURRENT)
        for second, (b, past_b) in enumerate(stamps)
        for first, (a, _) in enumerate(stamps[:second])
    )
    return len(stamps) * (len(stamps) - 1) // 2, wrong


def plan(effort: Effort) -> dict[tuple[str, int], GrowthCell]:
    """Make a task for each form and seed."""
    joins = QUICK_JOINS if effort.quick else JOINS
    return {(form, seed): GrowthCell(form, joins, seed) for form in ROOTS for seed in range(1, effort.seeds + 1)}


def _check_exact(results: list[Grown]) -> StatementVerdict:
    wrong, pairs = sum(grown.wrong for grown in results), sum(grown.pairs for grown in results)
    return StatementVerdict(f"{wrong} of {pairs} pairs wrong", wrong == 0)


def _check_growth(results: list[Grown]) -> StatementVerdict:
    first, last = (Spread.of(grown.stamp_bytes[at] for grown in results) for at in (0, -1))
    return StatementVerdict(f"{first} bytes after the first join, {last} after the last", last.mean >= 10 * first.mean)


STATED: tuple[Statement[list[Grown]], ...] = (
    Statement(
        "5, Lemma 5.1",
        "stamps characterise causality",
        "no pair of events whose stamps contradict reachability",
        ("growth",),
        _check_exact,
    ),
    Statement(
        "6",
        "stamps need a considerable amount of state",
        "10 times the bytes after the last join measured, or more",
        ("growth",),
        _check_growth,
        limit="ours",
    ),
)


def make_chapter(planned: Iterable[tuple[str, int]], results: Iterable[Grown]) -> Chapter:
    """Make the chapter on this paper from the results, which are in the order of the plan."""
    by_form: dict[str, list[Grown]] = {}
    for (form, _), result in zip(planned, results, strict=True):
        by_form.setdefault(form, []).append(result)
    measured = len(by_form["paper"][0].stamp_bytes)
    joins = JOINS[:measured]
    spreads = {
        form: [Spread.of(grown.stamp_bytes[at] for grown in of_form) for at in range(measured)]
        for form, of_form in by_form.items()
    }
    rows = [
        (form, count, len(by_form[form]), spread)
        for form, of_form in spreads.items()
        for count, spread in zip(joins, of_form, strict=True)
    ]

    def draw(picture: Figure) -> None:
        axes = picture.subplots()
        for form, of_form in spreads.items():
            axes.plot(joins, [spread.mean for spread in of_form], marker="o", label=form)
        axes.set(xscale="log", yscale="log", xlabel="joins", ylabel="bytes of a stamp", title="Growth of stamps")
        axes.legend()

    artefact = Artefact("autonomous_growth", ("form", "joins", "seeds", "stamp_bytes", "stamp_bytes_sd"), rows, draw)
    findings = [finding for form in ROOTS for finding in judge(STATED, form, by_form[form], {"growth"})]
    notes = (
        "The paper has no measurements. Random histories of events, forks and joins with at most 4 instances alive; the "
        "paper's form is read with the ancestors in closed form, since the function as printed does not terminate.",
    )
    last = {form: of_form[-1].mean for form, of_form in spreads.items()}
    smallest = min(last, key=lambda form: last[form])
    sizes = ", ".join(f"{form} {size:.0f} bytes" for form, size in last.items())
    advice = (f"the {smallest} form, which has the smallest stamps after {joins[-1]} joins: {sizes}",)
    return Chapter("Causality in autonomous mobile systems", notes, (artefact,), tuple(findings), advice=advice)
