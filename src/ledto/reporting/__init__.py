"""Report an application's events to the service, and pass their causes on with its messages.

    >>> reporter = Reporter("shop")
    >>> event = reporter.report("order.placed", order=42)

sends this record, in a batch with others, to ``POST /v1/reports``::

    {"process":"shop@k2m7","seq":1,"time":1700000000000000000,"kind":"local","name":"order.placed",
     "line":"main #q4dx","stamp":{"clock":"lamport","time":1,"process":"shop@k2m7"},"attributes":{"order":42}}

`docs/report.md` shows the use with HTTP, gRPC, logging and OpenTelemetry. The package needs only the standard library.
Each integration is a module of its own, and imports the library that it integrates.
"""

from ledto.reporting.headers import HEADER, Message, extract, inject
from ledto.reporting.log_handler import ReportingHandler
from ledto.reporting.reporter import ReportedEvent, Reporter

__all__ = ["Reporter", "ReportedEvent", "Message", "HEADER", "inject", "extract", "ReportingHandler"]
