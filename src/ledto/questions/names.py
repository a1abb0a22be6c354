"""Find what a name in SQL means: a stored column, an attribute, or nothing; and suggest what may have been meant.

Names need no quotes if they are words, or words with dots, as in ``http.status_code``; reserved words such as ``order``
need none where an attribute has that name. A name with dots is an attribute of exactly that name, or else a member of an
object. ``attributes.error`` is always the attribute, also where ``error`` is a column, and in exactly that spelling.
Otherwise upper and lower case are the same; if attributes differ only in case, the name stands for the first that an event
has.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ledto.history.attribute_types import BOOLEAN, INTEGER, NUMBER, TEXT, merge_types, paths

MOST_LISTED = 60
"""The most names that an error lists."""
_WORD = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")
_TYPED = {
    INTEGER: "TRY_CAST({} AS BIGINT)",
    NUMBER: "TRY_CAST({} AS DOUBLE)",
    BOOLEAN: "TRY_CAST({} AS BOOLEAN)",
}
HOW_TO_QUOTE = (
    "texts are written in single quotes, as in name = 'order failed'; names with spaces or signs, and reserved words, in "
    'double quotes, as in "status code" = 500'
)


@dataclass(frozen=True, slots=True)
class Attribute:
    """An attribute of a history: where events have it, and its type, or None if that is not known."""

    name: str
    paths: tuple[tuple[str, ...], ...]
    """The first that an event has is its value. A path has several parts if it leads into an object."""
    type: str | None

    def text(self, json: str = "attributes") -> str:
        """Make DuckDB's expression of the value's text. Text is itself, other values as in JSON."""
        return self._first(f"json_extract_string({json}, {{}})")

    def typed(self, json: str = "attributes") -> str:
        """Make DuckDB's expression of the value, in the attribute's type."""
        return _TYPED.get(self.type or TEXT, "{}").format(self.text(json))

    def is_number(self, json: str = "attributes") -> str:
        """Make DuckDB's expression that tells whether the value is a number in JSON."""
        return f"{self._first(f'json_type({json}, {{}})')} IN ('BIGINT', 'UBIGINT', 'HUGEINT', 'DOUBLE')"

    def _first(self, expression: str) -> str:
        found = [expression.format(quote_text(_pointer(path))) for path in self.paths]
        return found[0] if len(found) == 1 else f"coalesce({', '.join(found)})"


class Names:
    """The columns and attributes that SQL may name. `attributes` is None if they are not known yet."""

    def __init__(self, columns: Mapping[str, str], attributes: Mapping[str, str] | None) -> None:
        self.columns = columns
        """The stored columns, with their types in the words of `ledto.history.attribute_types`."""
        self.attributes = attributes
        self._columns: dict[str, list[str]] = {}
        for name in columns:
            self._columns.setdefault(name.lower(), []).append(name)
        self._spellings: dict[str, list[str]] = {}
        for name in attributes or ():
            self._spellings.setdefault(name.lower(), []).append(name)

    def column(self, parts: list[str]) -> str | None:
        """Find the column of this name: exactly, or else the only one that differs in case."""
        name = ".".join(parts)
        if name in self.columns:
            return name
        spellings = self._columns.get(name.lower(), ())
        return spellings[0] if len(spellings) == 1 else None

    def attribute(self, parts: list[str]) -> Attribute | None:
        """Find the attribute of this name; None if it is not one. If attributes are not known, every name is."""
        exactly = len(parts) > 1 and parts[0].lower() == "attributes"
        parts = parts[1:] if exactly else parts
        name = ".".join(parts)
        if self.attributes is None:
            return Attribute(name, tuple(dict.fromkeys((*paths(name, None), tuple(parts)))), None)
        spellings = self._spellings.get(name.lower(), [])
        if exactly:
            spellings = [spelling for spelling in spellings if spelling == name]
        if spellings:
            return self._of_spellings(spellings)
        # Names with dots inside quotes, and places in arrays, are not among those that are known.
        if len(parts) > 1 and any("." in part or part.isdigit() for part in parts):
            for outer in self._spellings.get(parts[0].lower(), ()):
                return Attribute(name, ((outer, *parts[1:]),), TEXT)
        return None

    def attribute_columns(self) -> Iterator[Attribute]:
        """Yield the attributes that are columns of ``events``: all that have a name, and not that of another column."""
        for name, spellings in self._spellings.items():
            if name and name not in self._columns:
                yield self._of_spellings(spellings)

    def _of_spellings(self, spellings: list[str]) -> Attribute:
        known = self.attributes or {}
        places = dict.fromkeys(path for name in spellings for path in paths(name, known))
        (found,) = merge_types({"": known[name]} for name in spellings).values()
        return Attribute(spellings[0], tuple(places), found)

    def is_name(self, word: str) -> bool:
        """Tell whether a word is a name, or the beginning of one with dots."""
        lowered = word.lower()
        return lowered in self._spellings or any(name.startswith(f"{lowered}.") for name in self._spellings)

    def describe_unknown(self, parts: list[str]) -> str:
        """Say that there is no such name, which names are similar, and how to write texts and names."""
        from difflib import get_close_matches  # Few need it.

        name = ".".join(parts)
        known = sorted({*self.columns, *(self.attributes or ())})
        by_lowered = {candidate.lower(): candidate for candidate in known}
        similar = [quote_if_needed(by_lowered[match]) for match in get_close_matches(name.lower(), by_lowered)]
        meant = f" (did you mean {' or '.join(similar)}?)" if similar else ""
        listed = ", ".join(map(quote_if_needed, known[:MOST_LISTED]))
        more = f" and {len(known) - MOST_LISTED:,} more" if len(known) > MOST_LISTED else ""
        if not _WORD.fullmatch(name):
            # Without double quotes it would not have been taken for a name.
            return f"there is no column {name!r}{meant}; if it is a text, write it in single quotes: {quote_text(name)}"
        return f"there is no column {name!r}{meant}; there are {listed}{more}; {HOW_TO_QUOTE}"


def quote_name(name: str) -> str:
    """Write a name in double quotes."""
    return '"' + name.replace('"', '""') + '"'


def quote_if_needed(name: str) -> str:
    """Write a name in double quotes, unless it can be written without."""
    return name if _WORD.fullmatch(name) else quote_name(name)


def quote_text(text: str) -> str:
    """Write a text in single quotes."""
    return "'" + text.replace("'", "''") + "'"


def _pointer(path: tuple[str, ...]) -> str:
    return "".join("/" + part.replace("~", "~0").replace("/", "~1") for part in path)
