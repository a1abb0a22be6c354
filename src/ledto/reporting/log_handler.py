"""Report log records of `logging` as events."""

from __future__ import annotations

import logging
import threading

from ledto.reporting.reporter import Reporter
from ledto.reporting.stamper import log


class ReportingHandler(logging.Handler):
    """A handler that reports each log record. The event's name is the message before formatting.

    It leaves out records of the reporting itself, and records that are logged while one is being reported: reporting
    never causes reports.
    """

    def __init__(self, reporter: Reporter, *, level: int = logging.NOTSET) -> None:
        super().__init__(level)
        self._reporter = reporter
        self._busy = _Busy()

    def emit(self, record: logging.LogRecord) -> None:
        """Report the record. Never raises."""
        if self._busy.in_this_thread or record.name == log.name or record.name.startswith(f"{log.name}."):
            return
        self._busy.in_this_thread = True
        try:
            attributes = {"logger": record.name, "level": record.levelname, "text": _format(record)}
            if record.exc_info and record.exc_info[0] is not None:
                attributes["exception"] = record.exc_info[0].__qualname__
            self._reporter.report(str(record.msg), **attributes)
        except Exception:
            self.handleError(record)
        finally:
            self._busy.in_this_thread = False


class _Busy(threading.local):
    in_this_thread = False


def _format(record: logging.LogRecord) -> str:
    """Format the message. Return it unformatted if its arguments do not fit."""
    try:
        return record.getMessage()
    except Exception:
        return str(record.msg)
