"""Define a record format: it finds records in lines, and never raises because of what they say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

Fields: TypeAlias = dict[str, Any]
"""A record: its fields by name. Values are text, or also numbers, lists and objects if the format has them."""

Options: TypeAlias = Mapping[str, Any]
"""The options of a format, by name."""


@dataclass(slots=True)
class DecodedRecords:
    """Records in the order of the file. All three lists have one element for each record."""

    records: list[Fields | None] = field(default_factory=list)
    """None for a record that cannot be read."""
    places: list[int] = field(default_factory=list)
    """The number of each record's first line."""
    raws: list[bytes] = field(default_factory=list)
    """The text of each record, all its lines."""
    problems: dict[int, str] = field(default_factory=dict)
    """What is wrong with the records that are None, by their number in the lists: a code, a colon, and what is wrong."""

    def add(self, record: Fields, place: int, raw: bytes) -> None:
        """Append a record."""
        self.records.append(record)
        self.places.append(place)
        self.raws.append(raw)

    def add_bad(self, problem: str, place: int, raw: bytes) -> None:
        """Append a record that cannot be read."""
        self.problems[len(self.records)] = problem
        self.records.append(None)
        self.places.append(place)
        self.raws.append(raw)


class RecordDecoder(Protocol):
    """A reader of the records of one file. It may keep what it has seen, as the header of a table."""

    @property
    def takes_blank_lines(self) -> bool:
        """Return whether blank lines mean something. Else they are left out."""
        ...

    def decode(self, lines: Sequence[bytes], places: Sequence[int], *, is_last: bool) -> DecodedRecords:
        r"""Decode the next lines of the file, which have no ``\n`` at their ends.

        `places` are their numbers. A record that is not complete yet is kept for the next call, unless `is_last`.
        """
        ...


class RecordFormat(Protocol):
    """A format of records."""

    @property
    def name(self) -> str:
        """Return the name, as in ``format = "csv"`` of a mapping."""
        ...

    @property
    def suffixes(self) -> tuple[str, ...]:
        """Return the ends of file names of this format, in lower case."""
        ...

    @property
    def options(self) -> tuple[str, ...]:
        """Return the names of its options."""
        ...

    @property
    def values_are_text(self) -> bool:
        """Return whether all values are text, some of which means numbers (`ledto.sources.records.typed_text`)."""
        ...

    def joins_lines(self, options: Options, head: bytes) -> bool:
        """Return whether records of a file that begins like this may have several lines. Such a file is never cut."""
        ...

    def sniff(self, head: bytes) -> dict[str, Any] | None:
        """Return options with which a file that begins like this can be read; None if it is not of this format."""
        ...

    def decoder(self, options: Options, head: bytes) -> RecordDecoder:
        """Make a decoder for a file that begins with these bytes. Raises `SourceError` for wrong options."""
        ...
