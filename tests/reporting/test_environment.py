"""A reporter's settings: arguments, then LEDTO_..., then what OpenTelemetry's SDK would use."""

from __future__ import annotations

import pytest

from ledto.reporting import Reporter
from ledto.reporting.environment import DEFAULT_ENDPOINT, ReporterSettings, read_settings

OTEL = {
    "OTEL_SERVICE_NAME": "otel-shop",
    "OTEL_EXPORTER_OTLP_ENDPOINT": "https://otel.example:4318/base",
    "OTEL_EXPORTER_OTLP_HEADERS": "x-team=shop,Authorization=Bearer%20otel%2Dtoken",
}
OURS = {"LEDTO_PROCESS": "shop", "LEDTO_ENDPOINT": "http://ledto.example:4318", "LEDTO_TOKEN": "token"}


@pytest.mark.parametrize(
    ("given", "environ", "expected"),
    [
        (("a", "http://b:1", "c"), OTEL | OURS, ("a", "http://b:1", "c")),
        ((None, None, None), OTEL | OURS, ("shop", "http://ledto.example:4318", "token")),
        ((None, None, None), OTEL, ("otel-shop", "https://otel.example:4318/base", "otel-token")),
        (("a", None, None), {}, ("a", DEFAULT_ENDPOINT, None)),
        # An empty variable is not set, as for OpenTelemetry.
        (("a", None, None), dict.fromkeys(OTEL | OURS, ""), ("a", DEFAULT_ENDPOINT, None)),
        ((None, None, None), {"OTEL_RESOURCE_ATTRIBUTES": "a=b,service.name=till"}, ("till", DEFAULT_ENDPOINT, None)),
        # A port of gRPC: reports go by HTTP, to the same host.
        (("a", None, None), {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4317"}, ("a", "http://c:4318", None)),
        (("a", None, None), {"OTEL_EXPORTER_OTLP_ENDPOINT": "c:4317"}, ("a", "http://c:4318", None)),
        (("a", None, None), {"OTEL_EXPORTER_OTLP_HEADERS": "authorization=Basic%20x"}, ("a", DEFAULT_ENDPOINT, None)),
        # The token of another service must not go to ours.
        (("a", "http://b:1", None), OTEL, ("a", "http://b:1", None)),
        (("a", None, None), OTEL | {"LEDTO_ENDPOINT": "http://b:1"}, ("a", "http://b:1", None)),
        (("a", None, None), OTEL | {"LEDTO_TOKEN": "token"}, ("a", "https://otel.example:4318/base", "token")),
    ],
)
def test_the_nearest_setting_wins_and_tokens_stay_where_they_belong(
    given: tuple[str | None, str | None, str | None], environ: dict[str, str], expected: tuple[str, str, str | None]
) -> None:
    """A container could not be configured, or would send its reports, or a secret, to somebody else."""
    assert read_settings(*given, environ=environ) == ReporterSettings(*expected)


def test_a_reporter_reads_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The variables would be read by nobody."""
    for name in OTEL | OURS:
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ValueError, match="LEDTO_PROCESS or OTEL_SERVICE_NAME"):
        Reporter()
    monkeypatch.setenv("LEDTO_PROCESS", "shop")
    with Reporter() as reporter:
        assert reporter.process.startswith("shop@")
    monkeypatch.setenv("LEDTO_ENDPOINT", "nowhere")
    with pytest.raises(ValueError, match="an endpoint is"):
        Reporter()
    with pytest.raises(ValueError, match="not empty"):
        Reporter("")
