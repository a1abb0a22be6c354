"""Run the compiled system of `ledto.simulation.raw_log_kernel` with the parameters of a raw log, batch by batch."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ledto.simulation import raw_log_kernel as core
from ledto.simulation.draws import last_accepted, seeded

if TYPE_CHECKING:
    from ledto.simulation.raw_logs import RawLog

BATCH_ROWS = 1_000_000
"""The rows of one batch: 100 MB."""


def generate(log: RawLog, size: int = BATCH_ROWS) -> Iterator[NDArray[np.int64]]:
    """Yield all reports in the order of arrival, lost ones included, in tables of `size` rows.

    HAZARD: each table is overwritten by the next.
    """
    settings, turns, actors = _settings(log), _turns(log), _actors(log)
    state, progress = seeded(log.seed), np.zeros(core.PROGRESS, np.int64)
    messages, reports = _WaitingHeap(core.OF_A_MESSAGE, 2 * log.fanout), _WaitingHeap(core.OF_A_REPORT, 8)
    rows = np.empty((min(size, max(1, 2 * log.events)), core.OF_A_REPORT), np.int64)
    filled = 0
    while True:
        under_way = (messages.due, messages.slots, messages.values, reports.due, reports.slots, reports.values)
        added = core.advance(state, settings, progress, turns, actors, *under_way, rows[filled:])
        filled += added
        messages.make_room(int(progress[core.MESSAGES_DUE]), log.fanout)
        reports.make_room(int(progress[core.REPORTS_DUE]), 2)
        ended = progress[core.MADE] == log.events and progress[core.REPORTS_DUE] == 0
        if filled == len(rows) or (ended and filled > 0):
            yield rows[:filled]
            filled = 0
        if ended:
            return


class _WaitingHeap:
    """A heap of things under way and their values, as the kernel needs it; slots beyond the heap's size are free."""

    def __init__(self, width: int, room: int) -> None:
        self.due = np.zeros(room, np.int64)
        self.slots = np.arange(room)
        self.values = np.zeros((room, width), np.int64)

    def make_room(self, used: int, at_once: int) -> None:
        """Double the heap until `at_once` more fit, which is what the kernel asks for."""
        room = len(self.due)
        while used + at_once >= room:
            self.due = np.concatenate([self.due, np.zeros(room, np.int64)])
            self.slots = np.concatenate([self.slots, np.arange(room, 2 * room)])
            self.values = np.concatenate([self.values, np.zeros_like(self.values)])
            room *= 2


def _settings(log: RawLog) -> NDArray[np.int64]:
    settings = np.zeros(core.SETTINGS, np.int64)
    settings[core.EVENTS] = log.events
    settings[core.ACTION_GAP] = log.gap_ns // log.processes
    settings[core.LAST_LOCAL] = last_accepted(log.local)
    settings[core.LAST_MULTICAST] = last_accepted(log.multicast)
    settings[core.FANOUT] = log.fanout
    settings[core.DELAY] = log.delay_ns
    settings[core.REPORT_DELAY] = log.report_delay_ns
    settings[core.REPORTS_IN_ORDER] = log.reports_in_order
    settings[core.LAST_LOST] = last_accepted(log.lost)
    settings[core.LAST_DUPLICATED] = last_accepted(log.duplicated)
    settings[core.EPS_AMPLITUDE] = log.eps_ns // 2 - (log.resolution_ns - 1)
    settings[core.RESOLUTION] = log.resolution_ns
    settings[core.START] = log.start_ns
    return settings


def _turns(log: RawLog) -> NDArray[np.int32]:
    """List processes as often as they act, relative to each other: one entry is drawn for each action."""
    times = [1 + _draw_trait(log, "often", process) % log.unevenness for process in range(log.processes)]
    return np.repeat(np.arange(log.processes, dtype=np.int32), times)


def _actors(log: RawLog) -> NDArray[np.int64]:
    actors = np.zeros((log.processes, core.OF_A_PROCESS), np.int64)
    for process, actor in enumerate(actors):
        actor[core.PHASE] = _draw_trait(log, "phase", process) % max(1, 2 * log.eps_ns)
        ppm = _draw_trait(log, "drift", process) % (2 * log.drift_ppm + 1) - log.drift_ppm
        actor[core.DRIFT] = ppm * (1 << 20) // 10**6
        actor[core.CLOCK] = core.NO_READING
        actor[core.LATEST_EVENT] = core.NO_EVENT
    return actors


def _draw_trait(log: RawLog, what: str, process: int) -> int:
    """Draw a number for one trait of one process, the same everywhere."""
    return int.from_bytes(sha256(f"{log.seed} {what} {process}".encode()).digest()[:8], "little")
