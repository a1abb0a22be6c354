"""Read a reporter's settings from the environment, where the application gives none.

::

    LEDTO_PROCESS=shop LEDTO_ENDPOINT=https://ledto.example:4318 LEDTO_TOKEN=... python shop.py

An argument wins over ``LEDTO_...``, and that over the variables of OpenTelemetry, which an application may have already. An
empty variable counts as not set. A token is sent only where it belongs: that of ``OTEL_EXPORTER_OTLP_HEADERS`` goes only to
the endpoint that OpenTelemetry itself would use.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote, urlsplit, urlunsplit

DEFAULT_ENDPOINT: Final = "http://127.0.0.1:4318"

_OTLP_GRPC_PORT, _OTLP_HTTP_PORT = 4317, 4318


@dataclass(frozen=True, slots=True)
class ReporterSettings:
    """Who reports, where to, and with which token."""

    process: str
    endpoint: str
    token: str | None


def read_settings(
    process: str | None, endpoint: str | None, token: str | None, *, environ: Mapping[str, str] = os.environ
) -> ReporterSettings:
    """Fill in what is None from the environment. Raises ValueError if nothing names the process."""
    if process is None:
        process = environ.get("LEDTO_PROCESS") or environ.get("OTEL_SERVICE_NAME") or _service_name(environ)
        if not process:
            raise ValueError(
                "a reporter needs the name of its process: pass it, as in Reporter('shop'), or set LEDTO_PROCESS or "
                "OTEL_SERVICE_NAME"
            )
    if token is None:
        token = environ.get("LEDTO_TOKEN") or None
    if endpoint is None:
        endpoint = environ.get("LEDTO_ENDPOINT") or None
    if endpoint is None:
        otlp_endpoint = environ.get("OTEL_EXPORTER_OTLP_ENDPOINT")
        endpoint = _reports_endpoint(otlp_endpoint) if otlp_endpoint else DEFAULT_ENDPOINT
        if token is None:
            token = _bearer_token(environ.get("OTEL_EXPORTER_OTLP_HEADERS", ""))
    return ReporterSettings(process, endpoint, token)


def _service_name(environ: Mapping[str, str]) -> str | None:
    return _pairs(environ.get("OTEL_RESOURCE_ATTRIBUTES", "")).get("service.name")


def _reports_endpoint(otlp_endpoint: str) -> str:
    """Return where reports go, if OTLP goes to this endpoint: for the port of gRPC, to that of HTTP on the same host."""
    if "://" not in otlp_endpoint:
        otlp_endpoint = f"http://{otlp_endpoint}"
    parts = urlsplit(otlp_endpoint)
    if parts.port == _OTLP_GRPC_PORT:
        parts = parts._replace(netloc=parts.netloc.removesuffix(str(_OTLP_GRPC_PORT)) + str(_OTLP_HTTP_PORT))
    return urlunsplit(parts)


def _bearer_token(headers: str) -> str | None:
    """Find the bearer token among headers, written as ``name=value,name=value`` with values in percent encoding."""
    scheme, _, token = _pairs(headers).get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" and token.strip() else None


def _pairs(text: str) -> dict[str, str]:
    pairs = (pair.partition("=") for pair in text.split(","))
    return {name.strip().lower(): unquote(value.strip()) for name, equals, value in pairs if equals}
