"""Make the columns of many usual records at once, each by a function that is composed once, from a value of a mapping.

Such a function looks at the types of all values of its field: if they are of one sort, it converts them together, otherwise
one by one. A record that it cannot convert stays *unread*: the exact reader reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial
from typing import Any, TypeAlias

from ledto.sources.json.objects import Object
from ledto.sources.mapping.rules import RuleCondition
from ledto.sources.mapping.values import AUTO, Field, Parts, Value, member_of, only_field
from ledto.sources.regex.timed import TimedPattern
from ledto.sources.rows import BadRecord
from ledto.sources.times import INT64_LEAST, INT64_MOST

Column: TypeAlias = Callable[["RecordList", set[int]], list[Any]]
"""A function that returns the values of a column for some records, and adds the numbers of unread ones to the set."""

_NUMBERS_AND_TEXT = {str, int, float}
_MOST_REMEMBERED = 10_000
_MOST_DIGITS = 18
_MOST_REMEMBERED_CHARACTERS = 200


class RecordList(list[Object]):
    """Some records. It remembers the columns of objects within them: several fields of a mapping are in one object."""

    def __init__(self, records: Iterable[Object]) -> None:
        super().__init__(records)
        self._columns: dict[tuple[str, ...], list[Any]] = {}

    def column(self, keys: tuple[str, ...]) -> list[Any]:
        """Return what `ledto.sources.mapping.values.follow` returns for each record."""
        if len(keys) == 1 or not self:
            first = keys[0]
            return [record.get(first) for record in self]
        objects, key = self._objects(keys[:-1]), keys[-1]
        if objects[0] is None and objects.count(None) == len(objects):
            return objects
        return [
            value.get(key) if type(value) is dict else None if value is None else member_of(value, key)
            for value in objects
        ]

    def _objects(self, keys: tuple[str, ...]) -> list[Any]:
        if keys not in self._columns:
            self._columns[keys] = self.column(keys)
        return self._columns[keys]


FieldReader: TypeAlias = Callable[[RecordList], list[Any]]
"""A function that returns the values of a field."""


def make_field_reader(field: Field) -> FieldReader:
    """Make a function that returns the field's values, as `Field.value` does."""
    first, *others = field.forms
    if not others:
        return lambda records: records.column(first)

    def values(records: RecordList) -> list[Any]:
        column = records.column(first)
        for form in others:
            if None not in column:
                break
            further = records.column(form)
            column = [new if own is None else own for own, new in zip(column, further, strict=True)]
        return column

    return values


def make_value_column(value: Value) -> Column:
    """Make the column of what `Value.of` returns; None for missing values, whether they are optional or not."""
    first, *others = [_make_parts_column(parts) for parts in value.choices]
    match = None if value.match is None else _make_matcher(value.match)
    if not others and match is None:
        return first

    def values(records: RecordList, unread: set[int]) -> list[Any]:
        filled = first(records, unread)
        for other in others:
            if None in filled or "" in filled:
                filled = _fill_gaps(filled, other, records, unread)
        if others and "" in filled:
            filled = [None if text == "" else text for text in filled]
        if match is None:
            return filled
        return convert_each(
            lambda text: None if text is None else match(text), _as_texts(value, filled, unread), unread
        )

    return values


def _fill_gaps(filled: list[Any], other: Column, records: RecordList, unread: set[int]) -> list[Any]:
    """Fill missing and empty values from another column, which is read only for them."""
    gaps = [number for number, value in enumerate(filled) if value is None or value == ""]
    if len(gaps) == len(filled):
        return other(records, unread)
    unread_gaps: set[int] = set()
    further = other(RecordList(records[number] for number in gaps), unread_gaps)
    unread.update(gaps[number] for number in unread_gaps)
    filled = list(filled)
    for number, value in zip(gaps, further, strict=True):
        filled[number] = value
    return filled


def _as_texts(value: Value, filled: list[Any], unread: set[int]) -> list[Any]:
    if {*map(type, filled)} <= {str, type(None)}:
        return filled
    return convert_each(partial(value.as_text, may_be_empty=True), filled, unread)


def _make_parts_column(parts: Parts) -> Column:
    """Make the column of the values of a field, or the texts of a template; None for missing ones."""
    fields = [make_field_reader(part) for part in parts if isinstance(part, Field)]
    if only_field(parts) is not None:
        return lambda records, unread: fields[0](records)
    template = "".join("%s" if isinstance(part, Field) else part.replace("%", "%%") for part in parts)

    def values(records: RecordList, unread: set[int]) -> list[Any]:
        columns = [field(records) for field in fields]
        if not fields:
            return [template % ()] * len(records)
        if all({*map(type, column)} <= _NUMBERS_AND_TEXT for column in columns):
            return [template % values_of_record for values_of_record in zip(*columns, strict=True)]
        return convert_each(partial(_fill, template), zip(*columns, strict=True), unread)

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


def make_fact_columns(conditions: Sequence[RuleCondition]) -> list[Column]:
    """Make columns of values that decide which conditions hold, each with few different values if that can be.

    A condition on the presence of a value needs only that, and one on the text of a template only whether it matches.
    """
    columns: dict[Any, Column] = {}
    fields: set[Field] = set()
    for condition in conditions:
        value = condition.value
        read = make_value_column(value)
        if condition.present is not None:
            columns[value.choices, value.match, "present"] = partial(_are_present, read)
        elif condition.match is not None and value.field is None:
            columns[value.choices, value.match, condition.match] = partial(_do_match, read, condition.match)
        else:
            fields.update(part for parts in value.choices for part in parts if isinstance(part, Field))
    readers = [make_field_reader(field) for field in sorted(fields, key=lambda field: field.path)]
    return [*columns.values(), *(partial(_plain, reader) for reader in readers)]


def _plain(reader: FieldReader, records: RecordList, unread: set[int]) -> list[Any]:
    return reader(records)


def _are_present(read: Column, records: RecordList, unread: set[int]) -> list[Any]:
    # Numbers, not truth values: True equals 1, and types that may be equal must not be mixed in a key.
    return [int(value is not None) for value in read(records, unread)]


def _do_match(read: Column, match: TimedPattern, records: RecordList, unread: set[int]) -> list[Any]:
    return convert_each(lambda text: int(type(text) is str and match.occurs_in(text)), read(records, unread), unread)


def make_text_column(value: Value, *, may_be_empty: bool) -> Column:
    """Make a column of texts."""
    read = make_value_column(value)
    convert = partial(convert_needed, value, partial(value.as_text, may_be_empty=may_be_empty))
    usual_types = {str, type(None)} if value.optional else {str}

    def texts(records: RecordList, unread: set[int]) -> list[Any]:
        values = read(records, unread)
        types = {*map(type, values)}
        if types <= usual_types and (may_be_empty or "" not in values):
            return values
        return convert_each(convert, values, unread)

    return texts


def make_integer_column(value: Value, least: int) -> Column:
    """Make a column of integers from `least` on."""
    read = make_value_column(value)
    convert = partial(convert_needed, value, partial(value.as_integer, least=least))

    def integers(records: RecordList, unread: set[int]) -> list[Any]:
        values = read(records, unread)
        is_usual = {*map(type, values)} == {int} and min(values) >= least
        return values if is_usual else convert_each(convert, values, unread)

    return integers


def make_texts_column(value: Value) -> Column:
    """Make a column of lists of texts; None for empty lists."""
    read = make_value_column(value)
    convert = partial(convert_needed, value, value.as_texts)
    return lambda records, unread: [texts or None for texts in convert_each(convert, read(records, unread), unread)]


def make_time_column(value: Value, unit: str) -> Column:
    """Make a column of times in `unit`."""
    read = make_value_column(value)
    parse = value.time_text.quick
    has_format = value.time_text.format is not None
    convert = partial(convert_needed, value, partial(value.as_time, unit=unit))

    def in_unit(records: RecordList, unread: set[int]) -> list[Any]:
        values = read(records, unread)
        types = {*map(type, values)}
        if types == {str}:
            numbers = None if has_format else _integers_of(values)
            if numbers is None:
                times = [parse(text, unit) for text in values]
                return times if None not in times else convert_each(convert, values, unread)
            values, types = numbers, {int}
        if types == {int} and not has_format:
            scaled = _scale(value, values, unit)
            if scaled is not None:
                return scaled
        return convert_each(convert, values, unread)

    return in_unit


def _integers_of(texts: list[str]) -> list[int] | None:
    """Return the integers that all of these texts are; None if one of them is none, or is long."""
    joined = "".join(texts)
    if not (joined.isdigit() and joined.isascii()) or "" in texts or max(map(len, texts)) > _MOST_DIGITS:
        return None
    return list(map(int, texts))


def _scale(value: Value, numbers: list[int], unit: str) -> list[int] | None:
    """Convert numbers to `unit`; None if they are not all of one unit, or beyond 64 bits."""
    least, most = min(numbers), max(numbers)
    scale = value.scale(unit, least)
    if value.unit == AUTO and (least < 0 or scale != value.scale(unit, most)):
        return None
    numerator, denominator = scale
    scaled = numbers if numerator == denominator else [number * numerator // denominator for number in numbers]
    return scaled if min(scaled) >= INT64_LEAST and max(scaled) <= INT64_MOST else None


def convert_needed(value: Value, convert: Callable[[Any], Any], raw: Any) -> Any:
    """Convert a value. Raises `BadRecord` if it is missing and not optional."""
    if raw is None and not value.optional:
        raise BadRecord("unread", "the exact reader says what is missing")
    return convert(raw)


def convert_each(convert: Callable[[Any], Any], values: Any, unread: set[int]) -> list[Any]:
    """Convert each value by itself; None for those that cannot be converted, whose records are then unread."""
    converted = []
    for number, value in enumerate(values):
        try:
            converted.append(convert(value))
        except BadRecord:
            unread.add(number)
            converted.append(None)
    return converted
