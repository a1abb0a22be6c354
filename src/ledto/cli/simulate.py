"""``ledto simulate``: deliver simulated messages, or a history's events again, and count what goes wrong."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import Progress

from ledto.cli.output import console, end_at_interrupt, print_json, say
from ledto.cli.render import print_rows
from ledto.cli.simulate_history import deliver_again

if TYPE_CHECKING:
    from ledto.delivery.policies import StampPolicy
    from ledto.papers.cell import CellOutcome
    from ledto.papers.presets import Preset
    from ledto.simulation import Delay, Model

TICKS = 10
"""Default of eps and delta."""
MODEL_ONLY = ("processes", "rate", "delay", "preset", "messages", "loss", "seeds", "seed")
"""Options that describe simulated messages."""
HISTORY_ONLY = ("tick", "as_known", "to")
"""Options that need a history."""
MODEL_PANEL, HISTORY_PANEL = "Simulated messages", "A history"
MOST_TICKS = 10**10
"""The most clock increments of a run: minutes of work."""
MOST_BYTES = 4 << 30
"""The most bytes of a run's arrays."""


def simulate(
    context: typer.Context,
    history: Annotated[
        str | None,
        typer.Argument(
            help="Deliver the events of this history, which stays as it is, instead of simulated messages.",
            metavar="HISTORY",
            show_default=False,
        ),
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            help="dapw, cbd, exact, dpc1 or dpc2. Of a history also NAME:PHI, and may be repeated.",
            show_default="cbd",
            metavar="NAME",
        ),
    ] = None,
    phi: Annotated[
        str | None, typer.Option(help="Share of the full wait, 0 to 1 or 0% to 100%.", show_default="1", metavar="PHI")
    ] = None,
    elements: Annotated[
        int | None, typer.Option(help="Elements of kn compared, from 1.", show_default="all", metavar="N")
    ] = None,
    eps: Annotated[
        str | None,
        typer.Option(
            help="How far two clocks differ at most: ticks; for a history, a time.",
            show_default=f"{TICKS}; the history's",
            metavar="TIME",
        ),
    ] = None,
    delta: Annotated[
        str | None,
        typer.Option(
            help="How long a report takes at most: ticks; for a history, a time.",
            show_default=f"{TICKS}; the history's longest",
            metavar="TIME",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    processes: Annotated[
        int,
        typer.Option(
            help="Ordinary processes, besides the observer; from 2.", metavar="N", rich_help_panel=MODEL_PANEL
        ),
    ] = 10,
    rate: Annotated[
        float,
        typer.Option(
            help="Probability of a send at a tick; above 0, up to 1.", metavar="P", rich_help_panel=MODEL_PANEL
        ),
    ] = 0.1,
    delay: Annotated[
        str,
        typer.Option(
            help="half, quarter (of delta, and half of that as SD) or MEAN,SD in ticks.",
            metavar="NAME",
            rich_help_panel=MODEL_PANEL,
        ),
    ] = "half",
    preset: Annotated[
        str,
        typer.Option(help="Reading of the paper: closest or literal.", metavar="NAME", rich_help_panel=MODEL_PANEL),
    ] = "closest",
    messages: Annotated[
        int,
        typer.Option(help="Messages that reach the observer in each run.", metavar="N", rich_help_panel=MODEL_PANEL),
    ] = 20_000,
    loss: Annotated[
        float,
        typer.Option(
            help="Probability that a copy is lost besides; from 0, below 1.", metavar="P", rich_help_panel=MODEL_PANEL
        ),
    ] = 0.0,
    seeds: Annotated[int, typer.Option(help="How many runs.", metavar="N", rich_help_panel=MODEL_PANEL)] = 10,
    seed: Annotated[
        int,
        typer.Option(help="Seed of the first run; the others follow.", metavar="N", rich_help_panel=MODEL_PANEL),
    ] = 1,
    as_known: Annotated[
        bool,
        typer.Option(
            "--as-known",
            help="Deliver by what had arrived when an event was due, as a live observer.",
            rich_help_panel=HISTORY_PANEL,
        ),
    ] = False,
    tick: Annotated[
        str | None,
        typer.Option(
            help="Step of the clocks in stamps.",
            show_default="a sixteenth of eps",
            metavar="TIME",
            rich_help_panel=HISTORY_PANEL,
        ),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(
            help="Write a copy of the history with these deliveries.",
            metavar="DIR",
            rich_help_panel=HISTORY_PANEL,
        ),
    ] = None,
) -> None:
    """Try delivery policies: on a history, or on simulated messages.

    Deliver the events of a history again, or simulated messages, and count violations of causal order. For
    simulated messages, print means over the runs and standard deviations; docs/reproduce.md defines them.
    The history must be named: LEDTO_HISTORY does not count here.

    Example: ledto simulate h --as-known --policy cbd:0.2 --policy cbd:0.6 --delta 2s
    """
    _check_together(context, history)
    if history is not None:
        deliver_again(
            history,
            policies=tuple(policy or ["cbd"]),
            phi=phi,
            elements=elements,
            lengths={"eps": eps, "delta": delta, "tick": tick},
            as_known=as_known,
            to=to,
            as_json=as_json,
        )
        return
    from ledto.papers.presets import PRESETS

    if preset not in PRESETS:
        raise typer.BadParameter(f"there are {', '.join(PRESETS)}, not {preset!r}", param_hint="--preset")
    if policy is not None and len(policy) > 1:
        raise typer.BadParameter("one policy at a time, unless a HISTORY is given", param_hint="--policy")
    if seeds < 1:
        raise typer.BadParameter(f"at least 1, not {seeds}", param_hint="--seeds")
    if not 0 <= seed <= (1 << 64) - seeds:
        raise typer.BadParameter(f"seeds run from 0 to 2**64 - 1, not {seed}", param_hint="--seed")
    name = "cbd" if policy is None else policy[0]
    eps_ticks, delta_ticks = _read_ticks("--eps", eps), _read_ticks("--delta", delta)
    reading = PRESETS[preset]
    try:
        model = reading.model(
            processes, eps_ticks, delta_ticks, rate, delay=_read_delay(delay), messages=messages, loss=loss
        )
        chosen = _make_policy(name, phi, model, elements)
        check_size(model)
    except ValueError as refused:
        raise typer.BadParameter(str(refused)) from None
    try:
        with end_at_interrupt():
            outcomes = _run(model, chosen, range(seed, seed + seeds))
    except MemoryError:
        raise typer.BadParameter("memory ran out: lower --processes, --messages, --eps or --delta") from None
    parameters = {
        "processes": processes,
        "eps": eps_ticks,
        "delta": delta_ticks,
        "rate": rate,
        "delay": delay,
        "loss": loss,
        "policy": name,
        "phi": float(getattr(chosen, "phi", 1)),
        "elements": elements,
        "preset": preset,
        "messages": messages,
        "seed": seed,
        "seeds": seeds,
    }
    result = _summarize(reading, outcomes) | {"parameters": parameters}
    if as_json:
        print_json(result)
    else:
        _print_table(result)


def _check_together(context: typer.Context, history: str | None) -> None:
    """Refuse options that would have no effect."""
    for name in HISTORY_ONLY if history is None else MODEL_ONLY:
        source = context.get_parameter_source(name)
        if source is not None and source.name != "DEFAULT":
            said = "it needs a HISTORY" if history is None else "it is for simulated messages: leave out HISTORY"
            raise typer.BadParameter(said, param_hint=f"--{name.replace('_', '-')}")


def _read_ticks(option: str, text: str | None) -> int:
    try:
        return TICKS if text is None else int(text)
    except ValueError:
        raise typer.BadParameter(f"a whole number of ticks, not {text!r:.60}", param_hint=option) from None


def check_size(model: Model) -> None:
    """Raise `ValueError`, which says what to change, when a run is expected to exceed a limit."""
    ticks = expected_ticks(model)
    if ticks > MOST_TICKS:
        raise ValueError(
            f"a run would take about {ticks:.1g} ticks of its processes, and {MOST_TICKS:.0g} is the limit: raise --rate, "
            "or lower --messages or --loss"
        )
    needed = expected_bytes(model)
    if needed > MOST_BYTES:
        raise ValueError(
            f"a run would take about {needed / (1 << 30):,.0f} GiB of memory, and {MOST_BYTES >> 30} GiB is the limit: "
            "lower --processes, --messages, --eps or --delta"
        )


def expected_ticks(model: Model) -> float:
    """Estimate the clock increments of all processes until enough reports have arrived, if only `loss` loses any."""
    return model.messages / (model.rate * (1 - model.loss))


def expected_bytes(model: Model) -> int:
    """Estimate the bytes of the largest arrays: stamps and vector clocks of reports, processes and messages on their way.

    Due times are counted, too.
    """
    entry, due = 4, 8
    sent = int(model.rate * model.processes * model.longest_delay)
    on_their_way = min(sent, model.messages)
    stamps = model.messages + model.processes + on_their_way
    timelines = model.processes if model.arrives_by == "sender" else 1
    return entry * stamps * (model.compared + model.processes) + due * (timelines + 1) * model.longest_delay


def _read_delay(text: str) -> Delay:
    from ledto.papers.presets import DELAYS
    from ledto.simulation import Delay

    if text in DELAYS:
        return DELAYS[text]
    mean, comma, sd = text.partition(",")
    try:
        if not comma:
            raise ValueError
        return Delay.custom(float(mean), float(sd))
    except ValueError:
        raise ValueError(f"delay is half, quarter or MEAN,SD in ticks (such as 5,2.5), not {text!r:.60}") from None


def _make_policy(name: str, phi: str | None, model: Model, elements: int | None) -> StampPolicy:
    from ledto.delivery.policies import PAPER_NAMES, POLICIES, WHOLE_WAIT, policy_from_name

    long_name = PAPER_NAMES.get(name, name)
    if long_name not in POLICIES:
        raise ValueError(f"policy is one of {', '.join([*POLICIES, *PAPER_NAMES])}, not {name!r:.60}")
    options: dict[str, object] = {"eps": model.eps, "delta": model.delta}
    if long_name == "exact":
        if phi is not None:
            raise ValueError("policy exact always waits in full: leave out --phi, or take dapw or cbd")
    else:
        options["phi"] = WHOLE_WAIT if phi is None else phi
    if elements is not None:
        if long_name in PAPER_NAMES.values():
            raise ValueError(f"policy {name} compares no elements of kn: leave out --elements, or take cbd")
        if not 1 <= elements <= model.compared:
            raise ValueError(f"elements runs from 1 to {model.compared}, what the stamps carry, not {elements}")
        options["elements"] = elements
    return policy_from_name(long_name, **options)


def _run(model: Model, policy: StampPolicy, seeds: range) -> list[CellOutcome]:
    from ledto.delivery.batch import deliver_batch
    from ledto.papers.cell import run_cell
    from ledto.papers.schemes import Scheme, policy_bytes

    scheme = Scheme(
        policy.name,
        policy.name,
        lambda reports, *_: deliver_batch(reports, policy),
        lambda _: policy_bytes(policy, model),
    )
    stderr = console(stderr=True)
    with Progress(console=stderr, transient=True, disable=not stderr.is_terminal) as progress:
        stderr.show_cursor(True)  # An interrupt ends the process at once, so nothing would bring the cursor back.
        steps = progress.track(seeds, description="Simulating")
        return [run_cell(model, seed, [(scheme, Fraction(1))]).outcomes[0] for seed in steps]


def _summarize(preset: Preset, outcomes: list[CellOutcome]) -> dict[str, Any]:
    measures: dict[str, Any] = {
        "messages": lambda outcome: outcome.violations.messages,
        "violations": {
            "average_pct": lambda outcome: preset.average_pct(outcome.violations),
            "messages_pct": lambda outcome: outcome.violations.messages_pct,
            "pairs": lambda outcome: outcome.violations.pairs,
        },
        "delay": {
            name: (lambda outcome, name=name: getattr(outcome.delays, name)) for name in ("p50", "p95", "p99", "max")
        },
        "stamp_bytes": lambda outcome: outcome.stamp_bytes,
    }

    def apply(tree: Any, reduce: Callable[[list[float]], float | None]) -> Any:
        if isinstance(tree, dict):
            return {name: apply(part, reduce) for name, part in tree.items()}
        return reduce([tree(outcome) for outcome in outcomes])

    def mean(values: list[float]) -> float:
        value = fmean(values)
        return int(value) if value == int(value) and all(isinstance(each, int) for each in values) else value

    spread = apply(measures, lambda values: stdev(values) if len(values) > 1 else None)
    return {**apply(measures, mean), "spread": spread}


def _print_table(result: dict[str, Any]) -> None:
    rows: list[tuple[str, str, str]] = []

    def add(name: str, value: Any, spread: Any) -> None:
        if isinstance(value, dict):
            for part in value:
                add(f"{name} {part}", value[part], spread[part])
        else:
            shown = f"{value:,.4g}" if value < 1000 else f"{value:,.0f}"
            rows.append((name, shown, "" if spread is None else f"{spread:.3g}"))

    for name, spread in result["spread"].items():
        add(name, result[name], spread)
    numbers = ("mean", "standard deviation")
    title = "Violations of causal order and what they were traded for:"
    print_rows(["measure", *numbers], rows, title=title, right=numbers)
    say(", ".join(f"{name} {value}" for name, value in result["parameters"].items() if value is not None))
