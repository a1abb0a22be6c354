from __future__ import annotations

import logging
import threading
from collections.abc import Iterator

import pytest

from ledto.clocks import HybridStamp
from ledto.reporting import Message, Reporter, ReportingHandler
from tests.reporting.sink import Sink, free_port, serving


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    found = logging.getLogger("tests.reporting.shop")
    found.setLevel(logging.DEBUG)
    yield found
    found.handlers.clear()
    logging.getLogger("ledto.reporting").handlers.clear()


def test_log_records_become_events(logger: logging.Logger) -> None:
    """An application that logs already has its events told without a change."""
    sink = Sink()
    with serving(sink) as url, Reporter("app", endpoint=url) as reporter:
        logger.addHandler(ReportingHandler(reporter, level=logging.INFO))
        logger.debug("not this")
        logger.info("order %d placed", 7)
        try:
            raise KeyError("x")
        except KeyError:
            logger.exception("order %d failed")
        assert reporter.flush(30)
    placed, failed = sink.events()
    assert placed["name"] == "order %d placed"
    assert placed["attributes"] == {"logger": logger.name, "level": "INFO", "text": "order 7 placed"}
    assert (failed["attributes"]["exception"], failed["attributes"]["text"]) == ("KeyError", "order %d failed")


def test_reporting_never_causes_reports(logger: logging.Logger) -> None:
    """A service that is down is logged; if that were reported, one failure would make the next, for ever."""

    class Chatty:
        def __str__(self) -> str:
            logger.warning("being shown")
            return "chatty"

    with Reporter("app", endpoint=f"http://127.0.0.1:{free_port()}", retry_s=(0.001, 0.002)) as reporter:
        handler = ReportingHandler(reporter)
        logger.addHandler(handler)
        logging.getLogger("ledto.reporting").addHandler(handler)
        handler.handle(logging.LogRecord(logger.name, logging.INFO, __file__, 1, Chatty(), None, None))
        while reporter.stats()["retries"] < 5:
            reporter.flush(0.01)
        assert (reporter.stats()["reported"], reporter.stats()["dropped"]) == (1, 0)
        reporter.close(0)


def test_a_handler_may_wait_for_the_reporter_while_it_logs() -> None:
    """Logging with a lock in hand, when a handler of log records needs the same lock, would stop the application."""
    asked: list[bool] = []

    class Waiting(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            other = threading.Thread(target=reporter.stats, daemon=True)
            other.start()
            other.join(5)
            asked.append(not other.is_alive())

    handler = Waiting()
    log = logging.getLogger("ledto.reporting")
    log.addHandler(handler)
    try:
        reporter = Reporter("app", endpoint=f"http://127.0.0.1:{free_port()}", retry_s=(0.001, 0.002))
        reporter.received(Message("peer:1", HybridStamp(1, 1, "peer")), "of another clock")
        while not reporter.stats()["retries"]:
            reporter.flush(0.01)
        assert not reporter.close(0.01)
    finally:
        log.removeHandler(handler)
    assert asked == [True] * 3, "no stamps, no service, lost events"
