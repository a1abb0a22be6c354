"""Read a mapping: a TOML file that says what the fields of a log mean. Unknown keys are errors.

One literal mapping::

    process = "host"
    line = { from = "thread", optional = true }
    time = { from = "timestamp", unit = "ms" }
    type = "type"
    name = "{type} on {data.host}"

    [[event]]
    when = { type = "SND" }
    kind = "send"
    channel = "{src}:{src_port}>{dst}:{dst_port}"
    bytes = "size"
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any, Final, NoReturn

from ledto.events.keys import SPAN
from ledto.events.schema import KINDS, LOCAL, RECEIVE, SEND
from ledto.sources.contract import SourceError
from ledto.sources.mapping.moments import ISO, TimeText, check_format, read_zone
from ledto.sources.mapping.rules import LogMapping, MappingRule, RuleCondition, as_json_value
from ledto.sources.mapping.spans import HEX, TEXT, SpanRule
from ledto.sources.mapping.values import AUTO, UNITS, Parts, Value, read_parts
from ledto.sources.record_fields import implied_kind
from ledto.sources.records.formats import RECORD_FORMATS, record_format
from ledto.sources.records.syslog import LATEST_NS
from ledto.sources.regex.timed import TimedPattern, compile_timed

COLUMNS_OF_A_RECORD: Final = (
    *("process", "line", "line_parent", "line_joins", "clock", "computation", "time", "seq", "name", "id", "severity"),
)
"""The keys that a mapping has for all records, and a rule for its own."""
DEFAULT_FORMAT: Final = "json"
"""The format of records if neither the mapping nor an option says it."""

MOST_BYTES: Final = 1 << 20
"""The size of a mapping, at most."""
_TOP_KEYS = (*COLUMNS_OF_A_RECORD, "format", "records", "dotted", "zone", "type", "event", "default", "span")
_EVENT_KEYS = (*COLUMNS_OF_A_RECORD, "kind", "sends", "receives", "channel", "bytes")
_RULE_KEYS = (*_EVENT_KEYS, "skip", "also", "span")
_SPAN_NEEDED = ("trace", "span", "start")
_SPAN_OPTIONAL = ("parent", "end", "duration", "process", "service", "instance", "kind", "name", "status")
_NOT_INHERITED = ("id", "seq", "sends", "channel", "bytes", "line_parent", "line_joins")
"""Columns of a rule that further events of its record do not have from it."""
_TIMES = ("time", "start", "end", "duration")
_MESSAGES = ("sends", "receives")
_VALUE_KEYS = ("from", "text", "match", "optional")


class MappingError(SourceError):
    """A mapping cannot be used. The message names the file, the key, and what is allowed."""


def shipped_mappings() -> tuple[str, ...]:
    """Return the names of the mappings that come with ledto."""
    folder = resources.files("ledto.sources").joinpath("mappings")
    return tuple(sorted(file.name.removesuffix(".toml") for file in folder.iterdir() if file.name.endswith(".toml")))


def load_mapping(name: str, *, format: str | None = None, zone: str | None = None) -> LogMapping:
    """Load the mapping of that name that comes with ledto, or else from that file, as `read_mapping` does."""
    if name in shipped_mappings():
        data = resources.files("ledto.sources").joinpath("mappings", f"{name}.toml").read_bytes()
    else:
        try:
            data = _read_file(Path(name))
        except OSError as error:
            shipped = ", ".join(shipped_mappings())
            why = error.strerror or str(error)
            raise MappingError(f"the mapping {name} cannot be read: {why}. Give a file, or one of {shipped}") from None
    return read_mapping(data, name, format=format, zone=zone)


def _read_file(path: Path) -> bytes:
    """Read a file of at most `MOST_BYTES`. Raises `OSError`, also for a device, which might never end."""
    if path.exists() and not path.is_file():
        raise OSError("it is no file")
    with path.open("rb") as file:
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise OSError(f"it has more than {MOST_BYTES:,} bytes")
    return data


def read_mapping(data: bytes, name: str, *, format: str | None = None, zone: str | None = None) -> LogMapping:
    """Parse the bytes of a mapping's file. Raises `MappingError`, which calls the file `name`.

    `format` is the record format of a mapping that names none, and `zone` the time zone of one that names none.
    """
    try:
        content = tomllib.loads(data.decode("utf-8"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise MappingError(f"the mapping {name} is not valid TOML: {error}") from None
    except RecursionError:
        raise MappingError(f"the mapping {name} has too many brackets within each other") from None
    return _MappingReader(name, format, zone).mapping(content)


class _MappingReader:
    def __init__(self, name: str, format: str | None, zone: str | None) -> None:
        self._name = name
        self._type: Value | None = None
        self._format = format
        self._zone = zone
        self._dotted = False

    def mapping(self, content: Mapping[str, Any]) -> LogMapping:
        named, options = self._read_format(content)
        holder, self._dotted = content.get("records"), content.get("dotted", False)
        if holder is not None and (not isinstance(holder, str) or not holder or self._format != DEFAULT_FORMAT):
            self._refuse("records", "is the member of JSON documents that holds a list of records, as text")
        if not isinstance(self._dotted, bool):
            self._refuse("dotted", f"is true or false, not {self._dotted!r}")
        if "zone" in content:
            self._zone = content["zone"]
        self._read_time_text({}, "zone")
        common = {key: self._read_value(content[key], key, key) for key in COLUMNS_OF_A_RECORD if key in content}
        if "type" in content:
            self._type = self._read_value(content["type"], "type", "type")
        rules = [
            self._read_rule(event, f"event {number}", common)
            for number, event in enumerate(self._read_tables(content, "event", "event"), start=1)
        ]
        default = content.get("default", {})
        if not isinstance(default, dict):
            self._refuse("default", "is a table, written [default]")
        if "span" in content:
            if default:
                self._refuse("span", "is for the records that no rule fits, and so is default: give one of them")
            default = {"span": content["span"]}
        rules.append(self._read_rule(default, "default", common))
        self._check_repeated(content)
        return LogMapping(tuple(rules), named if holder is None else DEFAULT_FORMAT, options, holder)

    def _read_format(self, content: Mapping[str, Any]) -> tuple[str | None, dict[str, Any]]:
        """Return the format that the mapping names, and its options; None if it names none."""
        named = content.get("format")
        if named is not None and named not in RECORD_FORMATS:
            self._refuse("format", f"is one of {', '.join(RECORD_FORMATS)}, not {named!r}")
        self._format = named or self._format or DEFAULT_FORMAT
        form = record_format(self._format)
        allowed = [option for option in form.options if option != LATEST_NS]
        self._check_keys(content, (*_TOP_KEYS, *allowed), "")
        options = {option: content[option] for option in allowed if option in content}
        try:
            if options:
                form.decoder(options, b"")
        except SourceError as error:
            raise MappingError(f"the mapping {self._name}: {error}") from None
        return named, options

    def _read_tables(self, content: Mapping[str, Any], key: str, where: str) -> list[dict[str, Any]]:
        tables = content.get(key, [])
        if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
            written = key if where == key else f"{where.partition(' ')[0].rstrip(',')}.{key}"
            self._refuse(where, f"is written [[{written}]], once for each rule")
        return tables

    def _read_rule(self, content: Mapping[str, Any], where: str, common: Mapping[str, Value]) -> MappingRule:
        is_default = where == "default"
        self._check_keys(content, _RULE_KEYS if is_default else ("when", *_RULE_KEYS), where)
        conditions: tuple[RuleCondition, ...] = ()
        if not is_default:
            if "when" not in content:
                self._refuse(where, "has no when; write the rule for all other records under [default]")
            conditions = self._read_conditions(content["when"], f"{where}, when")
        label = where if is_default else f"{where} ({', '.join(condition.shown for condition in conditions)})"
        if "skip" in content:
            why = content["skip"]
            if not isinstance(why, str) or not why.strip():
                self._refuse(f"{where}, skip", "is the reason why these records are skipped, as text")
            if others := sorted(content.keys() - {"when", "skip"}):
                self._refuse(f"{where}, {others[0]}", "means nothing beside skip")
            return MappingRule(label, conditions, skip=why)
        inherited = {key: self._relabel(value, label) for key, value in common.items()}
        if "span" in content:
            if others := sorted(content.keys() - {"when", "span", "process", "name", "severity"}):
                self._refuse(f"{where}, {others[0]}", "means nothing beside span")
            inherited |= {
                key: self._read_own(content, key, where, label) for key in content.keys() & {"process", "name"}
            }
            severity = {"severity": inherited["severity"]} if "severity" in inherited else {}
            if "severity" in content:
                severity = {"severity": self._read_own(content, "severity", where, label)}
            return MappingRule(
                label, conditions, columns=severity, span=self._read_span(content["span"], where, inherited)
            )
        rule = self._read_event(content, where, label, inherited)
        further = []
        for number, event in enumerate(self._read_tables(content, "also", f"{where}, also"), start=1):
            place = f"{where}, also {number}"
            self._check_keys(event, _EVENT_KEYS, place)
            kept = {key: value for key, value in rule.columns.items() if key not in _NOT_INHERITED}
            further.append(self._read_event(event, place, place, kept))
        return replace(rule, conditions=conditions, also=tuple(further))

    def _read_event(
        self, content: Mapping[str, Any], where: str, label: str, inherited: Mapping[str, Value]
    ) -> MappingRule:
        columns = dict(inherited)
        for key in _EVENT_KEYS:
            if key in content and key not in ("kind", "receives"):
                columns[key] = self._read_own(content, key, where, label)
        received = content.get("receives", [])
        receives = tuple(
            self._read_value(key, f"{where}, receives", f"receives of {label}")
            for key in (received if isinstance(received, list) else [received])
        )
        if "process" not in columns:
            self._refuse(where, "has no process: say which field it is, for all records or in each rule")
        if "time" not in columns and "seq" not in columns:
            self._refuse(where, "has neither time nor seq: one of them is needed to order the events of a process")
        if "line_parent" in columns and "line" not in columns:
            self._refuse(f"{where}, line_parent", "is the line that started this one: say which field is the line")
        kind = self._read_kind(content, where)
        return MappingRule(label, (), kind, columns, receives, is_kind_given="kind" in content)

    def _read_own(self, content: Mapping[str, Any], key: str, where: str, label: str) -> Value:
        return self._read_value(content[key], f"{where}, {key}", f"{key} of {label}")

    def _read_span(self, content: object, where: str, inherited: Mapping[str, Value]) -> SpanRule:
        place = "span" if where == "default" else f"{where}, span"
        if not isinstance(content, dict):
            self._refuse(place, "is a table: which fields are the ids, the process and the times of a span")
        self._check_keys(content, (*_SPAN_NEEDED, *_SPAN_OPTIONAL, "ids"), place)
        for key in _SPAN_NEEDED:
            if key not in content:
                self._refuse(place, f"has no {key}: say which field it is")
        if "end" in content and "duration" in content:
            self._refuse(f"{place}, duration", "and end say the same: give one of them")
        if content.get("ids", TEXT) not in (HEX, TEXT):
            self._refuse(f"{place}, ids", f"is {HEX} or {TEXT}, not {content['ids']!r}")
        values = {key: self._read_own(content, key, place, "a span") for key in content if key != "ids"}
        for key in _SPAN_OPTIONAL:
            if key in values and key not in ("process", "service"):
                values[key] = replace(values[key], optional=True)
        if "service" not in values and "process" not in values:
            if "process" not in inherited:
                self._refuse(place, "has neither service nor process: say which field names where it ran")
            values["process"] = inherited["process"]
        if "name" not in values and "name" in inherited:
            values["name"] = inherited["name"]
        if "duration" in values and values["duration"].unit is None:
            values["duration"] = replace(values["duration"], unit=values["start"].unit)
        if "duration" in values and values["duration"].unit in (None, AUTO):
            self._refuse(f"{place}, duration", 'needs a unit of its own, as { from = "FIELD", unit = "ms" }')
        return SpanRule(place, ids=content.get("ids", TEXT), **values)

    def _check_repeated(self, content: Mapping[str, Any]) -> None:
        """Refuse names that are repeated at one end only: they would never match."""
        rules = [*content.get("event", ()), content.get("default", {})]
        events = [event for rule in rules for event in (rule, *rule.get("also", ()))]
        ends = [[event.get(key, []) for event in events] for key in ("sends", "receives")]
        sends, receives = (
            [value for end in of_key for value in (end if isinstance(end, list) else [end]) if value] for of_key in ends
        )
        repeated = [
            any(isinstance(value, dict) and value.get("repeated") for value in end) for end in (sends, receives)
        ]
        if sends and receives and repeated[0] != repeated[1]:
            self._refuse("repeated", "stands at both ends of a message: in sends, and in receives of the same names")

    def _read_kind(self, content: Mapping[str, Any], where: str) -> str:
        sends, receives, channel = (key in content for key in ("sends", "receives", "channel"))
        kind = content.get("kind")
        if kind is not None and kind not in KINDS:
            self._refuse(f"{where}, kind", f"is one of {', '.join(KINDS)}, not {kind!r}")
        if channel and (sends or receives):
            self._refuse(f"{where}, channel", "replaces sends and receives: give one or the other")
        if channel and kind not in (SEND, RECEIVE):
            self._refuse(f"{where}, kind", "must say which end of the channel this is: send or receive")
        if "bytes" in content and not channel:
            self._refuse(f"{where}, bytes", "counts the bytes of a message in a channel; there is no channel")
        if kind == SEND and not (sends or channel):
            self._refuse(where, "is a send: say what it sends, or in which channel")
        # A receive that only sends is a request of somebody who does not report.
        if kind == RECEIVE and not (receives or channel or sends):
            self._refuse(where, "is a receive: say what it receives, or from which channel")
        if kind == LOCAL and (sends or receives):
            self._refuse(f"{where}, kind", "is local, and local events have no message")
        return str(kind or implied_kind(sends=bool(sends), receives=bool(receives)))

    def _read_conditions(self, content: object, where: str) -> tuple[RuleCondition, ...]:
        if not isinstance(content, dict):
            if self._type is None:
                self._refuse(where, 'gives a type, but nothing says which field is the type: type = "FIELD"')
            content = {"type": content}
        if not content:
            self._refuse(where, "is empty; write the rule for all other records under [default]")
        conditions = []
        for key, wanted in content.items():
            value = self._type if key == "type" and self._type is not None else self._read_value(key, where, key)
            value = replace(value, optional=True, unit=None)
            conditions.append(self._read_condition(key, value, wanted, f"{where}.{key}"))
        return tuple(conditions)

    def _read_condition(self, key: str, value: Value, wanted: object, where: str) -> RuleCondition:
        if isinstance(wanted, dict):
            if wanted.keys() == {"present"} and isinstance(wanted["present"], bool):
                return RuleCondition(
                    f"{key} {'is' if wanted['present'] else 'not'} there", value, present=wanted["present"]
                )
            if wanted.keys() == {"match"}:
                return RuleCondition(f"{key} matches", value, match=self._compile(wanted["match"], where))
            self._refuse(where, "is a value, a list of values, { match = '...' } or { present = true }")
        choices = wanted if isinstance(wanted, list) else [wanted]
        if not choices or not all(isinstance(choice, str | int | float) for choice in choices):
            self._refuse(where, "is text, a number, true or false, or a list of those")
        shown = " or ".join(str(choice) for choice in choices)
        chosen = frozenset(as_json_value(choice) for choice in choices)
        is_text = record_format(self._format or DEFAULT_FORMAT).values_are_text
        return RuleCondition(f"{key} = {shown[:60]}", value, chosen, of_text=is_text)

    def _read_value(self, content: object, where: str, what: str) -> Value:
        key = where.rpartition(" ")[2]
        time_text = self._read_time_text({}, where) if key in _TIMES else ISO
        if isinstance(content, str):
            return Value(what, self._read_parts(content, where), time_text=time_text)
        if not isinstance(content, dict):
            self._refuse(where, f"is a field or a template in quotes, or a table of {', '.join(_VALUE_KEYS)}")
        own_keys = ("unit", "format", "zone") if key in _TIMES else ("repeated",) if key in _MESSAGES else ()
        self._check_keys(content, (*_VALUE_KEYS, *own_keys), where)
        if ("from" in content) == ("text" in content):
            self._refuse(where, "has either from, a field or a template, or text, which is the same for all records")
        given = content.get("from", content.get("text"))
        texts = [
            text if isinstance(text, str) else self._refuse(where, f"is text, not {text!r}")
            for text in (given if isinstance(given, list) and given and "from" in content else [given])
        ]
        optional, unit = content.get("optional", False), content.get("unit")
        if not isinstance(optional, bool):
            self._refuse(f"{where}.optional", f"is true or false, not {optional!r}")
        if unit is not None and unit not in (*UNITS, AUTO):
            self._refuse(f"{where}.unit", f"is one of {', '.join((*UNITS, AUTO))}, not {unit!r}")
        match = self._compile(content["match"], f"{where}.match") if "match" in content else None
        choices = [self._read_parts(text, where) if "from" in content else (text,) for text in texts]
        if content.get("repeated", False) is not False:
            choices = self._read_repeated(content, choices, where)
        if key in _TIMES:
            time_text = self._read_time_text(content, where)
        return Value(what, choices[0], match, optional, unit, tuple(choices[1:]), time_text)

    def _read_repeated(self, content: Mapping[str, Any], choices: list[Parts], where: str) -> list[Parts]:
        """Return the parts of the name of a message that may be sent more than once. Inside, its key has a prefix."""
        if content["repeated"] is not True:
            self._refuse(f"{where}.repeated", f"is true or false, not {content['repeated']!r}")
        if "match" in content:
            self._refuse(f"{where}.repeated", "cannot stand beside match: write a template")
        return [(SPAN + parts[0], *parts[1:]) if isinstance(parts[0], str) else (SPAN, *parts) for parts in choices]

    def _read_time_text(self, content: Mapping[str, Any], where: str) -> TimeText:
        form, zone = content.get("format"), content.get("zone", self._zone)
        try:
            if form is not None:
                if not isinstance(form, str):
                    raise ValueError(f"is text, not {form!r}")
                check_format(form)
            if zone is not None and not isinstance(zone, str):
                raise ValueError(f"is a time zone, as Europe/Berlin, not {zone!r}")
            return TimeText(form, None if zone is None else read_zone(zone))
        except ValueError as error:
            self._refuse(where, str(error))

    def _relabel(self, value: Value, label: str) -> Value:
        return replace(value, what=f"{value.what} of {label}")

    def _read_parts(self, text: str, where: str) -> Parts:
        try:
            return read_parts(text, dotted=self._dotted)
        except ValueError as error:
            self._refuse(where, str(error))

    def _compile(self, pattern: object, where: str) -> TimedPattern:
        try:
            compiled = compile_timed(str(pattern))
        except ValueError as error:
            self._refuse(where, f"is no regular expression: {error}")
        if not isinstance(pattern, str) or compiled.groups > 1:
            self._refuse(where, "is a regular expression with at most one group, whose text is the value")
        return compiled

    def _check_keys(self, content: Mapping[str, Any], allowed: Iterable[str], where: str) -> None:
        for key in content:
            if key not in allowed:
                self._refuse(f"{where}, {key}" if where else key, f"is not known here; known are {', '.join(allowed)}")

    def _refuse(self, where: str, why: str) -> NoReturn:
        raise MappingError(f"the mapping {self._name}: {where} {why}")
