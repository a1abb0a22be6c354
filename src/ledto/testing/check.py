"""`check_clock`: run any clock on random histories and compare every pair of stamps with the truth."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from random import Random
from typing import Any

from ledto.clocks.relation import CausalStamp, OrderedStamp, Relation, Stamp
from ledto.testing.instances import InstanceHistory
from ledto.testing.ordering import OrderingContradiction, OrderingHistory
from ledto.testing.processes import ProcessHistory, TrueRun
from ledto.testing.time import Drift


class ClockCheckFailed(AssertionError):
    """A clock contradicted the truth; the message names the seed, both events and both stamps."""


def check_clock(
    make: Callable[..., Any],
    *,
    histories: int = 100,
    seed: int = 0,
    actions: int = 40,
    processes: int = 4,
    drift: Drift | None = None,
) -> int:
    """Check a clock against true happened-before on random histories; return the number of pairs compared.

    `make` builds one clock:

    - ``make(process)`` for clocks with ``local``, ``send`` and ``receive`` (``spawn`` and ``synchronise`` are called if
      they exist); with `drift`, ``make(process, physical)``, for clocks that read physical time within bounds;
    - ``make(process)`` for ordering clocks with ``send(to)``, ``try_deliver`` and ``deliver``: half of the histories
      lose messages; deliveries must be in causal order, or flagged exactly where they cannot be;
    - ``make()`` for instances with ``event``, ``duplicate`` and ``combine`` (or ``fork`` and ``join``): pass the
      function that makes the root, such as ``Instance.root``.

    Histories have losses, reorderings and duplicates; also spawns, rendezvous, forks and joins if the clock has them. A
    `CausalStamp` must give the true relation of every pair. An `OrderedStamp` must never sort an effect before its
    cause, and must be a total order. Every stamp must survive its binary and its JSON form.

    Raises `ClockCheckFailed` at the first contradiction.
    """
    compared = 0
    for number in range(seed, seed + histories):
        random = Random(number)
        run = _play(make, random, actions=actions, processes=processes, drift=drift)
        compared += _compare(run, number)
    if not compared:
        raise ClockCheckFailed("no pair of events was compared: raise `histories` or `actions`")
    return compared


def _play(make: Callable[..., Any], random: Random, *, actions: int, processes: int, drift: Drift | None) -> TrueRun:
    size = random.randint(2, processes)
    if drift is not None:
        return ProcessHistory(make, random, drift=drift).play(processes=size, actions=actions)
    if _is_root(make):
        return InstanceHistory(make, random).play(live=size, actions=actions)
    if hasattr(make("probe"), "try_deliver"):
        try:
            return OrderingHistory(make, random, loss=random.choice((0.0, 0.15))).play(processes=size, actions=actions)
        except OrderingContradiction as contradiction:
            raise ClockCheckFailed(str(contradiction)) from contradiction
    return ProcessHistory(make, random, drift=None).play(processes=size, actions=actions)


def _is_root(make: Callable[..., Any]) -> bool:
    """Tell whether `make` takes no argument, and so makes a root instance."""
    try:
        inspect.signature(make).bind()
    except TypeError:
        return False
    return True


def _compare(run: TrueRun, seed: int) -> int:
    for event, stamp in run.stamps:
        _check_codecs(stamp, run.history.labels[event], seed)
    compared = 0
    for i, (a, stamp_a) in enumerate(run.stamps):
        for b, stamp_b in run.stamps[i:]:
            truth = run.history.relation(a, b)
            contradiction = _contradiction(stamp_a, stamp_b, truth)
            if contradiction:
                labels = run.history.labels
                raise ClockCheckFailed(
                    f"history {seed}: event {a} ({labels[a]}) is {truth.name} event {b} ({labels[b]}), but {contradiction}: "
                    f"{stamp_a!r} and {stamp_b!r}"
                )
            compared += 1
    return compared


def _contradiction(a: Stamp, b: Stamp, truth: Relation) -> str | None:
    """Say how two stamps contradict the true relation of their events; None if they do not."""
    if isinstance(a, CausalStamp) and isinstance(b, CausalStamp):
        forth, back = a.relation_to(b), b.relation_to(a)
        if forth is not truth or back is not truth.inverse:
            return f"the stamps say {forth.name} one way and {back.name} the other"
    elif isinstance(a, OrderedStamp) and isinstance(b, OrderedStamp):
        if truth is Relation.EQUAL:
            return None if a == b and not a < b else "the stamp does not equal itself"
        if (a < b) == (b < a):
            return "the stamps have no order"
        if (truth is Relation.BEFORE and not a < b) or (truth is Relation.AFTER and not b < a):
            return "the effect sorts before its cause"
    else:
        return "these are not stamps of one clock"
    return None


def _check_codecs(stamp: Stamp, label: str, seed: int) -> None:
    """Raise `ClockCheckFailed` unless the stamp survives its binary and its JSON form."""
    kind = type(stamp)
    for form, back in (("bytes", kind.from_bytes(stamp.to_bytes())), ("JSON", kind.from_json(stamp.to_json()))):
        if back != stamp or hash(back) != hash(stamp):
            raise ClockCheckFailed(f"history {seed}: {label}: {stamp!r} came back from {form} as {back!r}")
