"""``ledto observe``: make a history from logs."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ledto.cli.clocks import describe_clocks
from ledto.cli.find import say_what_to_ask
from ledto.cli.follow import TermsGiven, follow_source
from ledto.cli.lengths import read_length, refuse_length
from ledto.cli.on_spark import check_master, start_context
from ledto.cli.output import INTERRUPTED, console, explain_write_failure, print_json, quiet_interrupts, say, say_lines
from ledto.cli.render import print_orders
from ledto.cli.words import describe_channels, describe_ledger, describe_provable, format_count
from ledto.durations import NANOSECONDS, show_duration
from ledto.events.pandas import leave_pandas_out

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import TaskID

    from ledto.batch.engine import Engine, OnStage
    from ledto.history.manifest import Manifest
    from ledto.sources.inputs import Inputs

TRIGGER = "1s"
LOCAL = "local[*]"
ENGINES = ("spark", "inline")
LIVE_PANEL = "A live history, which grows as reports come"
UNITS = ("ns", "us", "ms", "s", "tick")
FIRST_YEARS_NS = 10 * 365 * 86_400 * 10**9
OUR_TIME_NS = (30 * 365 * 86_400 * 10**9, 130 * 365 * 86_400 * 10**9)
STAGES = {
    "reading": "Reading",
    "survey": "Looking over the reports",
    "causality": "Ordering by cause, epoch by epoch",
    "joining": "Joining epochs",
    "mending": "Marking causes that nobody reported",
    "boundaries": "Clocks at the epochs' starts",
    "delivery": "Delivering, and counting violations",
    "commit": "Committing",
}


def observe(
    inputs: Annotated[list[str], typer.Argument(help="Files, folders or patterns.", metavar="INPUT")],
    to: Annotated[str, typer.Option("--to", help="The history to write: a folder or URI.", metavar="DIR")],
    format: Annotated[
        str | None,
        typer.Option(
            help="otlp, csv, syslog, ...: docs/sources.md.",
            metavar="NAME",
            show_default="found",
        ),
    ] = None,
    mapping: Annotated[
        list[str] | None,
        typer.Option(
            help="TOML that says what fields mean; ledto map drafts it. For some files: 'PATTERN=FILE'; may be repeated.",
            metavar="FILE",
        ),
    ] = None,
    regex: Annotated[
        str | None,
        typer.Option(help="What an event (shiviz) or a line (regex) is, by groups.", metavar="TEXT"),
    ] = None,
    delimiter: Annotated[
        str | None,
        typer.Option(
            help="Between executions (shiviz) or values (csv).",
            metavar="TEXT",
        ),
    ] = None,
    zone: Annotated[
        str | None,
        typer.Option(help="Time zone of text without one, as Europe/Berlin.", metavar="NAME", show_default="UTC"),
    ] = None,
    year: Annotated[
        int | None,
        typer.Option(help="syslog: of lines without one.", metavar="YEAR", show_default="by the file's age"),
    ] = None,
    unit: Annotated[str, typer.Option(help="Of plain numbers: ns, us, ms, s or tick.", metavar="UNIT")] = "ns",
    policy: Annotated[
        list[str] | None,
        typer.Option(help="exact, or cbd:0.6 to wait 60%; may be repeated.", metavar="NAME", show_default="exact"),
    ] = None,
    eps: Annotated[
        str | None,
        typer.Option(help="How far clocks differ at most.", metavar="TIME", show_default="found; live 50ms"),
    ] = None,
    delta: Annotated[
        str | None,
        typer.Option(help="How long a report takes, as 2s.", metavar="TIME", show_default="found; live 2s"),
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(help="spark, or inline: without Java.", metavar="NAME", show_default="spark, if installed"),
    ] = None,
    master: Annotated[str, typer.Option(help="Spark's master; local[*]: all cores.", metavar="URL")] = LOCAL,
    memory: Annotated[str, typer.Option(help="Memory of Spark's driver.", metavar="SIZE")] = "2g",
    epoch_rows: Annotated[int, typer.Option(help="Events that a task holds, about.", metavar="N")] = 500_000,
    explain_only: Annotated[bool, typer.Option("--explain", help="Show the plan, and write nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the manifest as JSON.")] = False,
    follow: Annotated[
        bool,
        typer.Option(
            "--follow",
            help="Keep up with INPUT: a folder, nats://HOST:PORT/STREAM or kafka://HOST:PORT/TOPIC.",
            rich_help_panel=LIVE_PANEL,
        ),
    ] = False,
    once: Annotated[
        bool,
        typer.Option("--once", help="Read the reports that have come so far, and end.", rich_help_panel=LIVE_PANEL),
    ] = False,
    trigger: Annotated[
        str, typer.Option(help="How often to read new reports.", metavar="TIME", rich_help_panel=LIVE_PANEL)
    ] = TRIGGER,
    option: Annotated[
        list[str] | None,
        typer.Option(help="For the source; may be repeated.", metavar="NAME=VALUE", rich_help_panel=LIVE_PANEL),
    ] = None,
    most_processes: Annotated[
        int | None,
        typer.Option(
            help="In a computation; more are quarantined.",
            metavar="N",
            show_default="4000",
            rich_help_panel=LIVE_PANEL,
        ),
    ] = None,
    most_computations: Annotated[
        int | None,
        typer.Option(
            help="In the history; more are quarantined.", metavar="N", show_default="500", rich_help_panel=LIVE_PANEL
        ),
    ] = None,
) -> None:
    r"""Turn logs into a history that answers questions.

    Every report is accounted for: delivered, duplicate or quarantined. A history that is at DIR stays
    readable until the new one replaces it.

    ledto observe logs/ traces.json.gz --to h --policy exact --policy cbd:0.6
    ledto observe chord.log --regex '(?<host>\S*) (?<clock>{.*})\n(?<event>.*)' --to h
    ledto observe --follow incoming/ --to live --eps 50ms --delta 2s
    """
    check_master(master)
    engine = engine or _default_engine(follow=follow)
    if engine not in ENGINES:
        raise typer.BadParameter(f"one of {', '.join(ENGINES)}, not {engine!r:.60}", param_hint="--engine")
    if engine == "inline" and (follow or master != LOCAL):
        raise typer.BadParameter(
            "inline runs in this process alone: leave out --follow and --master, or --engine inline",
            param_hint="--engine",
        )
    if format is not None:
        from ledto.sources.registry import SOURCES

        if format not in SOURCES:
            raise typer.BadParameter(f"one of {', '.join(SOURCES)}, not {format!r:.60}", param_hint="--format")
    if unit not in UNITS:
        raise typer.BadParameter(f"one of {', '.join(UNITS)}, not {unit!r:.60}", param_hint="--unit")
    if re.fullmatch(r"[1-9]\d*[kmgt]b?", memory, re.IGNORECASE) is None:
        raise typer.BadParameter(f"a size such as 2g or 512m, not {memory!r:.60}", param_hint="--memory")
    if epoch_rows < 1_000:
        raise typer.BadParameter(f"1000 or more, not {epoch_rows}", param_hint="--epoch-rows")
    eps_length, delta_length = read_length("eps", eps, unit), read_length("delta", delta, unit)
    options: dict[str, Any] = {"regex": regex, "delimiter": delimiter, "mapping": mapping, "zone": zone, "year": year}
    options |= {"unit": unit} if unit != "ns" else {}
    most = {"processes": most_processes, "computations": most_computations}
    limits = {name: value for name, value in most.items() if value is not None}
    _check_together(follow, once=once, trigger=trigger, option=option, limits=limits, explain=explain_only)
    if follow:
        from ledto.sources.inputs import read_mappings

        if mapping and (len(mapping) > 1 or read_mappings(mapping).by_pattern):
            raise typer.BadParameter("with --follow, one FILE for all files", param_hint="--mapping")
        options["mapping"] = mapping[0] if mapping else None
        follow_source(
            inputs,
            to,
            settings=TermsGiven(policy, eps_length, delta_length),
            format=format,
            options=options,
            source_options=option or [],
            limits=limits,
            trigger=trigger,
            once=once,
            master=master,
            memory=memory,
            as_json=as_json,
        )
        return
    leave_pandas_out()
    from ledto.batch.join import EpsTooSmall
    from ledto.batch.observe import Delivering, RunSettings, explain, observe
    from ledto.errors import LedtoError
    from ledto.history.deliver.files import TooManyTicks
    from ledto.history.store import StorageError
    from ledto.sources.inputs import UnknownFormat, find_inputs

    started = time.monotonic()
    delivering = Delivering(tuple(policy or ["exact"]), delta=delta_length)
    try:
        delivering.check()
    except ValueError as refused:
        raise typer.BadParameter(str(refused), param_hint="--policy") from None
    settings = RunSettings(unit, eps_length, epoch_rows, delivering)
    try:
        files = find_inputs(inputs, format=format, options=options)
        for note in files.notes:
            say(f"Note: {note}", err=True)
        with (
            quiet_interrupts(),
            _show_stages(console(stderr=True)) as on_stage,
            _start_engine(engine, files, master, memory) as running,
        ):
            if explain_only:
                say_lines(explain(running, files, to, settings, on_stage=on_stage))
                return
            manifest = observe(running, files, to, settings, on_stage=on_stage)
    except KeyboardInterrupt:
        say(f"Interrupted: {to} is as it was", err=True)
        raise typer.Exit(INTERRUPTED) from None
    except TooManyTicks as refused:
        raise refuse_length(refused, {"eps": eps, "delta": delta}, unit) from None
    except EpsTooSmall as refused:
        say(refused, err=True)
        raise typer.Exit(2) from None
    except UnknownFormat as unknown:
        from ledto.cli.map import show_draft_for

        say(unknown, err=True)
        show_draft_for(unknown.file)
        raise typer.Exit(1) from None
    except (LedtoError, StorageError) as failure:
        say(str(failure), err=True)
        raise typer.Exit(1) from None
    except OSError as failure:
        say(explain_write_failure(to, failure), err=True)
        raise typer.Exit(1) from None
    seconds = time.monotonic() - started
    if as_json:
        import ledto

        provable = ledto.open(to).provable().to_json()
        print_json({**manifest.to_json(), "provable": provable, "history": to, "seconds": round(seconds, 3)})
    else:
        _print_summary(manifest, to, seconds)


def _default_engine(*, follow: bool) -> str:
    """Choose Spark, which a live history needs, unless it is not installed."""
    return "spark" if follow or find_spec("pyspark") is not None else "inline"


@contextmanager
def _start_engine(name: str, files: Inputs, master: str, memory: str) -> Iterator[Engine]:
    """Start the engine of the run. Spark ends with the block."""
    if name == "inline":
        from ledto.batch.inline import InlineEngine

        yield InlineEngine()
        return
    from ledto.spark.engine import SparkEngine, is_brief

    with start_context(master, config={"spark.driver.memory": memory}, brief=is_brief(files)) as context:
        yield SparkEngine(context)


def _check_together(
    follow: bool,
    *,
    once: bool,
    trigger: str,
    option: list[str] | None,
    limits: dict[str, int],
    explain: bool,
) -> None:
    """Refuse options that would have no effect, and limits below 1."""
    live = {"--once": once, "--trigger": trigger != TRIGGER, "--option": bool(option)}
    live |= {f"--most-{name}": True for name in limits}
    for name, value in limits.items():
        if value < 1:
            raise typer.BadParameter(f"1 or more, not {value}", param_hint=f"--most-{name}")
    for name, is_given in ({"--explain": explain} if follow else live).items():
        if is_given:
            reason = "is for a history that is made at once: leave out --follow" if follow else "needs --follow"
            raise typer.BadParameter(f"it {reason}", param_hint=name)


@contextmanager
def _show_stages(stderr: Console) -> Iterator[OnStage]:
    """Show a bar for each stage, if stderr is a terminal."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[count]}"), TimeElapsedColumn())
    with Progress(*columns, console=stderr, disable=not stderr.is_terminal, transient=True) as progress:
        bars: dict[str, TaskID] = {}
        current = progress.add_task("Starting", total=None, count="")

        def on_stage(stage: str, done: int, total: int) -> None:
            nonlocal current
            if stage not in bars:
                progress.update(current, total=1, completed=1)
                current = bars[stage] = progress.add_task(STAGES.get(stage, stage), total=None, count="")
            if total:
                progress.update(bars[stage], completed=done, total=total, count=f"{done:,}/{total:,}")

        yield on_stage


def _warn_of_unnamed_instances(names: set[str]) -> list[str]:
    """Warn of processes such as ``pay`` beside ``pay@1``: some of its reports do not say which instance they are of."""
    instances: dict[str, list[str]] = {}
    for name in sorted(names):
        service, at, _ = name.partition("@")
        if at and service in names:
            instances.setdefault(service, []).append(name)
    return [
        f"  {service} is a process of its own, beside {', '.join(named[:3])}{', ...' if len(named) > 3 else ''}: "
        "some of its reports do not say which instance they are of"
        for service, named in instances.items()
    ]


def _doubt_of_unit(last_time: int, unit: str) -> list[str]:
    """Ask about the unit if it puts the last event in the 1970s, and another unit would put it in our time."""
    if unit not in NANOSECONDS or last_time * NANOSECONDS[unit] >= FIRST_YEARS_NS:
        return []
    likely = [other for other in ("us", "ms", "s") if OUR_TIME_NS[0] <= last_time * NANOSECONDS[other] < OUR_TIME_NS[1]]
    return [f"  the last event is in the 1970s by --unit {unit}: are the times in {other}?" for other in likely]


def _print_summary(manifest: Manifest, to: str, seconds: float) -> None:
    import ledto
    from ledto.history.manifest import to_json

    made = ledto.open(to)
    unit = manifest.unit
    lines = [
        *describe_provable(made.provable()),
        *describe_ledger(to_json(manifest.ledger)),
        *describe_channels(manifest.channels),
    ]
    sizes = [
        format_count(manifest.processes, "process"),
        format_count(manifest.computations, "computation"),
        format_count(manifest.segments, "segment"),
    ]
    if manifest.wall_clock.violations.get("events") == 0:
        lines.append(f"{', '.join(sizes)}; no event has a time")
    else:
        import pyarrow.compute as pc

        clocks = made.clocks()
        if len(clocks.clocks) < manifest.processes:
            sizes[0] += f" on {format_count(len(clocks.clocks), 'clock')}"
        lines.append(", ".join(sizes))
        if manifest.lag:
            amount = show_duration(manifest.lag, unit)
            lines.append(f"  by the clocks, {manifest.lag_event} is {amount} before one of its causes")
        lines += [f"  {line}" for line in describe_clocks(clocks, unit)]
        lines += _doubt_of_unit(pc.max(made.run.processes.table["last_time"]).as_py() or 0, unit)
    lines += _warn_of_unnamed_instances(set(made.run.processes.table["process"].unique().to_pylist()))
    for line in lines:
        say(line)
    print_orders(to_json(manifest.wall_clock), to_json(manifest.policies), unit)
    say(f"{to} is ready after {seconds:.1f} s. Ask it: ledto why {shlex.quote(to)} EVENT")
    say_what_to_ask(made.run, to)
