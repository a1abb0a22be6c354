from __future__ import annotations

import logging
import logging.config
import threading
from collections.abc import Iterator

import pytest

from ledto.clocks import HybridStamp
from ledto.reporting import Message, Reporter, ReportingHandler
from ledto.sources.error_column import is_error
from tests.reporting.sink import Sink, free_port, serving


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    found = logging.getLogger("tests.reporting.shop")
    found.setLevel(logging.DEBUG)
    yield found
    found.handlers.clear()
    found.propagate = True
    logging.getLogger("ledto.reporting").handlers.clear()


def test_log_records_become_events(logger: logging.Logger) -> None:
    """An application that logs already has its events told without a change, with all that it says of them."""
    sink = Sink()
    with serving(sink) as url, Reporter("app", endpoint=url) as reporter:
        logger.addHandler(ReportingHandler(reporter, level=logging.INFO))
        logger.debug("not this")
        logger.info("order %d placed", 7, extra={"customer": {"name": "eve"}, "level": "gold"})
        try:
            raise OutOfStock("no piece left")
        except OutOfStock:
            logger.exception("order %d failed")
        assert reporter.flush(30)
    placed, failed = sink.events()
    assert placed["name"] == "order 7 placed"
    assert placed["attributes"] == {
        "logger": logger.name,
        "level": "INFO",
        "template": "order %d placed",
        "customer": {"name": "eve"},
        "extra.level": "gold",
    }
    told = failed["attributes"]
    assert (failed["name"], told["template"]) == ("order %d failed", "order %d failed")
    assert (told["exception.type"], told["exception.message"]) == (f"{__name__}.OutOfStock", "no piece left")
    assert told["exception.stacktrace"].startswith("Traceback ")
    assert 'raise OutOfStock("no piece left")' in told["exception.stacktrace"]
    assert [is_error(event["attributes"]) for event in (placed, failed)] == [None, True]


class OutOfStock(Exception):
    pass


def test_a_record_too_large_to_keep_still_tells_that_it_is_a_failure(logger: logging.Logger) -> None:
    """One long field beside it, and a subscriber to errors would never hear of the failure."""
    sink = Sink()
    with serving(sink) as url, Reporter("app", endpoint=url) as reporter:
        logger.addHandler(ReportingHandler(reporter))
        try:
            raise KeyError("ü" * 50_000)
        except KeyError:
            logger.exception("x" * 5_000, extra={"response": "y" * 100_000, "order": 7})
        assert reporter.flush(30)
    (event,) = sink.events()
    told = event["attributes"]
    assert (event["name"], told["level"], told["exception.type"], told["order"]) == (
        "x" * 1_000,
        "ERROR",
        "KeyError",
        7,
    )
    assert told["ledto.cut_bytes"] > 100_000
    assert "response" not in told


def test_a_configuration_alone_makes_the_handler(logger: logging.Logger, monkeypatch: pytest.MonkeyPatch) -> None:
    """An application that is configured by a file would have to be changed to report its logs."""
    sink = Sink()
    with serving(sink) as url:
        plain = {"class": "ledto.reporting.ReportingHandler", "level": "INFO"}
        for number, given in enumerate(({"process": "app", "endpoint": url, "token": "secret"}, {}), start=1):
            if not given:
                monkeypatch.setenv("LEDTO_PROCESS", "app")
                monkeypatch.setenv("LEDTO_ENDPOINT", url)
                monkeypatch.setenv("LEDTO_TOKEN", "secret")
            logging.config.dictConfig(
                {
                    "version": 1,
                    "disable_existing_loggers": False,
                    "handlers": {"ledto": plain | given},
                    "loggers": {logger.name: {"handlers": ["ledto"], "level": "DEBUG"}},
                }
            )
            logger.debug("not this")
            logger.info("order placed")
            (handler,) = logger.handlers
            # What a handler made itself, it also ends: as logging does at the exit, and at a new configuration.
            handler.close()
            assert len(sink.events()) == number
            assert sink.headers[-1]["Authorization"] == "Bearer secret"
    assert {event["process"].partition("@")[0] for event in sink.events()} == {"app"}
    with pytest.raises(ValueError, match="has its process"):
        ReportingHandler(Reporter("app"), process="other")


@pytest.mark.parametrize("message", ["BadText()", "record with bad extra", "bad exception"])
def test_no_record_whatever_raises_into_the_application(
    logger: logging.Logger, capsys: pytest.CaptureFixture[str], message: str
) -> None:
    """A line that only logs would end a request, or the program."""

    class Bad(Exception):
        def __str__(self) -> str:
            raise RuntimeError("cannot be shown")

    # pytest has a handler of its own further up, which raises.
    logger.propagate = False
    with Reporter("app", endpoint=f"http://127.0.0.1:{free_port()}") as reporter:
        logger.addHandler(ReportingHandler(reporter))
        if message == "BadText()":
            logger.error(Bad())
            assert "cannot be shown" in capsys.readouterr().err, "logging's own complaint, on stderr"
        elif message == "record with bad extra":
            logger.error("order failed", extra={"what": Bad(), "when": object(), "self": 1})
            assert reporter.stats()["reported"] == 1
        else:
            try:
                raise Bad
            except Bad:
                logger.exception("order failed")
            assert reporter.stats()["reported"] == 1
        reporter.close(0)


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
