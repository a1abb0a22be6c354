"""Make rows by the rules of a mapping. The first rule that fits a record makes its rows, or its span."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import msgspec

from ledto.events.schema import LOCAL, SEND
from ledto.sources.mapping.spans import SpanRule
from ledto.sources.mapping.values import TICK, Field, Parts, Record, Value, only_field, read_parts
from ledto.sources.records.typed_text import as_json, typed
from ledto.sources.regex.timed import TimedPattern
from ledto.sources.rows import MOST_CAUSES, BadRecord, Row

SEVERITY: Final = "severity"
"""The attribute that a mapping's severity becomes."""
FILE: Final = "@file"
"""The field of every record that has the name of its file, without folders and suffixes. It is no attribute."""
CONTAINER: Final = "container"
"""The field of records of containers, an object: who wrote the line, and when."""
CONTAINER_PROCESS: Final = tuple(
    map(read_parts, ("{container.namespace}/{container.pod}/{container.name}", "container.id", FILE))
)
CONTAINER_TIME: Final = (read_parts("container.time"),)

_NOT_REPEATED = ("process", "clock", "computation", "time", "seq", "name", "id", "sends", "line_parent")
"""Columns whose field is not repeated in the attributes. Fields of a channel or a line are, because users search by them."""


@dataclass(frozen=True, slots=True)
class RuleCondition:
    """A condition of a rule on a record. One of `choices`, `match` and `present` is given."""

    shown: str
    value: Value
    choices: frozenset[tuple[bool, object]] | None = None
    match: TimedPattern | None = None
    present: bool | None = None
    of_text: bool = False
    """Whether values are text, some of which means numbers: then 500 and "500" are the same."""

    def holds(self, record: Record) -> bool:
        """Return whether the record meets the condition. Raises `BadRecord`."""
        value = self.value.of(record)
        if self.present is not None:
            return (value is not None) == self.present
        if self.match is not None:
            return isinstance(value, str) and self.match.occurs_in(value)
        if isinstance(value, list | dict):
            return False
        choices = self.choices or ()
        is_chosen = as_json_value(value) in choices
        return is_chosen or (self.of_text and isinstance(value, str) and as_json_value(typed(value)) in choices)


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
    is_kind_given: bool = False
    """Whether the mapping says the kind. Else it follows from the messages that a record has."""
    skip: str | None = None
    also: tuple[MappingRule, ...] = ()
    """Rules for further events of the same record."""
    span: SpanRule | None = None
    """How to read a record that is a span; it then has no rows of its own."""
    used: frozenset[str] = field(init=False)
    """Fields of the record that become columns unchanged, and so are no attributes."""
    used_choices: tuple[tuple[Parts, ...], ...] = field(init=False)
    """The same for columns that may come from several fields: the one that the record has is no attribute."""

    def __post_init__(self) -> None:
        values = [self.columns[name] for name in _NOT_REPEATED if name in self.columns]
        values += [*self.receives, *(self.span.values if self.span is not None else ())]
        fields = [value.field for value in values]
        used = frozenset(field.keys[0] for field in fields if field is not None and len(field.keys) == 1)
        object.__setattr__(self, "used", used | {FILE})
        several = tuple(value.choices for value in values if value.others and value.match is None)
        object.__setattr__(self, "used_choices", several)

    @property
    def values(self) -> list[Value]:
        """Return all values that it reads from records."""
        own = [*self.columns.values(), *self.receives, *(condition.value for condition in self.conditions)]
        return own if self.span is None else [*own, *self.span.values]

    def fits(self, record: Record) -> bool:
        """Return whether the record meets all conditions. Raises `BadRecord`."""
        return all(condition.holds(record) for condition in self.conditions)

    def rows(self, record: Record, unit: str) -> list[Row]:
        """Make the record's rows, without file and place, with times in `unit`. Raises `BadRecord`."""
        if self.skip is not None:
            raise BadRecord("skipped", f"{self.skip} ({self.label})")
        return [self._row(record, unit), *(rule._row(record, unit) for rule in self.also)]

    def _row(self, record: Record, unit: str) -> Row:
        row = Row(kind=self.kind)
        row.process = self.text("process", record)
        # Many logs write an empty id where there is none.
        row.line = self.text("line", record, may_be_empty=True) or None
        row.line_parent = self.text("line_parent", record, may_be_empty=True) or None
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
        if "line_joins" in self.columns:
            row.line_joins = self._read_joined(record)
        if row.process is None:
            raise BadRecord("no-process", f"{self.label} needs a process")
        if row.time is None and row.seq is None:
            raise BadRecord("no-order", f"{self.label} needs a time or a seq")
        if row.line_parent is not None and row.line is None:
            raise BadRecord("bad-field", f"{self.label} names what started a line: give line as well")
        row.kind = self.kind_of(row.sends, row.receives, row.channel_key)
        row.attributes = self.write_attributes(record)
        return row

    def kind_of(self, sends: str | None, receives: str | None, channel_key: str | None) -> str:
        """Return the kind of an event with these messages, some of which may be optional and missing."""
        if sends is None and receives is None and channel_key is None:
            return LOCAL
        if not self.is_kind_given and self.receives and receives is None and sends is not None:
            return SEND
        return self.kind

    def text(self, name: str, record: Record, *, may_be_empty: bool = False) -> str | None:
        """Return the text of a column; None if the rule has no such column. Raises `BadRecord`."""
        value = self.columns.get(name)
        return None if value is None else value.text_of(record, may_be_empty=may_be_empty)

    def _read_joined(self, record: Record) -> list[str] | None:
        value = self.columns["line_joins"]
        joined = value.as_texts(value.of(record))
        if len(joined) > MOST_CAUSES:
            raise BadRecord("too-many-causes", f"{len(joined)} lines joined at once; the limit is {MOST_CAUSES}")
        return joined or None

    def write_attributes(self, record: Record) -> str | None:
        """Write the fields that became no column as a JSON object, each in its own text, so that no number changes.

        Raises `BadRecord` for a severity that is neither text nor a number.
        """
        used = {*self.used, *(chosen_key(choices, record) for choices in self.used_choices)}
        severity = self.columns.get(SEVERITY)
        graded = None
        if severity is not None and not is_own_severity(severity):
            graded = severity.of(record)
            if graded is not None:
                severity.as_text(graded, may_be_empty=True)
                used.add(SEVERITY)
        members = [f"{key_text}:{text}" for name, (_, text, key_text) in record.items() if name not in used]
        if graded is not None:
            members.append(f'"{SEVERITY}":{_encode(as_json(graded) if isinstance(graded, str) else graded).decode()}')
        return "{" + ",".join(members) + "}" if members else None


_encode = msgspec.json.Encoder().encode


def is_own_severity(value: Value) -> bool:
    """Return whether a severity is the field of that name, which is an attribute anyway."""
    return value.field is not None and value.field.keys == (SEVERITY,)


def chosen_key(choices: tuple[Parts, ...], record: Record) -> str | None:
    """Return the name of the field that counts among several; None if it is a template, or within another field."""
    for parts in choices:
        values = [part.value(record) for part in parts if isinstance(part, Field)]
        if None not in values and (values != [""] or len(parts) > 1):
            field = only_field(parts)
            return field.keys[0] if field is not None and len(field.keys) == 1 else None
    return None


@dataclass(frozen=True, slots=True)
class LogMapping:
    """The format of records, and the rules for them. The last rule fits every record."""

    rules: tuple[MappingRule, ...]
    format: str | None = None
    """The name of the record format; None if the mapping does not say."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """The options of the record format."""
    holder: str | None = None
    """The member of JSON documents that holds a list of records; None if files are JSON lines."""

    @property
    def has_channels(self) -> bool:
        """Return whether some rows have no keys, and must be matched by their channel."""
        return any("channel" in part.columns for rule in self.rules for part in (rule, *rule.also))

    @property
    def has_spans(self) -> bool:
        """Return whether some records are spans."""
        return any(rule.span is not None for rule in self.rules)

    @property
    def has_one_row_a_record(self) -> bool:
        """Return whether no record has several rows."""
        return not self.has_spans and not any(rule.also for rule in self.rules)

    @property
    def uses_file(self) -> bool:
        """Return whether some value is made of the file's name."""
        values = [value for rule in self.rules for part in (rule, *rule.also) for value in part.values]
        parts = (part for value in values for choice in value.choices for part in choice)
        return any(isinstance(part, Field) and part.keys[0] == FILE for part in parts)

    @property
    def units(self) -> frozenset[str]:
        """Return the units of times that the rules name."""
        times = [part.columns["time"] for rule in self.rules for part in (rule, *rule.also) if "time" in part.columns]
        times += [value for rule in self.rules if rule.span is not None for value in rule.span.times]
        return frozenset(value.unit for value in times if value.unit)

    def fits_unit(self, unit: str) -> bool:
        """Return whether times can be converted to `unit`. Ticks have no length, so they convert only to ticks."""
        return all(named == unit or TICK not in (named, unit) for named in self.units)

    def rule_for(self, record: Record) -> MappingRule:
        """Return the first rule that fits. Raises `BadRecord`."""
        return next(rule for rule in self.rules if rule.fits(record))

    def for_containers(self) -> LogMapping:
        """Return the same mapping for lines of a container: it names the process, and the time, of records that do not."""
        return replace(self, rules=tuple(_for_containers(rule) for rule in self.rules))


def _for_containers(rule: MappingRule) -> MappingRule:
    columns = dict(rule.columns)
    for name, further in (("process", CONTAINER_PROCESS), ("time", CONTAINER_TIME)):
        if name in columns:
            # The name of the file comes last: it says less than the container does.
            own = tuple(parts for parts in columns[name].choices if parts != CONTAINER_PROCESS[-1])
            first, *others = (*own, *further)
            columns[name] = replace(columns[name], parts=first, others=tuple(others))
    return replace(rule, columns=columns, also=tuple(map(_for_containers, rule.also)))
