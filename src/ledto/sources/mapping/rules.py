"""Make rows by the rules of a mapping. The first rule that fits a record makes its row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ledto.events.schema import LOCAL
from ledto.sources.mapping.values import TICK, Record, Value
from ledto.sources.regex.timed import TimedPattern
from ledto.sources.rows import BadRecord, Row

_NOT_REPEATED = ("process", "clock", "computation", "time", "seq", "name", "id", "sends")
"""Columns whose field is not repeated in the attributes. Fields of a channel or a line are, because users search by them."""


@dataclass(frozen=True, slots=True)
class RuleCondition:
    """A condition of a rule on a record. One of `choices`, `match` and `present` is given."""

    shown: str
    value: Value
    choices: frozenset[tuple[bool, object]] | None = None
    match: TimedPattern | None = None
    present: bool | None = None

    def holds(self, record: Record) -> bool:
        """Return whether the record meets the condition. Raises `BadRecord`."""
        value = self.value.of(record)
        if self.present is not None:
            return (value is not None) == self.present
        if self.match is not None:
            return isinstance(value, str) and self.match.occurs_in(value)
        return not isinstance(value, list | dict) and as_json_value(value) in (self.choices or ())


def as_json_value(value: object) -> tuple[bool, object]:
    """Return a key that equals another only if the JSON values are equal. In Python, True equals 1."""
    return isinstance(value, bool), value


@dataclass(frozen=True, slots=True)
class MappingRule:
    """A rule that turns one sort of record into rows."""

    label: str
    conditions: tuple[RuleCondition, ...]
    kind: str = LOCAL
    columns: Mapping[str, Value] = field(default_factory=dict)
    receives: tuple[Value, ...] = ()
    skip: str | None = None
    used: frozenset[str] = field(init=False)
    """Fields of the record that become columns unchanged, and so are no attributes."""

    def __post_init__(self) -> None:
        values = [self.columns[name] for name in _NOT_REPEATED if name in self.columns]
        fields = [value.field for value in (*values, *self.receives)]
        used = frozenset(field.keys[0] for field in fields if field is not None and len(field.keys) == 1)
        object.__setattr__(self, "used", used)

    def fits(self, record: Record) -> bool:
        """Return whether the record meets all conditions. Raises `BadRecord`."""
        return all(condition.holds(record) for condition in self.conditions)

    def row(self, record: Record, unit: str) -> Row:
        """Make the record's row, without file and place, with times in `unit`. Raises `BadRecord`."""
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
            # The message is optional, and this record has none.
            row.kind = LOCAL
        row.attributes = self._write_attributes(record)
        return row

    def text(self, name: str, record: Record, *, may_be_empty: bool = False) -> str | None:
        """Return the text of a column; None if the rule has no such column. Raises `BadRecord`."""
        value = self.columns.get(name)
        return None if value is None else value.text_of(record, may_be_empty=may_be_empty)

    def _write_attributes(self, record: Record) -> str | None:
        """Write the fields that became no column as a JSON object, each in its own text, so that no number changes."""
        members = [f"{key_text}:{text}" for name, (_, text, key_text) in record.items() if name not in self.used]
        return "{" + ",".join(members) + "}" if members else None


@dataclass(frozen=True, slots=True)
class LogMapping:
    """The rules of a mapping. The last one fits every record."""

    rules: tuple[MappingRule, ...]

    @property
    def has_channels(self) -> bool:
        """Return whether some rows have no keys, and must be matched by their channel."""
        return any("channel" in rule.columns for rule in self.rules)

    @property
    def units(self) -> frozenset[str]:
        """Return the units of times that the rules name."""
        return frozenset(
            value.unit for rule in self.rules for name, value in rule.columns.items() if name == "time" and value.unit
        )

    def fits_unit(self, unit: str) -> bool:
        """Return whether times can be converted to `unit`. Ticks have no length, so they convert only to ticks."""
        return all(named == unit or TICK not in (named, unit) for named in self.units)

    def rule_for(self, record: Record) -> MappingRule:
        """Return the first rule that fits. Raises `BadRecord`."""
        return next(rule for rule in self.rules if rule.fits(record))
