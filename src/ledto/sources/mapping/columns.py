"""Apply a mapping to many usual records at once, column by column. The exact reader reads the others.

Each column is made by a function that is composed once, from the mapping. It looks at the types of all values of its field:
if they are of one sort, it converts them together, otherwise one by one. A record that it cannot convert stays *unread*.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, TypeAlias

from ledto.events.schema import LOCAL
from ledto.sources.json.objects import Object, Texts, objects, written
from ledto.sources.mapping.rules import LogMapping, MappingRule
from ledto.sources.mapping.values import Field, Value
from ledto.sources.regex.timed import TimedPattern
from ledto.sources.rows import MOST_CAUSES, BadRecord, RowColumns, received
from ledto.sources.times import INT64_LEAST, INT64_MOST, quick_time

Column: TypeAlias = Callable[[list[Object], set[int]], list[Any]]
"""A function that returns the values of a column for some records, and adds the numbers of unread ones to the set."""

_NUMBERS_AND_TEXT = {str, int, float}
_EQUAL_ONLY_IF_SAME = {str, int, type(None)}
"""Types whose values are equal as keys of a dictionary only if they are the same to every condition. True equals 1, but a
condition tells them apart."""
_MOST_REMEMBERED = 10_000
_MOST_REMEMBERED_CHARACTERS = 200


class QuickMapping:
    """A mapping that is applied to usual lines, with times in `unit`."""

    def __init__(self, mapping: LogMapping, unit: str) -> None:
        self._mapping = mapping
        self._rules: dict[int | None, _QuickRule] = {
            number: _QuickRule(rule, unit) for number, rule in enumerate(mapping.rules)
        }
        conditions = [condition for rule in mapping.rules for condition in rule.conditions]
        fields = {part for condition in conditions for part in condition.value.parts if isinstance(part, Field)}
        self._condition_fields = [_make_field_reader(field) for field in sorted(fields, key=lambda field: field.path)]
        self._rule_by_values: dict[tuple[Any, ...], int | None] = {}

    def add(self, lines: Sequence[bytes], places: Sequence[int], data: bytes, columns: RowColumns) -> list[int | None]:
        """Add rows of these lines; return the row's number of each line, or None for an unread one.

        `places` are the lines' numbers in the file, `data` is the lines together.
        """
        records, texts = objects(lines, data)
        decoded = [line for line, record in enumerate(records) if record is not None]
        rules = self._choose_rules(records if len(decoded) == len(records) else [records[line] for line in decoded])
        lines_of_rules: dict[int | None, list[int]] = {}
        for line, rule in zip(decoded, rules, strict=True):
            if rule in lines_of_rules:
                lines_of_rules[rule].append(line)
            else:
                lines_of_rules[rule] = [line]
        lines_of_rules.pop(None, None)
        rows: list[int | None] = [None] * len(lines)
        for rule, of_rule in lines_of_rules.items():
            made = self._rules[rule].columns([records[line] for line in of_rule], [texts[line] for line in of_rule])
            if made is None:
                continue
            made.columns["place"] = [places[line] for line in of_rule]
            for line, row in zip(of_rule, columns.add(made.columns, len(of_rule)), strict=True):
                rows[line] = row
            for number in made.unread:
                rows[of_rule[number]] = None
        return rows

    def _choose_rules(self, records: list[Object]) -> Sequence[int | None]:
        """Return the number of each record's rule; None for an unread record."""
        if not self._condition_fields:
            return [0] * len(records)
        columns = [values(records) for values in self._condition_fields]
        if not all({*map(type, column)} <= _EQUAL_ONLY_IF_SAME for column in columns):
            return [self._rule_for(record) for record in records]
        rule_of = self._rule_by_values
        if len(rule_of) > _MOST_REMEMBERED:
            rule_of.clear()
        keys = list(zip(*columns, strict=True))
        for number, key in enumerate(keys):
            if key not in rule_of:
                rule_of[key] = self._rule_for(records[number])
        return [rule_of[key] for key in keys]

    def _rule_for(self, record: Object) -> int | None:
        try:
            rule = self._mapping.rule_for({name: (value, "", "") for name, value in record.items()})
        except BadRecord:
            return None
        return next(number for number, candidate in enumerate(self._mapping.rules) if candidate is rule)


@dataclass(slots=True)
class _MappedColumns:
    """Columns of some records, and the numbers of the unread ones, whose values mean nothing."""

    columns: dict[str, list[Any]]
    unread: set[int]


class _QuickRule:
    """A rule that is applied to usual records."""

    def __init__(self, rule: MappingRule, unit: str) -> None:
        self._rule = rule
        self._columns: dict[str, Column] = {}
        for name, value in rule.columns.items():
            if name == "time":
                self._columns["time"] = _make_time_column(value, unit)
            elif name == "seq":
                self._columns["seq"] = _make_integer_column(value, INT64_LEAST)
            elif name != "bytes":
                self._columns[_NAMES.get(name, name)] = _make_text_column(value, may_be_empty=name in _MAY_BE_EMPTY)
        self._bytes = _make_integer_column(rule.columns["bytes"], 0) if "bytes" in rule.columns else None
        self._receives = [_make_value_column(value) for value in rule.receives]

    def columns(self, records: list[Object], texts: list[Texts]) -> _MappedColumns | None:
        """Return the columns of these records; None if all are unread."""
        if self._rule.skip is not None:
            return None
        unread: set[int] = set()
        made = {name: column(records, unread) for name, column in self._columns.items()}
        if "computation" not in made:
            made["computation"] = [""] * len(records)
        elif None in made["computation"]:
            made["computation"] = [text or "" for text in made["computation"]]
        if "" in made.get("line", ()):
            made["line"] = [text or None for text in made["line"]]
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
        made["kind"] = self._choose_kinds(made, len(records))
        made["attributes"] = self._write_attributes(texts)
        return _MappedColumns(made, unread)

    def _choose_kinds(self, made: dict[str, list[Any]], count: int) -> list[str]:
        kind = self._rule.kind
        messages = [made[name] for name in ("sends", "receives", "channel_key") if name in made]
        if kind == LOCAL or any(None not in column for column in messages):
            return [kind] * count
        # The message is optional, and some record has none.
        return [LOCAL if keys.count(None) == len(keys) else kind for keys in zip(*messages, strict=True)]

    def _read_received(self, records: list[Object], unread: set[int]) -> tuple[list[Any], list[Any]]:
        """Return the columns ``receives`` and ``receives_more``."""
        columns = [values(records, unread) for values in self._receives]
        if len(columns) == 1 and {*map(type, columns[0])} == {str} and "" not in columns[0]:
            return columns[0], [None] * len(records)
        as_texts = [value.as_texts for value in self._rule.receives]
        keys_of_values = [
            _convert_each(partial(_convert_needed, value, convert), column, unread)
            for value, convert, column in zip(self._rule.receives, as_texts, columns, strict=True)
        ]
        keys_of_records = [
            [key for keys in of_record for key in keys or ()] for of_record in zip(*keys_of_values, strict=True)
        ]
        unread.update(number for number, keys in enumerate(keys_of_records) if len(keys) > MOST_CAUSES)
        pairs = [received(keys) for keys in keys_of_records]
        return [first for first, _ in pairs], [more for _, more in pairs]

    def _write_attributes(self, texts: list[Texts]) -> list[str | None]:
        """Write the members that became no column as JSON objects. Removes the others from `texts`."""
        for name in self._rule.used:
            for text in texts:
                text.pop(name, None)
        return [text if text != "{}" else None for text in written(texts)]


_NAMES = {"clock": "clock_name", "channel": "channel_key"}
_MAY_BE_EMPTY = ("computation", "name", "line")


def _add_without(column: list[Any] | None, other: list[Any] | None, unread: set[int]) -> None:
    """Add the records that have a value in neither of two columns to the unread ones."""
    if column is None or other is None:
        only = column or other or ()
        if None in only:
            unread.update(number for number, value in enumerate(only) if value is None)
    else:
        unread.update(number for number, both in enumerate(zip(column, other, strict=True)) if both == (None, None))


def _make_field_reader(field: Field) -> Callable[[list[Object]], list[Any]]:
    """Make a function that returns the field's values, as `Field.value` does."""
    first, within = field.keys[0], field.within
    if len(field.keys) == 1:
        return lambda records: [record.get(first) for record in records]
    return lambda records: [within(record.get(first)) for record in records]


def _make_value_column(value: Value) -> Column:
    """Make the column of what `Value.of` returns; None for missing values, whether they are optional or not."""
    fields = [_make_field_reader(part) for part in value.parts if isinstance(part, Field)]
    if value.field is not None:
        return lambda records, unread: fields[0](records)
    template = "".join("%s" if isinstance(part, Field) else part.replace("%", "%%") for part in value.parts)
    match = None if value.match is None else _make_matcher(value.match)

    def values(records: list[Object], unread: set[int]) -> list[Any]:
        columns = [field(records) for field in fields]
        if not fields:
            filled: list[Any] = [template % ()] * len(records)
        elif all({*map(type, column)} <= _NUMBERS_AND_TEXT for column in columns):
            filled = (
                columns[0]
                if template == "%s" and {*map(type, columns[0])} == {str}
                else [template % values_of_record for values_of_record in zip(*columns, strict=True)]
            )
        else:
            filled = _convert_each(partial(_fill, template), zip(*columns, strict=True), unread)
        if match is None:
            return filled
        return _convert_each(lambda text: None if text is None else match(text), filled, unread)

    return values


def _fill(template: str, values: tuple[Any, ...]) -> str | None:
    """Fill the template with numbers and texts, as `Value` does; None if one is missing. Raises `BadRecord` for others."""
    if not {*map(type, values)} <= {*_NUMBERS_AND_TEXT, type(None)}:
        raise BadRecord("unread", "the exact reader must read this value")
    return None if None in values else template % values


def _make_matcher(pattern: TimedPattern) -> Callable[[str], str | None]:
    """Make a function that extracts what the pattern matches. It remembers short texts, which often come again."""
    remembered = lru_cache(maxsize=_MOST_REMEMBERED)(pattern.extract)
    return lambda text: (remembered if len(text) <= _MOST_REMEMBERED_CHARACTERS else pattern.extract)(text)


def _make_text_column(value: Value, *, may_be_empty: bool) -> Column:
    """Make a column of texts."""
    read = _make_value_column(value)
    convert = partial(_convert_needed, value, partial(value.as_text, may_be_empty=may_be_empty))

    def texts(records: list[Object], unread: set[int]) -> list[Any]:
        values = read(records, unread)
        if {*map(type, values)} == {str} and (may_be_empty or "" not in values):
            return values
        return _convert_each(convert, values, unread)

    return texts


def _make_integer_column(value: Value, least: int) -> Column:
    """Make a column of integers from `least` on."""
    read = _make_value_column(value)
    convert = partial(_convert_needed, value, partial(value.as_integer, least=least))

    def integers(records: list[Object], unread: set[int]) -> list[Any]:
        values = read(records, unread)
        is_usual = {*map(type, values)} == {int} and min(values) >= least
        return values if is_usual else _convert_each(convert, values, unread)

    return integers


def _make_time_column(value: Value, unit: str) -> Column:
    """Make a column of times in `unit`."""
    read = _make_value_column(value)
    numerator, denominator = value.scale(unit)
    convert = partial(_convert_needed, value, partial(value.as_time, unit=unit))

    def in_unit(records: list[Object], unread: set[int]) -> list[Any]:
        values = read(records, unread)
        types = {*map(type, values)}
        if types == {int}:
            is_in_unit = numerator == denominator
            scaled = values if is_in_unit else [number * numerator // denominator for number in values]
            if min(scaled) >= INT64_LEAST and max(scaled) <= INT64_MOST:
                return scaled
        elif types == {str}:
            times = [quick_time(text, unit) for text in values]
            return times if None not in times else _convert_each(convert, values, unread)
        return _convert_each(convert, values, unread)

    return in_unit


def _convert_needed(value: Value, convert: Callable[[Any], Any], raw: Any) -> Any:
    """Convert a value. Raises `BadRecord` if it is missing and not optional."""
    if raw is None and not value.optional:
        raise BadRecord("unread", "the exact reader says what is missing")
    return convert(raw)


def _convert_each(convert: Callable[[Any], Any], values: Any, unread: set[int]) -> list[Any]:
    """Convert each value by itself; None for those that cannot be converted, whose records are then unread."""
    converted = []
    for number, value in enumerate(values):
        try:
            converted.append(convert(value))
        except BadRecord:
            unread.add(number)
            converted.append(None)
    return converted
