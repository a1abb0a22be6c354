"""A mapping applied to many records at once, column by column. It takes the usual and leaves the rest to the exact reader.

Each column is made by a function that is put together once, from what the mapping says. It looks at the types of all values
of its field: if they are of one sort, it converts them at once, otherwise one by one. A record that cannot be converted is
left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Final, TypeAlias

from whence.events.schema import LOCAL
from whence.sources.mapping_rules import LogMapping, Rule
from whence.sources.mapping_values import Field, Value
from whence.sources.quick_objects import Object, Texts, objects, written
from whence.sources.rows import MOST_CAUSES, BadRecord, Columns, received
from whence.sources.timed_regex import TimedPattern
from whence.sources.times import INT64_LEAST, INT64_MOST, quick_time

Column: TypeAlias = Callable[[list[Object], set[int]], list[Any]]
"""Values of a column for these records. Numbers of records that must be left are added to the set."""

LEFT: Final = -1

_NUMBERS_AND_TEXT = {str, int, float}
_TELLS_RULES_APART = {str, int, type(None)}
"""Values that are equal as keys of a dictionary only if they are the same for every condition. True equals 1, and is not."""
_MOST_REMEMBERED = 10_000
_MOST_REMEMBERED_CHARACTERS = 200


class QuickMapping:
    """What a mapping makes of lines that hold nothing unusual; times in `unit`."""

    def __init__(self, mapping: LogMapping, unit: str) -> None:
        self._mapping = mapping
        self._rules: dict[int | None, _QuickRule] = {
            number: _QuickRule(rule, unit) for number, rule in enumerate(mapping.rules)
        }
        conditions = [condition for rule in mapping.rules for condition in rule.conditions]
        fields = {part for each in conditions for part in each.value.parts if isinstance(part, Field)}
        self._asked = [_field_values(field) for field in sorted(fields, key=lambda field: field.path)]
        self._remembered: dict[tuple[Any, ...], int | None] = {}

    def add(self, lines: Sequence[bytes], places: Sequence[int], data: bytes, columns: Columns) -> list[int]:
        """Add rows of these lines and give the rows' numbers; `LEFT` for a line that is left.

        `places` are the lines' numbers in the file, `data` is the lines together.
        """
        found, texts = objects(lines, data)
        taken = [line for line, record in enumerate(found) if record is not None]
        chosen = self._chosen(found if len(taken) == len(found) else [found[line] for line in taken])
        groups: dict[int | None, list[int]] = {}
        for line, rule in zip(taken, chosen, strict=True):
            if rule in groups:
                groups[rule].append(line)
            else:
                groups[rule] = [line]
        groups.pop(None, None)
        rows = [LEFT] * len(lines)
        for rule, numbers in groups.items():
            made = self._rules[rule].columns([found[line] for line in numbers], [texts[line] for line in numbers])
            if made is None:
                continue
            made.columns["place"] = [places[each] for each in numbers]
            for line, row in zip(numbers, columns.add(made.columns, len(numbers)), strict=True):
                rows[line] = row
            for each in made.left:
                rows[numbers[each]] = LEFT
        return rows

    def _chosen(self, records: list[Object]) -> Sequence[int | None]:
        """The number of each record's rule; None where that cannot be said."""
        if not self._asked:
            return [0] * len(records)
        asked = [values(records) for values in self._asked]
        if not all({*map(type, each)} <= _TELLS_RULES_APART for each in asked):
            return [self._rule_for(record) for record in records]
        known = self._remembered
        if len(known) > _MOST_REMEMBERED:
            known.clear()
        keys = list(zip(*asked, strict=True))
        for number, key in enumerate(keys):
            if key not in known:
                known[key] = self._rule_for(records[number])
        return [known[key] for key in keys]

    def _rule_for(self, record: Object) -> int | None:
        try:
            rule = self._mapping.rule_for({name: (value, "", "") for name, value in record.items()})
        except BadRecord:
            return None
        return next(number for number, each in enumerate(self._mapping.rules) if each is rule)


@dataclass(slots=True)
class _Made:
    """Columns of some records, and the numbers of those that are left, whose values mean nothing."""

    columns: dict[str, list[Any]]
    left: set[int]


class _QuickRule:
    """How records of one sort become rows."""

    def __init__(self, rule: Rule, unit: str) -> None:
        self._rule = rule
        self._columns: dict[str, Column] = {}
        for name, value in rule.columns.items():
            if name == "time":
                self._columns["time"] = _times(value, unit)
            elif name == "seq":
                self._columns["seq"] = _integers(value, INT64_LEAST)
            elif name != "bytes":
                self._columns[_NAMES.get(name, name)] = _texts(value, may_be_empty=name in _MAY_BE_EMPTY)
        self._bytes = _integers(rule.columns["bytes"], 0) if "bytes" in rule.columns else None
        self._receives = [_values(value) for value in rule.receives]

    def columns(self, records: list[Object], texts: list[Texts]) -> _Made | None:
        """The columns of these records; None if all are left."""
        if self._rule.skip is not None:
            return None
        left: set[int] = set()
        made = {name: column(records, left) for name, column in self._columns.items()}
        if "computation" not in made:
            made["computation"] = [""] * len(records)
        elif None in made["computation"]:
            made["computation"] = [text or "" for text in made["computation"]]
        if "" in made.get("line", ()):
            made["line"] = [text or None for text in made["line"]]
        if self._receives:
            made["receives"], made["receives_more"] = self._received(records, left)
        if self._bytes is not None:
            without: set[int] = set()
            counts, channels = self._bytes(records, without), made["channel_key"]
            # What is no message in a channel has no bytes there.
            made["channel_bytes"] = [
                None if key is None else count for key, count in zip(channels, counts, strict=True)
            ]
            left.update(number for number in without if channels[number] is not None)
        _leave_without(made.get("process"), None, left)
        _leave_without(made.get("time"), made.get("seq"), left)
        made["kind"] = self._kinds(made, len(records))
        made["attributes"] = self._attributes(texts)
        return _Made(made, left)

    def _kinds(self, made: dict[str, list[Any]], count: int) -> list[str]:
        kind = self._rule.kind
        messages = [made[name] for name in ("sends", "receives", "channel_key") if name in made]
        if kind == LOCAL or any(None not in each for each in messages):
            return [kind] * count
        # What it would send or receive is optional, and some record has none.
        return [LOCAL if each.count(None) == len(each) else kind for each in zip(*messages, strict=True)]

    def _received(self, records: list[Object], left: set[int]) -> tuple[list[Any], list[Any]]:
        columns = [values(records, left) for values in self._receives]
        if len(columns) == 1 and {*map(type, columns[0])} == {str} and "" not in columns[0]:
            return columns[0], [None] * len(records)
        as_texts = [value.as_texts for value in self._rule.receives]
        keys = [
            _each(partial(_needed, value, convert), column, left)
            for value, convert, column in zip(self._rule.receives, as_texts, columns, strict=True)
        ]
        together = [[key for one in each for key in one or ()] for each in zip(*keys, strict=True)]
        left.update(number for number, each in enumerate(together) if len(each) > MOST_CAUSES)
        pairs = [received(each) for each in together]
        return [first for first, _ in pairs], [more for _, more in pairs]

    def _attributes(self, texts: list[Texts]) -> list[str | None]:
        """The members that became no column; the texts are used up."""
        for name in self._rule.used:
            for text in texts:
                text.pop(name, None)
        return [text if text != "{}" else None for text in written(texts)]


_NAMES = {"clock": "clock_name", "channel": "channel_key"}
_MAY_BE_EMPTY = ("computation", "name", "line")


def _leave_without(column: list[Any] | None, other: list[Any] | None, left: set[int]) -> None:
    """Leave the records that have a value in neither of two columns."""
    if column is None or other is None:
        only = column or other or ()
        if None in only:
            left.update(number for number, value in enumerate(only) if value is None)
    else:
        left.update(number for number, both in enumerate(zip(column, other, strict=True)) if both == (None, None))


def _field_values(field: Field) -> Callable[[list[Object]], list[Any]]:
    """The field's values, as `Field.value` gives them."""
    first, within = field.keys[0], field.within
    if len(field.keys) == 1:
        return lambda records: [record.get(first) for record in records]
    return lambda records: [within(record.get(first)) for record in records]


def _values(value: Value) -> Column:
    """What `Value.of` gives; None for what is not there, whether it is optional or not."""
    fields = [_field_values(part) for part in value.parts if isinstance(part, Field)]
    if value.field is not None:
        return lambda records, left: fields[0](records)
    template = "".join("%s" if isinstance(part, Field) else part.replace("%", "%%") for part in value.parts)
    match = None if value.match is None else _matching(value.match)

    def values(records: list[Object], left: set[int]) -> list[Any]:
        columns = [field(records) for field in fields]
        if not fields:
            filled: list[Any] = [template % ()] * len(records)
        elif all({*map(type, column)} <= _NUMBERS_AND_TEXT for column in columns):
            filled = (
                columns[0]
                if template == "%s" and {*map(type, columns[0])} == {str}
                else [template % each for each in zip(*columns, strict=True)]
            )
        else:
            filled = _each(partial(_filled, template), zip(*columns, strict=True), left)
        return filled if match is None else _each(lambda text: None if text is None else match(text), filled, left)

    return values


def _filled(template: str, values: tuple[Any, ...]) -> str | None:
    """The template with the values in it; numbers and texts are spelled as `Value` spells them, all else is left."""
    if not {*map(type, values)} <= {*_NUMBERS_AND_TEXT, type(None)}:
        raise BadRecord("left", "the exact reader knows what to do with this value")
    return None if None in values else template % values


def _matching(pattern: TimedPattern) -> Callable[[str], str | None]:
    """What the pattern takes of a text; of short texts, which often come again, it is remembered."""
    remembered = lru_cache(maxsize=_MOST_REMEMBERED)(pattern.extract)
    return lambda text: (remembered if len(text) <= _MOST_REMEMBERED_CHARACTERS else pattern.extract)(text)


def _texts(value: Value, *, may_be_empty: bool) -> Column:
    values = _values(value)
    convert = partial(_needed, value, partial(value.as_text, may_be_empty=may_be_empty))

    def texts(records: list[Object], left: set[int]) -> list[Any]:
        found = values(records, left)
        if {*map(type, found)} == {str} and (may_be_empty or "" not in found):
            return found
        return _each(convert, found, left)

    return texts


def _integers(value: Value, least: int) -> Column:
    values = _values(value)
    convert = partial(_needed, value, partial(value.as_integer, least=least))

    def integers(records: list[Object], left: set[int]) -> list[Any]:
        found = values(records, left)
        return found if {*map(type, found)} == {int} and min(found) >= least else _each(convert, found, left)

    return integers


def _times(value: Value, unit: str) -> Column:
    values = _values(value)
    times, parts = value.scale(unit)
    convert = partial(_needed, value, partial(value.as_time, unit=unit))

    def in_unit(records: list[Object], left: set[int]) -> list[Any]:
        found = values(records, left)
        types = {*map(type, found)}
        if types == {int}:
            scaled = found if times == parts else [each * times // parts for each in found]
            if min(scaled) >= INT64_LEAST and max(scaled) <= INT64_MOST:
                return scaled
        elif types == {str}:
            quick = [quick_time(each, unit) for each in found]
            return quick if None not in quick else _each(convert, found, left)
        return _each(convert, found, left)

    return in_unit


def _needed(value: Value, convert: Callable[[Any], Any], given: Any) -> Any:
    """What is given, converted; raises `BadRecord` where it is not there and must be."""
    if given is None and not value.optional:
        raise BadRecord("left", "the exact reader says what is missing")
    return convert(given)


def _each(convert: Callable[[Any], Any], values: Any, left: set[int]) -> list[Any]:
    """Each value converted by itself; None for those that cannot be, whose records are left."""
    made = []
    for number, value in enumerate(values):
        try:
            made.append(convert(value))
        except BadRecord:
            left.add(number)
            made.append(None)
    return made
