"""Apply a mapping to many usual records at once, column by column. The exact reader reads the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ledto.sources.json.objects import Object, Texts, written
from ledto.sources.mapping.columns import (
    RecordList,
    convert_each,
    convert_needed,
    make_fact_columns,
    make_field_reader,
    make_integer_column,
    make_text_column,
    make_texts_column,
    make_time_column,
    make_value_column,
)
from ledto.sources.mapping.rules import SEVERITY, LogMapping, MappingRule, is_own_severity
from ledto.sources.mapping.spans import SpanRule, has_failed, span_kind
from ledto.sources.mapping.values import Field, Parts, Value, only_field
from ledto.sources.records.typed_text import FIRST_OF_TYPED, as_json
from ledto.sources.rows import MOST_CAUSES, BadRecord, RowColumns, received
from ledto.sources.spans.fields import SPAN_DIGITS, TRACE_DIGITS, UNNAMED
from ledto.sources.times import INT64_LEAST

_EQUAL_ONLY_IF_SAME = {str, int, type(None)}
"""Types whose values are equal as keys of a dictionary only if they are the same to every condition. True equals 1, but a
condition tells them apart."""
_MOST_REMEMBERED = 10_000


@dataclass(slots=True)
class QuickRecords:
    """Records to apply a mapping to; None for those that the exact reader must read."""

    records: list[Any]
    texts: list[Texts] | None
    """The texts of their members; None if values are text, some of which means numbers."""
    places: Sequence[int]


class QuickMapping:
    """A mapping that is applied to usual records, with times in `unit`."""

    def __init__(self, mapping: LogMapping, unit: str) -> None:
        self._mapping = mapping
        self._rules: dict[int | None, _QuickRule] = {}
        self._spans: dict[int | None, _QuickSpan] = {}
        for number, rule in enumerate(mapping.rules):
            if rule.span is not None:
                self._spans[number] = _QuickSpan(rule, rule.span, unit)
            elif rule.skip is None:
                self._rules[number] = _QuickRule(rule, unit)
        conditions = [condition for rule in mapping.rules for condition in rule.conditions]
        self._facts = make_fact_columns(conditions)
        self._rule_by_facts: dict[tuple[Any, ...], int | None] = {}

    def add(self, given: QuickRecords, columns: RowColumns) -> list[tuple[int, ...] | None]:
        """Add rows of these records; return the numbers of each record's rows, or None for an unread one."""
        rows: list[tuple[int, ...] | None] = [None] * len(given.records)
        for rule, of_rule in self._records_by_rule(given.records).items():
            if rule not in self._rules:
                continue
            records = RecordList(given.records[number] for number in of_rule)
            texts = None if given.texts is None else [given.texts[number] for number in of_rule]
            places = [given.places[number] for number in of_rule]
            unread: set[int] = set()
            ranges = []
            for made in self._rules[rule].columns(records, texts, unread):
                made["place"] = places
                ranges.append(columns.add(made, len(of_rule)))
            if len(of_rule) == len(rows):
                rows = list(zip(*ranges, strict=True))
            else:
                for number, of_record in zip(of_rule, zip(*ranges, strict=True), strict=True):
                    rows[number] = of_record
            for number in unread:
                rows[of_rule[number]] = None
        return rows

    def spans(self, given: QuickRecords) -> list[tuple[Any, ...] | None]:
        """Return the values of the span that each record is; None for an unread record, and for one that is no span."""
        found: list[tuple[Any, ...] | None] = [None] * len(given.records)
        for rule, of_rule in self._records_by_rule(given.records).items():
            if rule not in self._spans:
                continue
            records = RecordList(given.records[number] for number in of_rule)
            texts = None if given.texts is None else [given.texts[number] for number in of_rule]
            spans = self._spans[rule].values(records, texts, [given.places[number] for number in of_rule])
            for number, span in zip(of_rule, spans, strict=True):
                found[number] = span
        return found

    def _records_by_rule(self, records: list[Any]) -> dict[int | None, list[int]]:
        """Return the numbers of the records of each rule."""
        decoded = [number for number, record in enumerate(records) if record is not None]
        rules = self._choose_rules(RecordList(records[number] for number in decoded))
        by_rule: dict[int | None, list[int]] = {}
        for number, rule in zip(decoded, rules, strict=True):
            if rule in by_rule:
                by_rule[rule].append(number)
            else:
                by_rule[rule] = [number]
        return by_rule

    def _choose_rules(self, records: RecordList) -> Sequence[int | None]:
        """Return the number of each record's rule; None for an unread record."""
        if not self._facts:
            return [0] * len(records)
        unread: set[int] = set()
        columns = [facts(records, unread) for facts in self._facts]
        if not all({*map(type, column)} <= _EQUAL_ONLY_IF_SAME for column in columns):
            return [self._rule_for(record) for record in records]
        rule_of = self._rule_by_facts
        if len(rule_of) > _MOST_REMEMBERED:
            rule_of.clear()
        keys = list(zip(*columns, strict=True))
        for number, key in enumerate(keys):
            if key not in rule_of:
                rule_of[key] = self._rule_for(records[number])
        rules = [rule_of[key] for key in keys]
        for number in unread:
            rules[number] = self._rule_for(records[number])
        return rules

    def _rule_for(self, record: Object) -> int | None:
        try:
            rule = self._mapping.rule_for({name: (value, "", "") for name, value in record.items()})
        except BadRecord:
            return None
        return next(number for number, candidate in enumerate(self._mapping.rules) if candidate is rule)


class _QuickRule:
    """A rule that is applied to usual records."""

    def __init__(self, rule: MappingRule, unit: str) -> None:
        self._events = [_QuickEvent(part, unit) for part in (rule, *rule.also)]

    def columns(self, records: RecordList, texts: list[Texts] | None, unread: set[int]) -> list[dict[str, list[Any]]]:
        """Return the columns of the first events of these records, then of their second ones, and so on."""
        last = len(self._events) - 1
        return [
            event.columns(records, texts if number == last else _copy(texts), unread)
            for number, event in enumerate(self._events)
        ]


def _copy(texts: list[Texts] | None) -> list[Texts] | None:
    return None if texts is None else [dict(members) for members in texts]


class _QuickEvent:
    """One event of each record."""

    def __init__(self, rule: MappingRule, unit: str) -> None:
        self._rule = rule
        self._columns = {}
        for name, value in rule.columns.items():
            if name == "time":
                self._columns["time"] = make_time_column(value, unit)
            elif name == "seq":
                self._columns["seq"] = make_integer_column(value, INT64_LEAST)
            elif name == "line_joins":
                self._columns["line_joins"] = make_texts_column(value)
            elif name not in ("bytes", SEVERITY):
                self._columns[_NAMES.get(name, name)] = make_text_column(value, may_be_empty=name in _MAY_BE_EMPTY)
        self._bytes = make_integer_column(rule.columns["bytes"], 0) if "bytes" in rule.columns else None
        self._receives = [make_value_column(value) for value in rule.receives]
        self._attributes = _QuickAttributes(rule)

    def columns(self, records: RecordList, texts: list[Texts] | None, unread: set[int]) -> dict[str, list[Any]]:
        """Return the columns of these records. Changes `texts`."""
        made = {name: column(records, unread) for name, column in self._columns.items()}
        if "computation" not in made:
            made["computation"] = [""] * len(records)
        elif None in made["computation"]:
            made["computation"] = [text or "" for text in made["computation"]]
        for name in ("line", "line_parent"):
            if "" in made.get(name, ()):
                made[name] = [text or None for text in made[name]]
        if self._receives:
            made["receives"], made["receives_more"] = self._read_received(records, unread)
        if self._bytes is not None:
            without: set[int] = set()
            counts, channels = self._bytes(records, without), made["channel_key"]
            # A record without a channel has no bytes in it.
            made["channel_bytes"] = [
                None if key is None else count for key, count in zip(channels, counts, strict=True)
            ]
            unread.update(number for number in without if channels[number] is not None)
        _add_without(made.get("process"), None, unread)
        _add_without(made.get("time"), made.get("seq"), unread)
        if "line_parent" in made:
            lines = made.get("line", [None] * len(records))
            both = enumerate(zip(made["line_parent"], lines, strict=True))
            unread.update(number for number, (parent, line) in both if parent is not None and line is None)
        if "line_joins" in made:
            unread.update(number for number, lines in enumerate(made["line_joins"]) if len(lines or ()) > MOST_CAUSES)
        made["kind"] = self._choose_kinds(made, len(records))
        made["attributes"] = self._attributes.write(records, texts, unread)
        return made

    def _choose_kinds(self, made: dict[str, list[Any]], count: int) -> list[str]:
        columns = [made.get(name) for name in ("sends", "receives", "channel_key")]
        present = [column for column in columns if column is not None]
        if not present or (len(present) == 1 and None not in present[0]):
            return [self._rule.kind] * count
        keys = [[None] * count if column is None else column for column in columns]
        return list(map(self._rule.kind_of, *keys))

    def _read_received(self, records: RecordList, unread: set[int]) -> tuple[list[Any], list[Any]]:
        """Return the columns ``receives`` and ``receives_more``."""
        columns = [values(records, unread) for values in self._receives]
        if len(columns) == 1 and "" not in columns[0]:
            usual = {str, type(None)} if self._rule.receives[0].optional else {str}
            if {*map(type, columns[0])} <= usual:
                return columns[0], [None] * len(records)
        keys_of_values = [
            convert_each(partial(convert_needed, value, value.as_texts), column, unread)
            for value, column in zip(self._rule.receives, columns, strict=True)
        ]
        keys_of_records = [
            [key for keys in of_record for key in keys or ()] for of_record in zip(*keys_of_values, strict=True)
        ]
        unread.update(number for number, keys in enumerate(keys_of_records) if len(keys) > MOST_CAUSES)
        pairs = [received(keys) for keys in keys_of_records]
        return [first for first, _ in pairs], [more for _, more in pairs]


_NAMES = {"clock": "clock_name", "channel": "channel_key"}
_MAY_BE_EMPTY = ("computation", "name", "line", "line_parent")


def _add_without(column: list[Any] | None, other: list[Any] | None, unread: set[int]) -> None:
    """Add the records that have a value in neither of two columns to the unread ones."""
    if column is None or other is None:
        only = column or other or ()
        if None in only:
            unread.update(number for number, value in enumerate(only) if value is None)
    else:
        unread.update(number for number, both in enumerate(zip(column, other, strict=True)) if both == (None, None))


class _QuickAttributes:
    """Write the fields that became no column as JSON objects, as `MappingRule.write_attributes` does."""

    def __init__(self, rule: MappingRule) -> None:
        self._used = rule.used
        self._choosers = [_Chooser(choices) for choices in rule.used_choices]
        severity = rule.columns.get(SEVERITY)
        self._severity: tuple[Value, Any] | None = None
        if severity is not None and not is_own_severity(severity):
            self._severity = severity, make_value_column(severity)

    def write(self, records: RecordList, texts: list[Texts] | None, unread: set[int]) -> list[str | None]:
        """Return the attributes of these records. Removes members from `texts`."""
        left: list[dict[str, Any]]
        if texts is None:
            used, first = self._used, FIRST_OF_TYPED
            left = [
                {
                    name: value if type(value) is not str or value[:1] not in first else as_json(value)
                    for name, value in record.items()
                    if name not in used
                }
                for record in records
            ]
        else:
            left = texts
            for name in self._used:
                for members in left:
                    members.pop(name, None)
        for chooser in self._choosers:
            chooser.remove_chosen(records, left)
        if self._severity is not None:
            self._add_severity(*self._severity, records, left, unread)
        return [text if text != "{}" else None for text in written(left)]

    def _add_severity(
        self, value: Value, read: Any, records: RecordList, left: list[dict[str, Any]], unread: set[int]
    ) -> None:
        grades = read(records, unread)
        for number, (grade, members) in enumerate(zip(grades, left, strict=True)):
            if type(grade) is str:
                members.pop(SEVERITY, None)
                members[SEVERITY] = as_json(grade)
            elif grade is not None or not value.optional:
                unread.add(number)


class _Chooser:
    """Tell which of several fields became a column, as `ledto.sources.mapping.rules.chosen_key` does."""

    def __init__(self, choices: tuple[Parts, ...]) -> None:
        self._tests = []
        for parts in choices:
            readers = [make_field_reader(part) for part in parts if isinstance(part, Field)]
            only = only_field(parts)
            key = only.keys[0] if only is not None and len(only.keys) == 1 else None
            self._tests.append((readers, key, len(parts) == 1))
        # What comes after the last field that could be removed need not be looked at.
        while self._tests and self._tests[-1][1] is None:
            self._tests.pop()

    def remove_chosen(self, records: RecordList, members: list[dict[str, Any]]) -> None:
        """Remove the member that became a column from each record's members."""
        for readers, key, is_single in self._tests:
            columns = [read(records) for read in readers]
            # A template without fields is there in every record.
            is_here = [
                None not in values and not (is_single and values == ("",)) for values in zip(*columns, strict=True)
            ] or [True] * len(records)
            if key is not None:
                for is_chosen, left in zip(is_here, members, strict=True):
                    if is_chosen:
                        left.pop(key, None)
            if all(is_here):
                return
            pairs = zip(records, members, is_here, strict=True)
            remaining = [(record, left) for record, left, is_chosen in pairs if not is_chosen]
            records, members = RecordList(record for record, _ in remaining), [left for _, left in remaining]


class _QuickSpan:
    """A rule for records that are spans."""

    def __init__(self, rule: MappingRule, span: SpanRule, unit: str) -> None:
        self._span = span
        texts = ("trace", "span", "parent", "process", "service", "instance", "name", "kind", "status")
        self._texts = {
            name: make_text_column(value, may_be_empty=True)
            for name in texts
            if (value := getattr(span, name)) is not None
        }
        self._times = {
            name: make_time_column(value, unit)
            for name in ("start", "end", "duration")
            if (value := getattr(span, name)) is not None
        }
        self._attributes = _QuickAttributes(rule)

    def values(self, records: RecordList, texts: list[Texts] | None, places: list[int]) -> list[tuple[Any, ...] | None]:
        """Return the values of each record's span, in the order of the fields of `Span`; None for unread records."""
        unread: set[int] = set()
        columns = {name: read(records, unread) for name, read in (self._texts | self._times).items()}
        attributes = self._attributes.write(records, texts, unread)
        none = [None] * len(records)
        traces, keys, parents, processes, services, instances, names, kinds, statuses, starts, ends, durations = (
            columns.get(name, none)
            for name in (
                *("trace", "span", "parent", "process", "service", "instance", "name", "kind", "status"),
                *("start", "end", "duration"),
            )
        )
        rule = self._span
        process_of: dict[tuple[Any, ...], str] = {}
        found: list[tuple[Any, ...] | None] = []
        for number, start in enumerate(starts):
            if number in unread or start is None:
                found.append(None)
                continue
            try:
                trace = rule.id_of(traces[number], TRACE_DIGITS)
                key = rule.id_of(keys[number], SPAN_DIGITS)
                parent = rule.id_of(parents[number], SPAN_DIGITS)
                kind = span_kind(kinds[number])
                end = rule.end_of(start, ends[number], durations[number])
                who = processes[number], services[number], instances[number]
                if who not in process_of:
                    process_of[who] = rule.process_of(*who)
            except BadRecord:
                found.append(None)
                continue
            if trace is None or key is None:
                found.append(None)
                continue
            said = attributes[number]
            found.append(
                (
                    trace, key, process_of[who], names[number] or UNNAMED, start, end, kind,
                    None if parent == key else parent, True, has_failed(statuses[number], kind), (), (),
                    said if end is None else None, said, places[number],
                )
            )  # fmt: skip
        return found
