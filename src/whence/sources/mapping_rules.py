"""What a mapping says, as values: rules, of which the first that fits a record makes its row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from whence.events.schema import LOCAL
from whence.sources.mapping_values import TICK, Record, Value
from whence.sources.rows import BadRecord, Row
from whence.sources.timed_regex import TimedPattern

_COLUMNS_THAT_STAY = ("process", "clock", "computation", "time", "seq", "name", "id", "sends")
"""A field that is one of these as it stands is not kept a second time. What makes a channel or a line is, because users
look for events by it."""


@dataclass(frozen=True, slots=True)
class Condition:
    """What a rule asks of a record; one of the three ways of asking is given."""

    shown: str
    value: Value
    choices: frozenset[tuple[bool, object]] | None = None
    match: TimedPattern | None = None
    present: bool | None = None

    def holds(self, record: Record) -> bool:
        found = self.value.of(record)
        if self.present is not None:
            return (found is not None) == self.present
        if self.match is not None:
            return isinstance(found, str) and self.match.occurs_in(found)
        return not isinstance(found, list | dict) and choice(found) in (self.choices or ())


def choice(value: object) -> tuple[bool, object]:
    """A value that equals another iff JSON's values do: for Python, true is 1."""
    return isinstance(value, bool), value


@dataclass(frozen=True, slots=True)
class Rule:
    """How one sort of record becomes a row."""

    label: str
    conditions: tuple[Condition, ...]
    kind: str = LOCAL
    columns: Mapping[str, Value] = field(default_factory=dict)
    receives: tuple[Value, ...] = ()
    skip: str | None = None
    used: frozenset[str] = field(init=False)
    """Fields of the record that become columns as they stand."""

    def __post_init__(self) -> None:
        taken = [self.columns[name] for name in _COLUMNS_THAT_STAY if name in self.columns]
        fields = [value.field for value in (*taken, *self.receives)]
        used = frozenset(each.keys[0] for each in fields if each is not None and len(each.keys) == 1)
        object.__setattr__(self, "used", used)

    def fits(self, record: Record) -> bool:
        return all(condition.holds(record) for condition in self.conditions)

    def row(self, record: Record, unit: str) -> Row:
        """The record's row, without file and place, times in `unit`; raises `BadRecord`."""
        if self.skip is not None:
            raise BadRecord("skipped", f"{self.skip} ({self.label})")
        row = Row(kind=self.kind)
        row.process = self.text("process", record)
        # Many logs write an empty id where there is none.
        row.line = self.text("line", record, may_be_empty=True) or None
        row.clock_name = self.text("clock", record)
        row.computation = self.text("computation", record, may_be_empty=True) or ""
        row.name = self.text("name", record, may_be_empty=True)
        row.id = self.text("id", record)
        if "time" in self.columns:
            row.time = self.columns["time"].as_time(self.columns["time"].of(record), unit)
        if "seq" in self.columns:
            row.seq = self.columns["seq"].as_integer(self.columns["seq"].of(record))
        row.sends = self.text("sends", record)
        row.receive([key for value in self.receives for key in value.as_texts(value.of(record))])
        row.channel_key = self.text("channel", record)
        if "bytes" in self.columns and row.channel_key is not None:
            row.channel_bytes = self.columns["bytes"].as_integer(self.columns["bytes"].of(record), least=0)
        if row.process is None:
            raise BadRecord("no-process", f"{self.label} needs a process")
        if row.time is None and row.seq is None:
            raise BadRecord("no-order", f"{self.label} needs a time or a seq")
        if row.kind != LOCAL and row.sends is None and row.receives is None and row.channel_key is None:
            # What it would send or receive is optional, and this record has none.
            row.kind = LOCAL
        row.attributes = self._attributes(record)
        return row

    def text(self, name: str, record: Record, *, may_be_empty: bool = False) -> str | None:
        """The text of a column; None where the mapping has no such column."""
        value = self.columns.get(name)
        return None if value is None else value.text_of(record, may_be_empty=may_be_empty)

    def _attributes(self, record: Record) -> str | None:
        """Every field that became no column, each in its own text, so that no number changes."""
        kept = [f"{key_text}:{text}" for name, (_, text, key_text) in record.items() if name not in self.used]
        return "{" + ",".join(kept) + "}" if kept else None


@dataclass(frozen=True, slots=True)
class LogMapping:
    """All that a mapping says; the last rule fits everything."""

    rules: tuple[Rule, ...]

    @property
    def has_channels(self) -> bool:
        """Whether some rows are ends of channels, whose sends and receives are still to be matched."""
        return any("channel" in rule.columns for rule in self.rules)

    @property
    def units(self) -> frozenset[str]:
        """The units of times that the rules name."""
        return frozenset(
            value.unit for rule in self.rules for name, value in rule.columns.items() if name == "time" and value.unit
        )

    def fits_unit(self, unit: str) -> bool:
        """Whether times can be turned into `unit`: ticks are of no length, and only ticks become ticks."""
        return all(each == unit or TICK not in (each, unit) for each in self.units)

    def rule_for(self, record: Record) -> Rule:
        """The first rule that fits."""
        return next(rule for rule in self.rules if rule.fits(record))
