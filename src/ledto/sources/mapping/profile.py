"""Describe the fields of records that nobody has described: how often each occurs, and what its values look like."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from ledto.sources.rows import BadRecord
from ledto.sources.times import time_from_text

MOST_FIELDS: Final = 500
"""The most fields that are looked at. Records with more are often maps whose keys are data."""
MOST_VALUES: Final = 2_000
"""The most different values of a field that are counted."""

FORMATS: Final = (
    *("%d/%b/%Y:%H:%M:%S %z", "%Y/%m/%d %H:%M:%S", "%Y/%m/%d %H:%M:%S.%f", "%a, %d %b %Y %H:%M:%S %z"),
    *("%a %b %d %H:%M:%S %Y", "%d.%m.%Y %H:%M:%S", "%d %b %Y %H:%M:%S"),
)
"""Ways to write a time that are not ISO 8601 and that mean one thing only."""
_SECONDS = (946_684_800, 4_102_444_800)
"""The years 2000 to 2100: a number outside of them, in each unit, is no time of a log."""
_UNITS = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_NO_NAME = frozenset('"{}')
_PLAIN_KEY = re.compile(r"[^.]+")


@dataclass(slots=True)
class FieldProfile:
    """What the values of one field look like."""

    path: str
    """As a mapping writes it."""
    count: int = 0
    values: dict[Any, int] = field(default_factory=dict)
    """How often each value occurs, up to `MOST_VALUES` of them."""
    is_capped: bool = False
    is_nested: bool = False

    @property
    def names(self) -> tuple[str, str]:
        """Return the last key, and all keys together, in lower case, letters and digits only."""
        keys = [plain or quoted for quoted, plain in re.findall(r'"([^"]*)"|([^."]+)', self.path)]
        return _fold(keys[-1]), _fold("".join(keys))

    def share(self, holds: Callable[[Any], bool]) -> float:
        """Return the share of values, each as often as it occurs, for which this holds."""
        total = sum(self.values.values())
        return sum(count for value, count in self.values.items() if holds(value)) / total if total else 0.0

    @property
    def is_text(self) -> bool:
        """Return whether nearly all values are text, and no list or object."""
        return not self.is_nested and self.share(lambda value: isinstance(value, str) and value != "") > 0.95

    @property
    def distinct(self) -> str:
        """Describe how many different values there are."""
        if self.is_capped:
            return f"more than {MOST_VALUES:,} values"
        return f"{len(self.values):,} value{'s' if len(self.values) != 1 else ''}"


def profile(records: Iterable[Mapping[str, Any]]) -> dict[str, FieldProfile]:
    """Describe every field of these records, those of nested objects included."""
    profiles: dict[str, FieldProfile] = {}
    for record in records:
        _add_fields(record, "", profiles, 0)
    return profiles


def _add_fields(record: Mapping[str, Any], before: str, profiles: dict[str, FieldProfile], depth: int) -> None:
    for key, value in record.items():
        # A mapping cannot name fields with such signs, or only as a template.
        if not key or value is None or not _NO_NAME.isdisjoint(key):
            continue
        path = before + (key if _PLAIN_KEY.fullmatch(key) else f'"{key}"')
        described = profiles.get(path)
        if described is None:
            if len(profiles) >= MOST_FIELDS:
                continue
            described = profiles[path] = FieldProfile(path)
        described.count += 1
        if isinstance(value, dict):
            described.is_nested = True
            if depth < 4:
                _add_fields(value, f"{path}.", profiles, depth + 1)
        elif isinstance(value, list):
            described.is_nested = True
        elif value in described.values or len(described.values) < MOST_VALUES:
            described.values[value] = described.values.get(value, 0) + 1
        else:
            described.is_capped = True


def time_options(described: FieldProfile) -> dict[str, str] | None:
    """Return the options of a mapping that read this field as a time; None if its values are no times."""
    if described.is_nested or not described.values:
        return None
    for unit, factor in _UNITS.items():
        low, high = (second * factor for second in _SECONDS)
        if described.share(lambda value, low=low, high=high: low <= as_number(value) < high) > 0.95:  # type: ignore[misc]
            return {"unit": unit}
    if described.share(_is_date) > 0.95:
        return {}
    some = [value for value in list(described.values)[:50] if isinstance(value, str)]
    return next(({"format": form} for form in FORMATS if some and all(_is_written(text, form) for text in some)), None)


def as_number(value: Any) -> float:
    """Return a number, also one in text; -1 for other values."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,20}(\.[0-9]{1,20})?", value):
        return float(value)
    return -1.0


def _is_written(text: str, form: str) -> bool:
    try:
        datetime.strptime(text, form)
    except ValueError:
        return False
    return True


def _is_date(value: Any) -> bool:
    try:
        return isinstance(value, str) and time_from_text(value, "ns") is not None
    except BadRecord:
        return False


def _fold(name: str) -> str:
    return re.sub(r"[^0-9a-z]", "", name.lower())
