"""Report log records of `logging` as events.

``logger.error("order %s failed", 7, extra={"customer": "eve"})`` is reported as::

    {"name": "order 7 failed", "attributes": {"logger": "shop", "level": "ERROR", "template": "order %s failed",
     "customer": "eve"}, ...}
"""

from __future__ import annotations

import logging
import threading
import traceback
from os import PathLike
from types import TracebackType
from typing import Any, Final

from ledto.reporting.records import NAME_CHARACTERS
from ledto.reporting.reporter import Reporter
from ledto.reporting.stamper import log

CLOSE_S: Final = 2.0
"""How long `ReportingHandler.close` waits at most until its own reporter has sent all."""
STACK_CHARACTERS: Final = 12_000
"""The end of a stack trace that is kept. The whole attributes have `ledto.reporting.records.ATTRIBUTES_BYTES` at most."""
MESSAGE_CHARACTERS: Final = 4_000

_ExceptionInfo = tuple[type[BaseException], BaseException, TracebackType | None]
_OWN_FIELDS: Final = frozenset(logging.LogRecord("", 0, "", 0, "", None, None).__dict__) | {
    "message",
    "asctime",
    "taskName",
}
"""What every record has. Any other field was given by ``extra``."""


class ReportingHandler(logging.Handler):
    """A handler that reports each log record, with its formatted message as the event's name.

    Attributes are ``logger``, ``level``, ``template`` (the message before formatting), the fields of ``extra``, and for an
    exception ``exception.type``, ``exception.message`` and ``exception.stacktrace``. A field of ``extra`` that has one of
    these names gets ``extra.`` before it.

    Reporting never raises into the application. It never causes reports: records of the reporting itself are left out,
    and so are those that are logged while one is being reported.
    """

    def __init__(
        self,
        reporter: Reporter | None = None,
        *,
        process: str | None = None,
        endpoint: str | None = None,
        token: str | None = None,
        spool: str | PathLike[str] | None = None,
        level: int | str = logging.NOTSET,
    ) -> None:
        """Report by `reporter`, or by one that is made of the other arguments and closed with the handler.

        `Reporter` takes from the environment what is not given. So `logging.config.dictConfig` can make a handler of
        plain values. Raises ValueError for arguments that cannot work.
        """
        super().__init__(level)
        if reporter is not None and not (process is endpoint is token is spool is None):
            raise ValueError("a reporter has its process, endpoint, token and spool already: give it, or give them")
        self._owned = Reporter(process, endpoint=endpoint, token=token, spool=spool) if reporter is None else None
        self._reporter = reporter or self._owned
        self._busy = _Busy()

    @property
    def reporter(self) -> Reporter:
        """The reporter, for messages and lines of the same process."""
        assert self._reporter is not None
        return self._reporter

    def emit(self, record: logging.LogRecord) -> None:
        """Report the record. Never raises."""
        if self._busy.in_this_thread or record.name == log.name or record.name.startswith(f"{log.name}."):
            return
        self._busy.in_this_thread = True
        try:
            text = _format(record)
            self.reporter.report(text, **_attributes(record, text))
        except Exception:
            self.handleError(record)
        finally:
            self._busy.in_this_thread = False

    def close(self) -> None:
        """Send what is left, within `CLOSE_S`, if the reporter was made here."""
        super().close()
        if self._owned is not None:
            self._owned.close(CLOSE_S)


class _Busy(threading.local):
    in_this_thread = False


def _attributes(record: logging.LogRecord, text: str) -> dict[str, Any]:
    own: dict[str, Any] = {"logger": record.name, "level": record.levelname, "template": _cut(str(record.msg))}
    if len(text) > NAME_CHARACTERS:
        # The name of an event is cut there.
        own["text"] = _cut(text)
    info = record.exc_info
    if isinstance(info, tuple) and info[0] is not None:
        own |= _exception_attributes(info)
    elif record.exc_text:
        # Another process or thread formatted the exception and sent the record on.
        own["exception.stacktrace"] = record.exc_text[-STACK_CHARACTERS:]
    if record.stack_info:
        own["stack_info"] = record.stack_info[-STACK_CHARACTERS:]
    given = {str(name): value for name, value in record.__dict__.items() if name not in _OWN_FIELDS}
    return own | {f"extra.{name}" if name in own else name: value for name, value in given.items()}


def _exception_attributes(info: _ExceptionInfo) -> dict[str, str]:
    """Describe an exception by the names that OpenTelemetry gives to its parts."""
    kind, error, trace = info
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    try:
        message = str(error)
    except Exception:
        message = f"<a {kind.__name__} that cannot be shown>"
    stack = "".join(traceback.format_exception(kind, error, trace))
    return {
        "exception.type": name,
        "exception.message": _cut(message),
        "exception.stacktrace": stack[-STACK_CHARACTERS:],
    }


def _format(record: logging.LogRecord) -> str:
    """Format the message. Return it unformatted if its arguments do not fit."""
    try:
        return record.getMessage()
    except Exception:
        return str(record.msg)


def _cut(text: str) -> str:
    return text[:MESSAGE_CHARACTERS]
