"""An invented shop: ten minutes of its logs, and the truth about the one order that failed in them.

Five services run on thirteen instances, and no two of their clocks agree. Each instance works on several orders at once,
each on a *line* of its own. After six minutes one order is refused and fails. What led to it, in true time::

    stock-2     configuration loaded: hold_seconds 900 -> 0        the cause
    stock-2     hold released  ->  payments-1                      because nothing is held any longer than 0 s
    payments-1  charge refused: no stock held  ->  orders-1        although the customer's card is fine
    orders-1    ORDER FAILED                                       what somebody is called at night for

The clock of stock-2 runs ahead, so sorted by wall time the cause stands after its effect, where nobody looks for it. The
clock of payments-2 runs behind, so another change of configuration, made when all was over, stands right before the
failure. And orders-1 dropped its cache of prices just before, on another line: that had nothing to do with it, but no log
can rule it out, for all lines of a process share its memory.

The reports travel to a collector, which gets them in any order, some late, some twice. Towards the end it loses some.
It loses none before the failure: otherwise nobody could prove that two events had nothing to do with each other.

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
"""When the order that fails is placed, as a share of the time the shop is open."""
LOSSES = 0.7
"""From when on the collector loses reports, as a share of that time: nothing that led to the failure is lost."""
OUT_OF_SERVICE = range(-SECOND // 10, 9 * SECOND // 10)
"""When payments-2 gets no new orders, from the moment the order that fails is placed: while its settings are changed."""
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
"""Each instance's clock: how many milliseconds it is off at the start, and by how many millionths it is too fast."""

LOST, TWICE, LATE = 0.007, 0.005, 0.0005
"""Shares of the reports; of those at risk, for `LOST`."""
LONGEST_DELAY = 2 * SECOND
"""No report takes longer to the collector; all but the late ones take less than a tenth of it."""
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
    """Its number in its process, from 1; 0 until all have happened."""

    @property
    def id(self) -> str:
        """The name by which whence knows it."""
        return f"{self.process}:{self.seq}"

    @property
    def wall(self) -> int:
        """What the clock of its instance showed."""
        return clock(self.process, self.at)


@dataclass(frozen=True, slots=True)
class Truth:
    """What only the maker of the logs can know."""

    events: int
    lost: int
    """Events whose report never came."""
    duplicates: int
    torn: int
    late: int
    reports: int
    """Lines in the logs: ``events - lost + duplicates + torn``."""
    orphans: int
    """Receives whose sending was not reported."""
    messages: int
    """Messages of which both ends were reported."""
    messages_backwards: int
    """Those of them that the wall clocks show as received before they were sent."""
    clocks_apart: int
    """The largest difference of two clocks at one moment."""
    failure: str
    chain: tuple[str, ...]
    """From the cause to the failure: every event that passed it on."""
    herring: str
    """What the wall clocks show right before the failure, and truly happened after it."""
    bystander: str
    """What happened before the failure in the same process, on another line."""
    causes: int
    """How many events led to the failure."""

    @property
    def cause(self) -> str:
        """The change of configuration that led to the failure."""
        return self.chain[0]


def clock(process: str, at: int) -> int:
    """What the clock of an instance shows at a true time."""
    offset_ms, millionths = CLOCKS[process]
    return at + offset_ms * MS + (at - START) * millionths // 1_000_000


def true_time(process: str, wall: int) -> int:
    """When the clock of an instance shows a wall time, to the nanosecond or two."""
    offset_ms, millionths = CLOCKS[process]
    return START + (wall - START - offset_ms * MS) * 1_000_000 // (1_000_000 + millionths)


@dataclass(slots=True)
class Shop:
    """Lets things happen; every method gives the true time at which its process can go on."""

    draw: Random
    incident: int
    """When the order is placed that fails."""
    happened: list[Happening] = field(default_factory=list)
    sent: int = 0

    def instance(self, service: str) -> str:
        """Any instance of a service."""
        return self.draw.choice([name for name in CLOCKS if name.startswith(service)])

    def local(
        self, process: str, at: int, name: str, *, line: str = "", severity: str = "info", **attributes: int | str
    ) -> int:
        """Something happens in a process: on a line, or on that of its order."""
        line = line or f"order {attributes['order']}"
        self.happened.append(Happening(at, process, line, "local", name, None, severity, attributes))
        return at + self.draw.randint(MS // 5, 3 * MS)

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
        """One process tells another about an order, on the order's lines; or from a line that another has `started`."""
        self.sent += 1
        message = f"m{self.sent}"
        arrived = at + self.draw.randint(MS, 6 * MS)
        line = f"order {order}"
        of_sender, parent = started or (line, None)
        about: dict[str, int | str] = {"order": order}
        self.happened.append(Happening(at, sender, of_sender, "send", name, message, severity, about, parent))
        self.happened.append(Happening(arrived, receiver, line, "receive", name, message, severity, about))
        return arrived + self.draw.randint(MS // 5, 2 * MS)

    def ask_bank(self, gateway: str, orders: str, stock: str, payments: str, at: int, order: int) -> int:
        """The first half of every order: up to where its card is looked at, 200 to 600 ms long."""
        at = self.local(gateway, at, "POST /orders", order=order)
        at = self.message(gateway, orders, at, "place order", order=order)
        at = self.local(orders, at, "order accepted", order=order)
        at = self.message(orders, stock, at, "reserve", order=order)
        at = self.local(stock, at, "stock held", order=order)
        at = self.message(stock, orders, at, "reserved", order=order)
        at = self.message(orders, payments, at, "charge", order=order)
        at = self.local(payments, at, "bank asked", order=order)
        return at + self.draw.randint(200 * MS, 600 * MS)

    def answer(self, gateway: str, orders: str, at: int, verdict: str, order: int) -> None:
        """The second half: the customer is told, on the page and by mail."""
        mail = self.instance("mail")
        self.message(orders, mail, at, f"mail: {verdict}", order=order)
        at = self.message(orders, gateway, at + MS // 10, verdict, order=order)
        self.local(gateway, at, f"answered: {verdict}", order=order)

    def order(self, at: int, order: int) -> None:
        """An order like any other; the bank declines one in a hundred."""
        gateway, orders, stock, payments = map(self.instance, ("gateway", "orders", "stock", "payments"))
        if at - self.incident in OUT_OF_SERVICE:
            payments = "payments-1"
        at = self.ask_bank(gateway, orders, stock, payments, at, order)
        if self.draw.random() < 0.01:
            at = self.local(payments, at, "card declined by the bank", severity="warn", order=order)
            at = self.message(payments, orders, at, "declined", order=order)
            at = self.message(orders, stock, at, "give back", order=order)
            self.answer(gateway, orders, at, "order cancelled", order)
            return
        at = self.local(payments, at, "card charged", order=order)
        at = self.message(payments, orders, at, "paid", order=order)
        at = self.local(orders, at, "order confirmed", order=order)
        self.answer(gateway, orders, at, "order confirmed", order)

    def failing_order(self, order: int) -> Incident:
        """The order that fails, and what else happens around it."""
        charged = self.ask_bank("gateway-2", "orders-1", "stock-2", "payments-1", self.incident, order)
        first = len(self.happened)
        at = self.change_setting("stock-2", charged - 30 * MS, "hold_seconds", "900 -> 0")
        released = (f"release {order}", SETTINGS)
        at = self.message("stock-2", "payments-1", at, "hold released", severity="warn", order=order, started=released)
        at = self.local("payments-1", at, "charge refused: no stock held", severity="warn", order=order)
        at = self.message("payments-1", "orders-1", at, "refused", severity="warn", order=order)
        self.local("orders-1", at, f"ORDER FAILED: {order}", severity="error", order=order)
        chain = self.happened[first:]
        self.answer("gateway-2", "orders-1", at + MS, "order failed", order)
        self.local("orders-1", at - 20 * MS, "cache of prices dropped", line="housekeeping", severity="warn")
        bystander = self.happened[-1]
        seen = true_time("payments-2", chain[-1].wall - 4 * MS)
        self.change_setting("payments-2", seen, "refuse_above_eur", "500 -> 50")
        return Incident(chain, self.happened[-1], bystander)

    def change_setting(self, process: str, at: int, setting: str, change: str) -> int:
        """Somebody changes a setting of an instance."""
        name = f"configuration loaded: {setting} {change}"
        return self.local(process, at, name, line=SETTINGS, severity="notice", setting=setting)


@dataclass(frozen=True, slots=True)
class Incident:
    """The order that fails, and what else happens around it."""

    chain: list[Happening]
    herring: Happening
    bystander: Happening


def write_shop(folder: Path, *, seconds: int = 600, seed: int = 7) -> Truth:
    """Write the shop's logs into a folder, as JSON lines in the order of their arrival; give the truth about them.

    The same seed and length give the same bytes. A shop must be open for ten seconds, or too little happens before the
    incident; less raises `ValueError`.
    """
    if seconds < 10:
        raise ValueError(f"the shop is open for ten seconds or longer, not {seconds}")
    draw = Random(seed)
    incident = int(seconds * SECOND * INCIDENT)
    shop = Shop(draw, START + incident)
    placed = sorted(draw.randrange(seconds * SECOND) for _ in range(seconds * ORDERS_A_SECOND))
    failing = bisect(placed, incident)
    for number, after in enumerate(placed):
        shop.order(START + after, FIRST_ORDER + number + (number >= failing))
    story = shop.failing_order(FIRST_ORDER + failing)
    shop.happened.sort(key=lambda event: event.at)
    numbers: Counter[str] = Counter()
    for event in shop.happened:
        numbers[event.process] += 1
        event.seq = numbers[event.process]

    losses = START + int(seconds * SECOND * LOSSES)
    reported = [event for event in shop.happened if event.at < losses or draw.random() >= LOST]
    arrivals = list(_arrivals(reported, draw))
    late = sum(arrival - event.at > LONGEST_DELAY // 10 for arrival, event in arrivals)
    again = [(arrival + draw.randrange(SECOND), event) for arrival, event in arrivals if draw.random() < TWICE]
    lines = sorted(((arrival, event.id, _line(event, arrival)) for arrival, event in arrivals + again))
    for place in draw.sample(range(len(lines)), TORN_LINES):
        arrival, name, line = lines[place]
        lines.append((arrival, name, line[: len(line) // 2]))
    _write(folder, [line for _, _, line in sorted(lines)])

    sent = {event.message: event.wall for event in reported if event.kind == "send"}
    received = {event.message: event.wall for event in reported if event.kind == "receive"}
    both = sent.keys() & received.keys()
    return Truth(
        events=len(shop.happened),
        lost=len(shop.happened) - len(reported),
        duplicates=len(again),
        torn=TORN_LINES,
        late=late,
        reports=len(lines),
        orphans=len(received) - len(both),
        messages=len(both),
        messages_backwards=sum(received[message] < sent[message] for message in both),
        clocks_apart=max(_apart(START), _apart(START + seconds * SECOND)),
        failure=story.chain[-1].id,
        chain=tuple(event.id for event in story.chain),
        herring=story.herring.id,
        bystander=story.bystander.id,
        causes=_causes(story.chain[-1], shop.happened),
    )


def _causes(effect: Happening, happened: list[Happening]) -> int:
    """Count what led to an event, given all events in true order: along lines, from line to line, and by messages."""
    found = {id(effect)}
    lines = {(effect.process, effect.line)}
    messages: set[str | None] = set()
    waiting = False
    for event in reversed(happened):
        waiting = waiting or event is effect
        sent = event.kind == "send" and event.message in messages
        if not waiting or not (sent or (event.process, event.line) in lines):
            continue
        found.add(id(event))
        lines.add((event.process, event.line))
        if event.line_parent is not None:
            lines.add((event.process, event.line_parent))
        if event.kind == "receive":
            messages.add(event.message)
    return len(found) - 1


def _apart(at: int) -> int:
    shown = [clock(process, at) for process in CLOCKS]
    return max(shown) - min(shown)


def _arrivals(reported: list[Happening], draw: Random) -> Iterator[tuple[int, Happening]]:
    """When the collector gets each report, on its own clock, which is right."""
    for event in reported:
        if draw.random() < LATE:
            yield event.at + draw.randint(LONGEST_DELAY // 10, LONGEST_DELAY), event
        else:
            yield event.at + min(int(draw.expovariate(1 / (20 * MS))), LONGEST_DELAY // 10), event


def _line(event: Happening, arrival: int) -> str:
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
