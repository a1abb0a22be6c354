"""Write ten minutes of logs of an invented shop; return the truth about them and about the one order that failed.

Five services run on thirteen instances, and no two of their clocks agree. Each instance works on several orders at once,
each on its own *line*. After six minutes one order is refused and fails. What led to it, in true time::

    stock-2     configuration loaded: hold_seconds 900 -> 0        the cause
    stock-2     hold released  ->  payments-1                      because nothing is held longer than 0 s
    payments-1  charge refused: no stock held  ->  orders-1        although the customer's card is fine
    orders-1    ORDER FAILED                                       which somebody is called for at night

The clock of stock-2 is ahead, so sorted by wall time the cause comes after its effect, where nobody looks for it. The
clock of payments-2 is behind, so another change of configuration, made when all was over, comes right before the failure.
And orders-1 dropped its cache of prices just before, on another line: that did not lead to the failure, but no log can
rule it out, because all lines of a process share its memory.

A collector gets the reports in any order, some late, some twice. Towards the end it loses some. It loses none before the
failure: otherwise nobody could prove that one event did not lead to another.

Two literal lines of the logs (each is one line in the file)::

    {"process": "stock-2", "seq": 8661, "time": 1773479160784896197, "arrival": 1773479160595784884, "kind": "local",
     "line": "settings", "name": "configuration loaded: hold_seconds 900 -> 0", "severity": "notice",
     "setting": "hold_seconds"}
    {"process": "stock-2", "seq": 8662, "time": 1773479160786416791, "arrival": 1773479160603079223, "kind": "send",
     "line": "release 48208", "line_parent": "settings", "message": "m100956", "name": "hold released",
     "severity": "warn", "order": 48208}
"""

from __future__ import annotations

import json
from bisect import bisect
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

MS = 1_000_000
SECOND = 1_000 * MS
START = 1_773_478_800 * SECOND
"""2026-03-14 09:00:00 UTC, in nanoseconds, as all times here."""
ORDERS_A_SECOND = 24
INCIDENT = 0.6
"""When the failing order is placed, as a share of the time that the shop is open."""
LOSSES = 0.7
"""When the collector begins to lose reports, as a share of that time: after the failure."""
OUT_OF_SERVICE = range(-SECOND // 10, 9 * SECOND // 10)
"""When payments-2 gets no new orders, because its settings are changed; relative to when the failing order is placed."""
FIRST_ORDER = 39_573

CLOCKS: dict[str, tuple[int, int]] = {
    "gateway-1": (3, -20),
    "gateway-2": (-35, 45),
    "gateway-3": (60, 10),
    "orders-1": (-90, -30),
    "orders-2": (25, 60),
    "orders-3": (110, -75),
    "payments-1": (-15, 20),
    "payments-2": (-205, -40),
    "stock-1": (45, -10),
    "stock-2": (180, 35),
    "stock-3": (-60, 80),
    "mail-1": (-120, 15),
    "mail-2": (75, -55),
}
"""By instance: how many milliseconds its clock is ahead at the start, and by how many millionths it is too fast."""

LOST, TWICE, LATE = 0.007, 0.005, 0.0005
"""Shares of all reports; `LOST` is the share of those after `LOSSES`."""
LONGEST_DELAY = 2 * SECOND
"""The longest time that a report takes to the collector. All but the late ones take less than a tenth of it."""
SETTINGS = "settings"
"""The line on which an instance loads its configuration."""
TORN_LINES = 7
LOG_FILES = 5


@dataclass(slots=True)
class Happening:
    """An event in true time."""

    at: int
    process: str
    line: str
    kind: str
    name: str
    message: str | None
    severity: str
    attributes: dict[str, int | str]
    line_parent: str | None = None
    """The line that started this one."""
    seq: int = 0
    """Its number in its process, from 1; 0 until all events are known."""

    @property
    def id(self) -> str:
        """Its name in a history."""
        return f"{self.process}:{self.seq}"

    @property
    def wall(self) -> int:
        """Its wall time: what the clock of its instance showed."""
        return wall_time(self.process, self.at)


@dataclass(frozen=True, slots=True)
class ShopTruth:
    """The truth about the logs, which the logs themselves do not show."""

    events: int
    lost: int
    """Events whose reports were lost."""
    duplicates: int
    torn: int
    late: int
    reports: int
    """Lines in the logs: ``events - lost + duplicates + torn``."""
    receives_without_send: int
    """Receives whose sending was not reported."""
    messages: int
    """Messages with both ends reported."""
    messages_backwards: int
    """Messages that the wall clocks show as received before they were sent."""
    clocks_apart: int
    """The largest difference of two clocks at one moment."""
    failure: str
    chain: tuple[str, ...]
    """Every event on the path from the cause to the failure."""
    herring: str
    """The event that the wall clocks show right before the failure, and that happened after it."""
    bystander: str
    """An event before the failure in the same process, on another line."""
    causes: int
    """How many events led to the failure."""

    @property
    def cause(self) -> str:
        """The change of configuration that led to the failure."""
        return self.chain[0]


def wall_time(process: str, at: int) -> int:
    """Return what the clock of an instance shows at a true time."""
    offset_ms, millionths = CLOCKS[process]
    return at + offset_ms * MS + (at - START) * millionths // 1_000_000


def true_time(process: str, wall: int) -> int:
    """Return the true time at which the clock of an instance shows a wall time; exact to two nanoseconds."""
    offset_ms, millionths = CLOCKS[process]
    return START + (wall - START - offset_ms * MS) * 1_000_000 // (1_000_000 + millionths)


@dataclass(slots=True)
class Shop:
    """Makes events. Methods that return a time return the true time at which the process can continue."""

    random: Random
    incident: int
    """When the failing order is placed."""
    events: list[Happening] = field(default_factory=list)
    messages: int = 0
    """How many messages have been sent."""

    def choose_instance(self, service: str) -> str:
        """Choose an instance of a service at random."""
        return self.random.choice([name for name in CLOCKS if name.startswith(service)])

    def local(
        self, process: str, at: int, name: str, *, line: str = "", severity: str = "info", **attributes: int | str
    ) -> int:
        """Add a local event, on a line or on the line of its order."""
        line = line or f"order {attributes['order']}"
        self.events.append(Happening(at, process, line, "local", name, None, severity, attributes))
        return at + self.random.randint(MS // 5, 3 * MS)

    def message(
        self,
        sender: str,
        receiver: str,
        at: int,
        name: str,
        *,
        order: int,
        severity: str = "info",
        started: tuple[str, str] | None = None,
    ) -> int:
        """Add a message about an order, from the order's line in one process to its line in another.

        `started` is the line of the sender, if it is another one, and the line that started it.
        """
        self.messages += 1
        message = f"m{self.messages}"
        arrived = at + self.random.randint(MS, 6 * MS)
        line = f"order {order}"
        sender_line, parent = started or (line, None)
        attributes: dict[str, int | str] = {"order": order}
        self.events.append(Happening(at, sender, sender_line, "send", name, message, severity, attributes, parent))
        self.events.append(Happening(arrived, receiver, line, "receive", name, message, severity, attributes))
        return arrived + self.random.randint(MS // 5, 2 * MS)

    def ask_bank(self, gateway: str, orders: str, stock: str, payments: str, at: int, order: int) -> int:
        """Play the first half of every order, up to the bank's answer, which takes 200 to 600 ms."""
        at = self.local(gateway, at, "POST /orders", order=order)
        at = self.message(gateway, orders, at, "place order", order=order)
        at = self.local(orders, at, "order accepted", order=order)
        at = self.message(orders, stock, at, "reserve", order=order)
        at = self.local(stock, at, "stock held", order=order)
        at = self.message(stock, orders, at, "reserved", order=order)
        at = self.message(orders, payments, at, "charge", order=order)
        at = self.local(payments, at, "bank asked", order=order)
        return at + self.random.randint(200 * MS, 600 * MS)

    def answer(self, gateway: str, orders: str, at: int, verdict: str, order: int) -> None:
        """Play the second half of an order: the customer gets a mail and an answer on the page."""
        mail = self.choose_instance("mail")
        self.message(orders, mail, at, f"mail: {verdict}", order=order)
        at = self.message(orders, gateway, at + MS // 10, verdict, order=order)
        self.local(gateway, at, f"answered: {verdict}", order=order)

    def order(self, at: int, order: int) -> None:
        """Play an ordinary order; the bank declines one in a hundred."""
        gateway, orders, stock, payments = map(self.choose_instance, ("gateway", "orders", "stock", "payments"))
        if at - self.incident in OUT_OF_SERVICE:
            payments = "payments-1"
        at = self.ask_bank(gateway, orders, stock, payments, at, order)
        if self.random.random() < 0.01:
            at = self.local(payments, at, "card declined by the bank", severity="warn", order=order)
            at = self.message(payments, orders, at, "declined", order=order)
            at = self.message(orders, stock, at, "give back", order=order)
            self.answer(gateway, orders, at, "order cancelled", order)
            return
        at = self.local(payments, at, "card charged", order=order)
        at = self.message(payments, orders, at, "paid", order=order)
        at = self.local(orders, at, "order confirmed", order=order)
        self.answer(gateway, orders, at, "order confirmed", order)

    def fail_order(self, order: int) -> ShopIncident:
        """Play the order that fails, and the events around it."""
        charged = self.ask_bank("gateway-2", "orders-1", "stock-2", "payments-1", self.incident, order)
        first = len(self.events)
        at = self.change_setting("stock-2", charged - 30 * MS, "hold_seconds", "900 -> 0")
        released = (f"release {order}", SETTINGS)
        at = self.message("stock-2", "payments-1", at, "hold released", severity="warn", order=order, started=released)
        at = self.local("payments-1", at, "charge refused: no stock held", severity="warn", order=order)
        at = self.message("payments-1", "orders-1", at, "refused", severity="warn", order=order)
        self.local("orders-1", at, f"ORDER FAILED: {order}", severity="error", order=order)
        chain = self.events[first:]
        self.answer("gateway-2", "orders-1", at + MS, "order failed", order)
        self.local("orders-1", at - 20 * MS, "cache of prices dropped", line="housekeeping", severity="warn")
        bystander = self.events[-1]
        # Its own clock shows 4 ms before the failure.
        herring_at = true_time("payments-2", chain[-1].wall - 4 * MS)
        self.change_setting("payments-2", herring_at, "refuse_above_eur", "500 -> 50")
        return ShopIncident(chain, self.events[-1], bystander)

    def change_setting(self, process: str, at: int, setting: str, change: str) -> int:
        """Add an event in which somebody changes a setting of an instance."""
        name = f"configuration loaded: {setting} {change}"
        return self.local(process, at, name, line=SETTINGS, severity="notice", setting=setting)


@dataclass(frozen=True, slots=True)
class ShopIncident:
    """The events of the order that fails, and of what happens around it; the fields are as in `ShopTruth`."""

    chain: list[Happening]
    herring: Happening
    bystander: Happening


def write_shop(folder: Path, *, seconds: int = 600, seed: int = 7) -> ShopTruth:
    """Write the shop's logs into a folder, as JSON lines in the order of their arrival; return the truth about them.

    The same seed and length give the same bytes. Raises `ValueError` for less than ten seconds: too little would happen
    before the incident.
    """
    if seconds < 10:
        raise ValueError(f"the shop is open for ten seconds or longer, not {seconds}")
    random = Random(seed)
    incident = int(seconds * SECOND * INCIDENT)
    shop = Shop(random, START + incident)
    placed = sorted(random.randrange(seconds * SECOND) for _ in range(seconds * ORDERS_A_SECOND))
    failing = bisect(placed, incident)
    for number, after in enumerate(placed):
        shop.order(START + after, FIRST_ORDER + number + (number >= failing))
    story = shop.fail_order(FIRST_ORDER + failing)
    shop.events.sort(key=lambda event: event.at)
    numbers: Counter[str] = Counter()
    for event in shop.events:
        numbers[event.process] += 1
        event.seq = numbers[event.process]

    losses = START + int(seconds * SECOND * LOSSES)
    reported = [event for event in shop.events if event.at < losses or random.random() >= LOST]
    arrivals = list(_choose_arrivals(reported, random))
    late = sum(arrival - event.at > LONGEST_DELAY // 10 for arrival, event in arrivals)
    again = [(arrival + random.randrange(SECOND), event) for arrival, event in arrivals if random.random() < TWICE]
    lines = sorted(((arrival, event.id, _format_line(event, arrival)) for arrival, event in arrivals + again))
    for index in random.sample(range(len(lines)), TORN_LINES):
        arrival, name, line = lines[index]
        lines.append((arrival, name, line[: len(line) // 2]))
    _write(folder, [line for _, _, line in sorted(lines)])

    sent = {event.message: event.wall for event in reported if event.kind == "send"}
    received = {event.message: event.wall for event in reported if event.kind == "receive"}
    both = sent.keys() & received.keys()
    return ShopTruth(
        events=len(shop.events),
        lost=len(shop.events) - len(reported),
        duplicates=len(again),
        torn=TORN_LINES,
        late=late,
        reports=len(lines),
        receives_without_send=len(received) - len(both),
        messages=len(both),
        messages_backwards=sum(received[message] < sent[message] for message in both),
        clocks_apart=max(_clocks_apart(START), _clocks_apart(START + seconds * SECOND)),
        failure=story.chain[-1].id,
        chain=tuple(event.id for event in story.chain),
        herring=story.herring.id,
        bystander=story.bystander.id,
        causes=_count_causes(story.chain[-1], shop.events),
    )


def _count_causes(effect: Happening, events: list[Happening]) -> int:
    """Count the events that led to one, along lines, from line to line, and by messages. `events` are in true order."""
    causes = {id(effect)}
    lines = {(effect.process, effect.line)}
    messages: set[str | None] = set()
    reached_effect = False
    for event in reversed(events):
        reached_effect = reached_effect or event is effect
        sent = event.kind == "send" and event.message in messages
        if not reached_effect or not (sent or (event.process, event.line) in lines):
            continue
        causes.add(id(event))
        lines.add((event.process, event.line))
        if event.line_parent is not None:
            lines.add((event.process, event.line_parent))
        if event.kind == "receive":
            messages.add(event.message)
    return len(causes) - 1


def _clocks_apart(at: int) -> int:
    times = [wall_time(process, at) for process in CLOCKS]
    return max(times) - min(times)


def _choose_arrivals(reported: list[Happening], random: Random) -> Iterator[tuple[int, Happening]]:
    """Choose when the collector gets each report. Its own clock is right."""
    for event in reported:
        if random.random() < LATE:
            yield event.at + random.randint(LONGEST_DELAY // 10, LONGEST_DELAY), event
        else:
            yield event.at + min(int(random.expovariate(1 / (20 * MS))), LONGEST_DELAY // 10), event


def _format_line(event: Happening, arrival: int) -> str:
    record: dict[str, int | str] = {
        "process": event.process,
        "seq": event.seq,
        "time": event.wall,
        "arrival": arrival,
        "kind": event.kind,
        "line": event.line,
    }
    if event.line_parent is not None:
        record["line_parent"] = event.line_parent
    if event.message is not None:
        record["message"] = event.message
    record |= {"name": event.name, "severity": event.severity, **event.attributes}
    return json.dumps(record)


def _write(folder: Path, lines: list[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    size = -(-len(lines) // LOG_FILES)
    for number in range(LOG_FILES):
        part = lines[number * size : (number + 1) * size]
        (folder / f"collector-{number}.jsonl").write_text("".join(f"{line}\n" for line in part), encoding="utf-8")
