"""Tables as text: values separated by commas (CSV) or tabs (TSV), as Python's ``csv`` reads them.

The first record names the columns. A quoted value may have line ends in it, so files are read from their beginning. An empty
value is no field. A quote that is never closed costs its own line only: reading goes on with the next line.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from ledto.sources.contract import SourceError
from ledto.sources.lines import BOM
from ledto.sources.records.contract import DecodedRecords, Options, RecordDecoder
from ledto.sources.records.lines import whole_lines

SEPARATORS: Final = (",", ";", "\t", "|")
_CUT_OFF = "unexpected end of data"


@dataclass(frozen=True, slots=True)
class Separated:
    """A table with a header. Without the option ``delimiter``, the header tells it; ``columns`` replaces the header."""

    name: str
    suffixes: tuple[str, ...]
    delimiter: str | None
    options: tuple[str, ...] = ("delimiter", "columns")
    values_are_text: bool = True

    def joins_lines(self, options: Options, head: bytes) -> bool:
        return True

    def sniff(self, head: bytes) -> dict[str, Any] | None:
        lines = whole_lines(head)
        delimiter = self.delimiter or _likely_delimiter(lines[:1])
        if not lines or (delimiter == "\t") != (self.delimiter == "\t"):
            return None
        rows: list[list[str]] = []
        try:
            texts = [f"{line.decode('utf-8')}\n" for line in lines]
            rows.extend(csv.reader(texts, delimiter=delimiter, strict=True))
        except UnicodeDecodeError:
            return None
        except csv.Error as error:
            # The lines looked at may end inside of a quoted value.
            if str(error) != _CUT_OFF:
                return None
        if not rows:
            return None
        width = len(rows[0])
        is_table = width > 1 and len({*rows[0]}) == width and all(_is_name(name) for name in rows[0])
        fitting = sum(len(row) == width for row in rows)
        return {"delimiter": delimiter} if is_table and 5 * fitting >= 4 * len(rows) else None

    def decoder(self, options: Options, head: bytes) -> RecordDecoder:
        delimiter = options.get("delimiter") or self.delimiter or _likely_delimiter(whole_lines(head)[:1])
        if not isinstance(delimiter, str) or len(delimiter) != 1 or delimiter in '"\r\n':
            raise SourceError(f"the delimiter of {self.name} is one character, not {delimiter!r}")
        columns = options.get("columns")
        return _TableDecoder(delimiter, None if columns is None else list(columns))


def column_names(form: Separated, options: Options, head: bytes) -> list[str]:
    """Return the names of the columns of a file that begins like this; none without a header."""
    decoder = form.decoder(options, head)
    assert isinstance(decoder, _TableDecoder)
    lines = head.removeprefix(BOM).split(b"\n")
    decoder.decode(lines, range(1, len(lines) + 1), is_last=True)
    return decoder.columns or []


CSV: Final = Separated("csv", (".csv",), None)
TSV: Final = Separated("tsv", (".tsv", ".tab"), "\t")


def _likely_delimiter(first: Sequence[bytes]) -> str:
    header = first[0].decode("utf-8", errors="replace") if first else ""
    return max(SEPARATORS, key=header.count)


def _is_name(text: str) -> bool:
    return bool(text.strip()) and text.isprintable() and not text.strip()[0].isdigit()


class _TableDecoder:
    """A decoder that knows the names of columns, and keeps the lines of a record that has not ended."""

    takes_blank_lines = True

    def __init__(self, delimiter: str, columns: list[str] | None) -> None:
        self._delimiter = delimiter
        self.columns = columns
        self._held: list[tuple[bytes, int]] = []

    def decode(self, lines: Sequence[bytes], places: Sequence[int], *, is_last: bool) -> DecodedRecords:
        if self._held:
            lines = [*(line for line, _ in self._held), *lines]
            places = [*(place for _, place in self._held), *places]
            self._held = []
        decoded = DecodedRecords()
        if not lines:
            return decoded
        texts = _texts(lines)
        if texts is not None:
            rows = self._read_plain(texts)
            if rows is not None:
                self._add(rows, lines, places, decoded)
                return decoded
        self._read_carefully(lines, places, decoded, is_last=is_last)
        return decoded

    def _read_plain(self, texts: list[str]) -> list[list[str]] | None:
        """Read lines that are one record each; None if some are not."""
        try:
            rows = list(csv.reader(texts, delimiter=self._delimiter, strict=True))
        except csv.Error:
            return None
        return rows if len(rows) == len(texts) else None

    def _read_carefully(
        self, lines: Sequence[bytes], places: Sequence[int], decoded: DecodedRecords, *, is_last: bool
    ) -> None:
        """Read record by record. A line that cannot be read becomes a bad record by itself."""
        start = 0
        while start < len(lines):
            decodable = start
            while decodable < len(lines) and _text(lines[decodable]) is not None:
                decodable += 1
            if decodable == start:
                decoded.add_bad("not-utf8: the line is not UTF-8", places[start], lines[start])
                start += 1
                continue
            texts = [f"{_text(line)}\n" for line in lines[start:decodable]]
            reader = csv.reader(texts, delimiter=self._delimiter, strict=True)
            done = 0
            try:
                for row in reader:
                    raw = b"\n".join(lines[start + done : start + reader.line_num])
                    self._add([row], [raw], [places[start + done]], decoded)
                    done = reader.line_num
                start = decodable
            except csv.Error as error:
                start += done
                if str(error) == _CUT_OFF and decodable == len(lines) and not is_last:
                    self._held = list(zip(lines[start:], places[start:], strict=True))
                    return
                decoded.add_bad(f"not-csv: {error}", places[start], lines[start])
                start += 1

    def _add(
        self, rows: list[list[str]], raws: Sequence[bytes], places: Sequence[int], decoded: DecodedRecords
    ) -> None:
        first = 0
        while self.columns is None and first < len(rows):
            if len(rows[first]) > 1:
                self.columns = _column_names(rows[first])
            elif raws[first].strip(b" \t\r"):
                decoded.add_bad("no-header: the header of a table has two columns or more", places[first], raws[first])
            first += 1
        columns, width = self.columns or [], len(self.columns or [])
        if first:
            rows, raws, places = rows[first:], raws[first:], places[first:]
        if {*map(len, rows)} == {width}:
            decoded.places += places
            decoded.raws += raws
            decoded.records += [
                dict(zip(columns, row, strict=True))
                if "" not in row
                else {name: value for name, value in zip(columns, row, strict=True) if value}
                for row in rows
            ]
            return
        for row, raw, place in zip(rows, raws, places, strict=True):
            if len(row) != width:
                if not raw.strip(b" \t\r"):
                    continue
                decoded.add_bad(f"bad-columns: {len(row)} values, and the header has {width}", place, raw)
            elif "" in row:
                decoded.add({name: value for name, value in zip(columns, row, strict=True) if value}, place, raw)
            else:
                decoded.add(dict(zip(columns, row, strict=True)), place, raw)


def _texts(lines: Sequence[bytes]) -> list[str] | None:
    try:
        return b"\n".join(lines).decode("utf-8").split("\n")
    except UnicodeDecodeError:
        return None


def _text(line: bytes) -> str | None:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _column_names(header: list[str]) -> list[str]:
    """Name the columns. Those without a name, or with one that another has, get names of their own."""
    names: list[str] = []
    taken: set[str] = set()
    for number, text in enumerate(header, start=1):
        name = text.strip() or f"column_{number}"
        while name in taken:
            name = f"{name}_{number}"
        names.append(name)
        taken.add(name)
    return names
