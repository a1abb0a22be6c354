"""What Ctrl-C does while a command works."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

INTERRUPTED = 130
"""Exit status after an interrupt, as shells show it: 128 and the signal's number."""


@contextmanager
def ended_by_interrupts() -> Iterator[None]:
    """An interrupt ends the process at once, without clean-up.

    For compiled loops, during which Python's own handler never gets its turn. Outside the main thread, which is the
    only one that may choose, nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL if before is None else before)


@contextmanager
def quiet_interrupts() -> Iterator[None]:
    """An interrupt raises `KeyboardInterrupt` as ever, without the trace-backs that py4j logs besides."""
    logging.root.addFilter(_not_of_py4j)
    try:
        yield
    finally:
        logging.root.removeFilter(_not_of_py4j)


def _not_of_py4j(record: logging.LogRecord) -> bool:
    return not record.getMessage().endswith("while sending command.")
