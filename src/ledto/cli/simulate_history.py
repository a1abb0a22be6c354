"""``ledto simulate HISTORY``: deliver the events of a history again, under policies of the papers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import typer

from ledto.cli.history_options import open_or_exit
from ledto.cli.lengths import read_length, refuse_length
from ledto.cli.output import INTERRUPTED, console, explain_write_failure, print_json, quiet_interrupts, say
from ledto.cli.render import print_orders
from ledto.durations import show_duration


def deliver_again(
    history: str,
    *,
    policies: tuple[str, ...],
    phi: str | None,
    elements: int | None,
    lengths: Mapping[str, str | None],
    as_known: bool,
    to: str | None,
    as_json: bool,
) -> None:
    """Deliver a history's events, print what went wrong under each policy, and write a copy to `to` if it is given.

    `lengths` are the texts of eps, delta and tick; None takes eps and delta from the history, and a tick that fits.
    """
    with open_or_exit(history) as opened:
        from ledto.batch.observe import Delivering
        from ledto.batch.redeliver import CopyOntoItself, least_eps, measure, redeliver, survey
        from ledto.errors import LedtoError
        from ledto.history.deliver.files import TooManyTicks
        from ledto.history.manifest import to_json

        unit = opened.unit
        length = {name: read_length(name, text, unit) for name, text in lengths.items()}
        if length["tick"] == 0:
            raise typer.BadParameter("1 or more, not 0", param_hint="--tick")
        chosen, share = _read_policies(policies, phi)
        delivering = Delivering(chosen, share, length["delta"], elements, length["tick"], as_known)
        blocks = survey(opened.run)
        eps = _choose_eps(length["eps"], opened.run.manifest.eps, least_eps(blocks), unit)
        try:
            with quiet_interrupts(), _show_progress() as on_progress:
                if to is None:
                    delivered = measure(opened.run, blocks, delivering, eps=eps, on_progress=on_progress)
                else:
                    delivered = redeliver(opened.run, to, delivering, eps=eps, on_progress=on_progress)
        except KeyboardInterrupt:
            say("Interrupted" if to is None else f"Interrupted: {to} is as it was", err=True)
            raise typer.Exit(INTERRUPTED) from None
        except TooManyTicks as refused:
            raise refuse_length(refused, lengths, unit) from None
        except CopyOntoItself as refused:
            raise typer.BadParameter(str(refused), param_hint="--to") from None
        except LedtoError as refused:
            say(refused, err=True)
            raise typer.Exit(1) from None
        except OSError as failure:
            if to is None:
                raise
            say(explain_write_failure(to, failure), err=True)
            raise typer.Exit(1) from None
        policies_json, wall_clock = to_json(delivered.policies), to_json(delivered.wall_clock)
        for summary in policies_json.values():
            del summary["files"]
        if as_json:
            print_json({"history": history, "wall_clock": wall_clock, "policies": policies_json})
            return
        print_orders(wall_clock, policies_json, unit)


def _read_policies(typed: tuple[str, ...], phi: str | None) -> tuple[tuple[str, ...], str]:
    """Return the policies under our names, and phi for those without their own; refuse a phi that none would use."""
    from ledto.delivery.policies import (
        PAPER_NAMES,
        POLICIES,
        WHOLE_WAIT,
        check_phi,
        read_paper_name,
        read_policies,
        takes_option,
    )

    chosen = tuple(map(read_paper_name, typed))
    for text in chosen:
        name = text.partition(":")[0]
        if name not in POLICIES:
            there = ", ".join([*POLICIES, *PAPER_NAMES])
            refused = f"no delivery policy is called {name!r:.60}; there are {there}"
            raise typer.BadParameter(refused, param_hint="--policy")
    if phi is not None:
        try:
            check_phi(phi)
        except ValueError as refused_phi:
            raise typer.BadParameter(str(refused_phi), param_hint="--phi") from None
        if not any(":" not in text and takes_option(text, "phi") for text in chosen):
            why = "it always waits in full" if chosen == ("exact",) else "each has its own, or always waits in full"
            raise typer.BadParameter(f"{', '.join(typed)} takes none: {why}; leave out --phi", param_hint="--phi")
    share = WHOLE_WAIT if phi is None else phi
    try:
        read_policies(chosen, phi=share)
    except ValueError as refused_policy:
        raise typer.BadParameter(str(refused_policy), param_hint="--policy") from None
    return chosen, share


def _choose_eps(given: int | None, of_history: int, least: int, unit: str) -> int:
    """Return the eps to deliver with: the one given, or the history's if its clocks keep it, or the least they keep."""
    if given is None:
        if least > of_history:
            differ = f"{show_duration(least, unit)}, more than the history's eps of {show_duration(of_history, unit)}"
            say(f"clocks differ by up to {differ}: delivered with that", err=True)
        return max(of_history, least)
    if given < least:
        enough = f"{least}{'' if unit == 'tick' else unit}"
        raise typer.BadParameter(
            f"an event has a time {show_duration(least, unit)} before one of its causes: give {enough} or more",
            param_hint="--eps",
        )
    return given


@contextmanager
def _show_progress() -> Iterator[Callable[[int, int], None]]:
    """Show a bar, if stderr is a terminal; yield what to call with the segments done and all."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    stderr = console(stderr=True)
    columns = (TextColumn("delivering"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=stderr, disable=not stderr.is_terminal, transient=True) as progress:
        bar = progress.add_task("", total=None)
        yield lambda done, total: progress.update(bar, completed=done, total=total)
