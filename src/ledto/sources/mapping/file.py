"""Read a mapping: a TOML file that says what the fields of a JSON log mean. Unknown keys are errors.

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
from importlib import resources
from pathlib import Path
from typing import Any, Final, NoReturn

from ledto.events.schema import KINDS, LOCAL, RECEIVE, SEND
from ledto.sources.contract import SourceError
from ledto.sources.mapping.rules import LogMapping, MappingRule, RuleCondition, as_json_value
from ledto.sources.mapping.values import UNITS, Value, read_parts
from ledto.sources.record_fields import implied_kind
from ledto.sources.regex.timed import TimedPattern, compile_timed

COLUMNS_OF_A_RECORD: Final = ("process", "line", "clock", "computation", "time", "seq", "name", "id")
"""The keys that a mapping has for all records, and a rule for its own."""

_TOP_KEYS = (*COLUMNS_OF_A_RECORD, "type", "event", "default")
_RULE_KEYS = (*COLUMNS_OF_A_RECORD, "kind", "sends", "receives", "channel", "bytes", "skip")
_VALUE_KEYS = ("from", "text", "match", "optional")
_NEEDED = ("process",)


class MappingError(SourceError):
    """A mapping cannot be used. The message names the file, the key, and what is allowed."""


def shipped_mappings() -> tuple[str, ...]:
    """Return the names of the mappings that come with ledto."""
    folder = resources.files("ledto.sources").joinpath("mappings")
    return tuple(sorted(file.name.removesuffix(".toml") for file in folder.iterdir() if file.name.endswith(".toml")))


def load_mapping(name: str) -> LogMapping:
    """Load the mapping of that name that comes with ledto, or else from that file. Raises `MappingError`."""
    if name in shipped_mappings():
        data = resources.files("ledto.sources").joinpath("mappings", f"{name}.toml").read_bytes()
    else:
        try:
            data = Path(name).read_bytes()
        except OSError as error:
            shipped = ", ".join(shipped_mappings())
            why = error.strerror or str(error)
            raise MappingError(f"the mapping {name} cannot be read: {why}. Give a file, or one of {shipped}") from None
    return read_mapping(data, name)


def read_mapping(data: bytes, name: str) -> LogMapping:
    """Parse the bytes of a mapping's file. Raises `MappingError`, which calls the file `name`."""
    try:
        content = tomllib.loads(data.decode("utf-8"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise MappingError(f"the mapping {name} is not valid TOML: {error}") from None
    return _MappingReader(name).mapping(content)


class _MappingReader:
    def __init__(self, name: str) -> None:
        self._name = name
        self._type: Value | None = None

    def mapping(self, content: Mapping[str, Any]) -> LogMapping:
        self._check_keys(content, _TOP_KEYS, "")
        common = {key: self._read_value(content[key], key, key) for key in COLUMNS_OF_A_RECORD if key in content}
        if "type" in content:
            self._type = self._read_value(content["type"], "type", "type")
        events = content.get("event", [])
        if not isinstance(events, list) or not all(isinstance(event, dict) for event in events):
            self._refuse("event", "is written [[event]], once for each rule")
        rules = [self._read_rule(event, f"event {number}", common) for number, event in enumerate(events, start=1)]
        default = content.get("default", {})
        if not isinstance(default, dict):
            self._refuse("default", "is a table, written [default]")
        rules.append(self._read_rule(default, "default", common))
        return LogMapping(tuple(rules))

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
        columns = {key: self._relabel(value, label) for key, value in common.items()}
        for key in _RULE_KEYS:
            if key in content and key not in ("kind", "receives"):
                columns[key] = self._read_value(content[key], f"{where}, {key}", f"{key} of {label}")
        received = content.get("receives", [])
        receives = tuple(
            self._read_value(key, f"{where}, receives", f"receives of {label}")
            for key in (received if isinstance(received, list) else [received])
        )
        self._check_columns(columns, where)
        return MappingRule(label, conditions, self._read_kind(content, where), columns, receives)

    def _check_columns(self, columns: Mapping[str, Value], where: str) -> None:
        for key in _NEEDED:
            if key not in columns:
                self._refuse(where, f"has no {key}: say which field it is, for all records or in each rule")
        if "time" not in columns and "seq" not in columns:
            self._refuse(where, "has neither time nor seq: one of them is needed to order the events of a process")

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
        if kind == RECEIVE and not (receives or channel):
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
            conditions.append(self._read_condition(key, value, wanted, f"{where}.{key}"))
        return tuple(conditions)

    def _read_condition(self, key: str, value: Value, wanted: object, where: str) -> RuleCondition:
        value = Value(value.what, value.parts, value.match, optional=True)
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
        return RuleCondition(f"{key} = {shown[:60]}", value, frozenset(as_json_value(choice) for choice in choices))

    def _read_value(self, content: object, where: str, what: str) -> Value:
        if isinstance(content, str):
            return Value(what, self._read_parts(content, where))
        if not isinstance(content, dict):
            self._refuse(where, f"is a field or a template in quotes, or a table of {', '.join(_VALUE_KEYS)}")
        is_time = where.rpartition(" ")[2] == "time"
        self._check_keys(content, (*_VALUE_KEYS, "unit") if is_time else _VALUE_KEYS, where)
        if ("from" in content) == ("text" in content):
            self._refuse(where, "has either from, a field or a template, or text, which is the same for all records")
        text = content.get("from", content.get("text"))
        if not isinstance(text, str):
            self._refuse(where, f"is text, not {text!r}")
        optional, unit = content.get("optional", False), content.get("unit")
        if not isinstance(optional, bool):
            self._refuse(f"{where}.optional", f"is true or false, not {optional!r}")
        if unit is not None and unit not in UNITS:
            self._refuse(f"{where}.unit", f"is one of {', '.join(UNITS)}, not {unit!r}")
        match = self._compile(content["match"], f"{where}.match") if "match" in content else None
        parts = self._read_parts(text, where) if "from" in content else (text,)
        return Value(what, parts, match, optional, unit)

    def _relabel(self, value: Value, label: str) -> Value:
        return Value(f"{value.what} of {label}", value.parts, value.match, value.optional, value.unit)

    def _read_parts(self, text: str, where: str) -> tuple[Any, ...]:
        try:
            return read_parts(text)
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
