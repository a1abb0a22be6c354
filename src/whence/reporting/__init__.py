"""Takes an application's events; gives reports to the service, and causes to the messages it sends.

One literal use::

    reporter = Reporter("shop")
    reporter.report("order.placed", order=42)

`docs/report.md` says how to use it with HTTP, gRPC, logging and OpenTelemetry. Nothing here needs more than the
standard library; each integration is a module of its own that imports what it integrates.
"""

from whence.reporting.carriers import HEADER, Message, extract, inject
from whence.reporting.log_handler import ReportingHandler
from whence.reporting.reporter import Event, Reporter

__all__ = ["Reporter", "Event", "Message", "HEADER", "inject", "extract", "ReportingHandler"]
