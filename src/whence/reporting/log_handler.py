"""Log records as reports."""

from __future__ import annotations

import logging
import threading

from whence.reporting.reporter import Reporter
from whence.reporting.stamping import log


class ReportingHandler(logging.Handler):
    """Reports every log record it handles, under the record's unformatted message.

    Records of the reporting itself, and records that are logged while one is being reported, are left out: reporting
    never causes reports.
    """

    def __init__(self, reporter: Reporter, *, level: int = logging.NOTSET) -> None:
        super().__init__(level)
        self._reporter = reporter
        self._busy = _Busy()

    def emit(self, record: logging.LogRecord) -> None:
        """Report the record; never raises."""
        if self._busy.here or record.name == log.name or record.name.startswith(f"{log.name}."):
            return
        self._busy.here = True
        try:
            attributes = {"logger": record.name, "level": record.levelname, "text": _text(record)}
            if record.exc_info and record.exc_info[0] is not None:
                attributes["exception"] = record.exc_info[0].__qualname__
            self._reporter.report(str(record.msg), **attributes)
        except Exception:
            self.handleError(record)
        finally:
            self._busy.here = False


class _Busy(threading.local):
    here = False


def _text(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:
        return str(record.msg)
