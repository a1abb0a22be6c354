"""``ledto serve``: run the service that collects reports and answers questions."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ledto.cli.find import say_what_to_ask
from ledto.cli.follow import TermsGiven, agree_or_exit
from ledto.cli.output import end_at_interrupt, explain_write_failure, print_json, say, say_lines
from ledto.durations import NANOSECONDS, read_duration

if TYPE_CHECKING:
    from ledto.live import LiveHistory
    from ledto.service.serve import Running, ServicePlan

DELIVERY, ACCESS, BROKER, LIMITS, WEBHOOKS = "Delivery", "Access", "Broker and stream", "Limits", "Webhooks"
"""Panels of the help."""
_SIZES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def serve(
    history: Annotated[
        str,
        typer.Option(
            "--to",
            envvar="LEDTO_HISTORY",
            help="The history to write and to answer from: a folder, made if missing.",
            metavar="DIR",
        ),
    ],
    host: Annotated[
        str,
        typer.Option(
            envvar="LEDTO_HOST",
            show_envvar=False,
            help="Where to listen; beyond loopback, tokens are needed.",
            metavar="HOST",
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int,
        typer.Option(
            min=0,
            max=65_535,
            envvar="LEDTO_PORT",
            show_envvar=False,
            help="4318 is that of OTLP over HTTP; 0 takes a free one.",
            metavar="PORT",
        ),
    ] = 4318,
    grpc_port: Annotated[
        int,
        typer.Option(
            min=0,
            max=65_535,
            envvar="LEDTO_GRPC_PORT",
            show_envvar=False,
            help="4317 is that of OTLP over gRPC; 0 turns gRPC off.",
            metavar="PORT",
        ),
    ] = 4317,
    no_grpc: Annotated[
        bool,
        typer.Option(
            "--no-grpc", envvar="LEDTO_NO_GRPC", show_envvar=False, help="Offer HTTP only, as --grpc-port 0 does."
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one line of JSON when ready.")] = False,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            envvar="LEDTO_POLICY",
            show_envvar=False,
            help="As for ledto observe; subscribers get the order of the first.",
            show_default="exact",
            metavar="NAME",
            rich_help_panel=DELIVERY,
        ),
    ] = None,
    eps: Annotated[
        str | None,
        typer.Option(
            envvar="LEDTO_EPS",
            show_envvar=False,
            help="How far clocks differ at most.",
            show_default="50ms",
            metavar="TIME",
            rich_help_panel=DELIVERY,
        ),
    ] = None,
    delta: Annotated[
        str | None,
        typer.Option(
            envvar="LEDTO_DELTA",
            show_envvar=False,
            help="How long a report takes at most.",
            show_default="2s",
            metavar="TIME",
            rich_help_panel=DELIVERY,
        ),
    ] = None,
    tokens: Annotated[
        Path | None,
        typer.Option(
            envvar="LEDTO_TOKENS",
            show_envvar=False,
            help="A file with a line 'writer NAME TOKEN' or 'reader NAME TOKEN' for each caller.",
            metavar="FILE",
            rich_help_panel=ACCESS,
        ),
    ] = None,
    tls_cert: Annotated[
        Path | None,
        typer.Option(
            envvar="LEDTO_TLS_CERT",
            show_envvar=False,
            help="A certificate, with its chain, in PEM.",
            metavar="FILE",
            rich_help_panel=ACCESS,
        ),
    ] = None,
    tls_key: Annotated[
        Path | None,
        typer.Option(
            envvar="LEDTO_TLS_KEY",
            show_envvar=False,
            help="The certificate's key, in PEM.",
            metavar="FILE",
            rich_help_panel=ACCESS,
        ),
    ] = None,
    open_to_all: Annotated[
        bool,
        typer.Option(
            "--open-to-all",
            envvar="LEDTO_OPEN_TO_ALL",
            show_envvar=False,
            help="Listen beyond loopback without tokens: anybody may send and ask.",
            rich_help_panel=ACCESS,
        ),
    ] = False,
    broker: Annotated[
        str | None,
        typer.Option(
            envvar="LEDTO_BROKER",
            show_envvar=False,
            help="An existing NATS server with JetStream: nats://[TOKEN@]HOST:PORT.",
            show_default="one of our own, in the history's folder",
            metavar="URL",
            rich_help_panel=BROKER,
        ),
    ] = None,
    broker_port: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=65_535,
            help="Port of our own broker.",
            show_default="a free one",
            metavar="PORT",
            rich_help_panel=BROKER,
        ),
    ] = None,
    stream_name: Annotated[
        str,
        typer.Option(help="The broker's stream that holds reports.", metavar="NAME", rich_help_panel=BROKER),
    ] = "ledto",
    no_stream: Annotated[
        bool,
        typer.Option(
            "--no-stream", help="Collect only; ledto observe --follow may run elsewhere.", rich_help_panel=BROKER
        ),
    ] = False,
    max_body: Annotated[
        str,
        typer.Option(help="Largest request, before and after decompression.", metavar="SIZE", rich_help_panel=LIMITS),
    ] = "16m",
    max_reports: Annotated[
        int, typer.Option(min=1, help="Most reports of a request.", metavar="N", rich_help_panel=LIMITS)
    ] = 100_000,
    retention_bytes: Annotated[
        str,
        typer.Option(
            envvar="LEDTO_RETENTION_BYTES",
            show_envvar=False,
            help="Most bytes that the broker holds; then senders have to wait.",
            metavar="SIZE",
            rich_help_panel=LIMITS,
        ),
    ] = "8g",
    retention_age: Annotated[
        str | None,
        typer.Option(
            help="How long the broker holds a report, read or not: older ones are lost.",
            show_default="for ever",
            metavar="TIME",
            rich_help_panel=LIMITS,
        ),
    ] = None,
    webhook_host: Annotated[
        list[str] | None,
        typer.Option(
            help="HOST or HOST:PORT that webhooks may go to; may be repeated.",
            show_default="none",
            metavar="HOST",
            rich_help_panel=WEBHOOKS,
        ),
    ] = None,
    webhook_private: Annotated[
        bool,
        typer.Option(
            "--webhook-private",
            help="Let webhooks go to this machine, and names of --webhook-host be private addresses.",
            rich_help_panel=WEBHOOKS,
        ),
    ] = False,
) -> None:
    """Collect reports over HTTP and gRPC, and answer questions, live.

    A report that was answered with 200 is on disk. Ctrl-C finishes open requests and ends all processes.
    Options may be in the environment, as LEDTO_PORT.

    ledto serve --to shop.history
    ledto serve --to h --host 0.0.0.0 --tokens tokens --tls-cert cert.pem --tls-key key.pem
    """
    # Nothing has to be cleaned up yet, and compiled code crashes if it is interrupted while it is loaded.
    with end_at_interrupt():
        from ledto.errors import LedtoError
        from ledto.service.broker.nats_server import Retention, find_server_program
        from ledto.service.http.app import HttpSettings
        from ledto.service.http.limits import Limits
        from ledto.service.http.tokens import Access, read_tokens
        from ledto.service.serve import ServicePlan
        from ledto.spark.session.java import find_java

    if re.fullmatch(r"[A-Za-z0-9_-]{1,64}", stream_name) is None:
        raise typer.BadParameter("up to 64 letters, digits, _ and -", param_hint="--stream-name")
    if "://" in history:
        raise typer.BadParameter("a folder of this machine: the live history is written in place", param_hint="--to")
    if broker is not None and re.match(r"(nats|tls)://[^/]+/?$", broker) is None:
        raise typer.BadParameter("a broker is named as nats://HOST:PORT", param_hint="--broker")
    if invalid := [host for host in webhook_host or [] if re.fullmatch(r"[\w.-]+(:\d+)?", host) is None]:
        raise typer.BadParameter(f"HOST or HOST:PORT, not {invalid[0]!r:.60}", param_hint="--webhook-host")
    age_s = 0.0
    if retention_age is not None:
        age_s = _read_length("--retention-age", retention_age) / NANOSECONDS["s"]
        if age_s <= 0:
            raise typer.BadParameter("more than 0", param_hint="--retention-age")
    if no_stream and (policy or eps or delta):
        raise typer.BadParameter(
            "it is for the stream: give it to ledto observe --follow", param_hint="--policy, --eps, --delta"
        )
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.WARNING)
    try:
        plan = ServicePlan(
            history=Path(history),
            settings=HttpSettings(
                host=host,
                port=port,
                grpc_port=None if no_grpc else grpc_port or None,
                access=Access() if tokens is None else read_tokens(tokens),
                limits=_make_limits(Limits, max_body, max_reports),
                certificate=tls_cert,
                key=tls_key,
                open_to_all=open_to_all,
                expects_stream=not no_stream,
            ),
            retention=Retention(bytes=_read_size("--retention-bytes", retention_bytes), age_s=age_s),
            broker=broker.rstrip("/") if broker is not None else None,
            broker_port=broker_port,
            stream_name=stream_name,
            stream=not no_stream,
            stream_options=[] if no_stream else _make_stream_options(history, policy, eps=eps, delta=delta),
        )
        searches: list[Callable[[], object]] = [] if broker is not None else [find_server_program]
        # Without Java, the stream would end and be started again and again.
        searches += [] if no_stream else [find_java]
        _check_found(searches)
        _serve(plan, webhook_host or [], webhook_private=webhook_private, as_json=as_json)
    except LedtoError as failure:
        say_lines(failure, err=True)
        raise typer.Exit(1) from None
    except NotADirectoryError:
        say(f"{history} is, or is below, a file: name a folder", err=True)
        raise typer.Exit(1) from None


def _serve(plan: ServicePlan, webhook_hosts: Sequence[str], *, webhook_private: bool, as_json: bool) -> None:
    with end_at_interrupt():
        from ledto.live import LiveHistory
        from ledto.service.http.app import ServiceError
        from ledto.service.questions.routes import questions_router
        from ledto.service.serve import serve
        from ledto.service.subscriptions.routes import subscriptions_router
        from ledto.service.subscriptions.service import Subscriptions
        from ledto.service.webhooks.client import WebhookHosts

    plan.settings.check()
    live = LiveHistory(str(plan.history))
    try:
        hosts = WebhookHosts(webhook_hosts, private=webhook_private)
        subscriptions = Subscriptions(live, plan.history / "broker" / "subscriptions", webhook_hosts=hosts)
    except OSError as failure:
        raise ServiceError(explain_write_failure(plan.history, failure)) from None
    access = plan.settings.access
    asyncio.run(
        serve(
            plan,
            live=live,
            routers=[questions_router(live, access), subscriptions_router(subscriptions, access)],
            on_ready=lambda running: _announce(plan, running, live, as_json=as_json),
            on_ending=subscriptions.close_streams,
        )
    )


def _announce(plan: ServicePlan, running: Running, live: LiveHistory, *, as_json: bool) -> None:
    from ledto.history.errors import HistoryError
    from ledto.history.store import StorageError
    from ledto.service.http.app import is_loopback

    if as_json:
        from ledto.cli.documents import ServedDocument

        document = ServedDocument(
            http=running.http,
            grpc=running.grpc,
            broker=running.broker,
            history=str(plan.history),
            broker_pid=running.broker_pid,
            stream_pid=running.stream_pid,
        )
        print_json(document.to_json(), indent=None)
        return
    token = "" if plan.broker is not None else f"LEDTO_BROKER_TOKEN=$(cat {plan.history / 'broker' / 'token'}) "
    stream = f"none; elsewhere: {token}ledto observe --follow {running.broker} --to {plan.history}"
    if plan.stream:
        stream = f"process {running.stream_pid}, which begins after some seconds"
    kept = "its own files" if plan.broker is not None else f"{plan.history / 'broker'}"
    access = "everybody on this machine" if plan.settings.access.is_open else "callers with a token"
    if plan.settings.access.is_open and plan.settings.open_to_all:
        access = "everybody who reaches it"
    lines = [
        f"Collecting  {running.http}/v1/traces  /v1/logs  /v1/reports   for {access}",
        f"gRPC        {'off' if running.grpc is None else f'{running.grpc}   OTLP, for the same callers'}",
        f"Broker      {running.broker}   in {kept}",
        f"Stream      {stream}",
        f"History     {plan.history}   Ask: ledto why {plan.history} EVENT",
        f"Health      {running.http}/healthz  /readyz  /metrics",
    ]
    for line in lines:
        say(line)
    with suppress(HistoryError, StorageError):  # At the first start there is no history yet.
        say_what_to_ask(live.current().run, str(plan.history))
    if plan.settings.certificate is None and not is_loopback(plan.settings.host):
        say("Without TLS, tokens and reports cross the network in the clear: see --tls-cert", err=True)


def _check_found(searches: Sequence[Callable[[], object]]) -> None:
    """Look for all programs that are needed. Raises `ServiceError`, which says of all that are missing what to do."""
    from ledto.errors import LedtoError
    from ledto.service.http.app import ServiceError

    missing = []
    for find in searches:
        try:
            find()
        except LedtoError as fault:
            missing.append(str(fault))
    if missing:
        raise ServiceError("\n".join(missing))


def _make_limits(limits: Any, max_body: str, max_reports: int) -> Any:
    body_bytes = _read_size("--max-body", max_body)
    if not 1 << 10 <= body_bytes <= 60 << 20:
        raise typer.BadParameter("from 1k to 60m", param_hint="--max-body")
    return limits(body_bytes=body_bytes, reports=max_reports, bytes_in_flight=max(8 * body_bytes, 128 << 20))


def _make_stream_options(history: str, policies: list[str] | None, **lengths: str | None) -> list[str]:
    """Make the stream's arguments. Raises `LedtoError` for those it would refuse, or it would be started again and again."""
    texts = {name: text for name, text in lengths.items() if text is not None}
    length = {name: _read_length(f"--{name}", text) for name, text in texts.items()}
    agree_or_exit(TermsGiven(policies, length.get("eps"), length.get("delta")), history)
    options = [word for policy in policies or [] for word in ("--policy", policy)]
    return options + [word for name, text in texts.items() for word in (f"--{name}", text)]


def _read_length(option: str, text: str) -> int:
    try:
        return read_duration(text, "ns")
    except ValueError as refused:
        raise typer.BadParameter(str(refused), param_hint=option) from None


def _read_size(option: str, text: str) -> int:
    match = re.fullmatch(r"([1-9]\d{0,14})([kmgt]?)b?", text.strip(), re.IGNORECASE)
    if match is None:
        raise typer.BadParameter(f"a size such as 512m or 8g, not {text!r:.60}", param_hint=option)
    return int(match[1]) * _SIZES[match[2].lower()]
