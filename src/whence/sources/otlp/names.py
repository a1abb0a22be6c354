"""The names of what holds spans and log records in OTLP's JSON, from the request down, and of what is passed over."""

from __future__ import annotations

from typing import Final

from whence.sources.otlp.records import LOGS, SPANS

ENVELOPES: Final = frozenset({"result", "trace"})
"""What the answers of Jaeger (API v3) and Tempo (API v2) wrap a request in."""
RESOURCES: Final = frozenset({"resourceSpans", "resource_spans", "resourceLogs", "resource_logs", "batches"})
"""Tempo's API calls them batches."""
SCOPES: Final = frozenset({"scopeSpans", "scope_spans", "scopeLogs", "scope_logs"})
RECORDS: Final = {"spans": SPANS, "logRecords": LOGS, "log_records": LOGS}
LEGACY: Final = frozenset(
    {
        "instrumentationLibrarySpans",
        "instrumentation_library_spans",
        "instrumentationLibraryLogs",
        "instrumentation_library_logs",
    }
)
IN_RESOURCE: Final = frozenset({"resource", *SCOPES, *LEGACY})

OTHER_SIGNALS: Final = frozenset({"resourceMetrics", "resource_metrics", "resourceProfiles", "resource_profiles"})
"""What requests may hold that tells nothing of causes, and gives no rows."""
IN_OTHER_SIGNALS: Final = frozenset(
    {
        "scopeMetrics",
        "scope_metrics",
        "scopeProfiles",
        "scope_profiles",
        "instrumentationLibraryMetrics",
        "instrumentation_library_metrics",
        "metrics",
        "profiles",
    }
)
"""What those hold in turn, which is met by itself where reading goes on after damage."""

EXPECTED_IN_REQUEST: Final = "resourceSpans, resourceLogs or batches"
EXPECTED_IN_RESOURCE: Final = "scopeSpans or scopeLogs"
EXPECTED_IN_SCOPE: Final = "spans or logRecords"
