"""Read JSON documents of any size forward, in bounded memory, with a cursor that can go on after damage.

A reader walks the objects and arrays around its records (`Cursor.members`, `Cursor.elements`), and takes the records
(`Cursor.take`) as bytes, each with its place in the file. A file may hold several documents, one after another or one on
each line. Memory holds a block and the current record, which may have `LINE_LIMIT_BYTES`.

After damage, the cursor goes on where a value surely begins: at a line that begins with a bracket, or at the reader's
marker of a record. Inside a JSON text every quote has a backslash before it, so ``{"traceId":`` with plain quotes is never
part of a text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Final, TypeVar

from ledto.sources.contract import ByteStream, FileSlice, TornStream
from ledto.sources.json.extent import Unfinished, Unfit, quick_end, shown, value_end
from ledto.sources.json.strict import value_of
from ledto.sources.lines import BOM, LINE_LIMIT_BYTES
from ledto.sources.rows import BadRecord, Row, bad_row

T = TypeVar("T")

BLOCK_BYTES: Final = 1 << 20
RUN_BYTES: Final = 1 << 18
"""The size of objects that are parsed together: the result should fit into a processor's cache."""
NEAR_BYTES: Final = 1 << 19
"""How far `Cursor.resume_near` searches."""

_SPACE = re.compile(rb"[ \t\r\n]*")
_STRAY = re.compile(rb"[ \t\r\n,\]}]*")
"""What separates records of a document whose beginning was lost."""
_OBJECT_BEGINS = re.compile(rb'\{[ \t\r\n]{0,100}"[^"\\]{1,100}"[ \t\r\n]{0,100}:')
_NEXT_LIST = re.compile(rb"\][ \t\r\n]*,[ \t\r\n]*\[")
_MOST_KEYS = 10_000
_SHOWN = 60
_HEAD_BYTES = 8 << 10
_LONGEST_MARKER_BYTES = 1 << 10
_RESCANNED_AT_FIRST_BYTES = 64 << 20
_RESCANNED_A_BYTE = 4


@dataclass(frozen=True, slots=True)
class DocumentValue:
    """One value: its bytes, and where they begin in the file."""

    offset: int
    raw: bytes


class Damage(Exception):
    """The structure of a document is lost at `offset`. Search for the next record from `search_from` on."""

    def __init__(self, code: str, detail: str, offset: int, search_from: int) -> None:
        super().__init__(f"{code}: at byte {offset}: {detail}")
        self.offset = offset
        self.search_from = search_from


def document_rows(piece: FileSlice, walk: Callable[[Cursor], Iterator[T]], marker: bytes) -> Iterator[T | Row]:
    """Yield what `walk` yields for each document, and a row for each damage.

    `walk` must consume at least one value or raise `Damage`. `marker` is an expression for the beginning of a value that
    `walk` can read by itself. It must match `_LONGEST_MARKER_BYTES` at most.
    """
    way_on = re.compile(rb"(?P<marker>" + marker + rb")|(?<=\n)[\[{]")
    with closing(Cursor(piece)) as cursor:
        while cursor.is_at_document():
            try:
                yield from walk(cursor)
            except Damage as damage:
                yield cursor.resume(damage, way_on)
        if cursor.torn is not None:
            yield bad_row(piece.file, cursor.offset, f"torn-file: nothing can be read from here on: {cursor.torn}", b"")


class Cursor:
    """A position in a file of JSON, which moves forward. Not safe for threads."""

    def __init__(self, piece: FileSlice, *, offset: int = 0, limit_bytes: int = LINE_LIMIT_BYTES) -> None:
        self.torn: str | None = None
        self._file = piece.file
        self._stream: ByteStream = piece.open_at(offset)
        self._limit_bytes = limit_bytes
        self._base = offset
        """The offset in the file at which `_data` begins. `_position` and `_held` are relative to it."""
        self._data = b""
        self._position = 0
        self._held: int | None = None
        """The position to `rewind` to."""
        self._ended = False
        """Whether the stream has no bytes after `_data`."""
        self._amid = False
        """Whether reading resumed in the middle of a document."""
        self._rescanned_bytes = 0
        self._run_end = 0
        self._no_run_before = 0
        """The offset before which `run` and `whole` do not guess again."""
        if not offset:
            self._fill()
            self._position = len(BOM) if self._data.startswith(BOM) else 0

    @property
    def offset(self) -> int:
        """Return the position in the file."""
        return self._base + self._position

    def close(self) -> None:
        """Close the file."""
        self._stream.close()

    def is_at_document(self) -> bool:
        """Go to the next document; False at the end of the file."""
        self._held = None
        self._skip(_STRAY if self._amid else _SPACE)
        return self._position < len(self._data)

    def peek(self) -> bytes:
        """Skip spaces, and return the next byte without consuming it; empty at the end of the file."""
        self._skip(_SPACE)
        return self._data[self._position : self._position + 1]

    def follows(self, pattern: re.Pattern[bytes]) -> bool:
        """Return whether the pattern matches here. It only sees this block: use it for a few hundred bytes at most."""
        return pattern.match(self._data, self._position) is not None

    def take(self) -> DocumentValue:
        """Consume the next value and return it unparsed. Raises `Damage` if its end cannot be found within the limit."""
        self.peek()
        end = self._whole_value_end()
        value = DocumentValue(self.offset, self._data[self._position : end])
        self._position = end
        return value

    def run(self, *, in_list: bool) -> DocumentValue | None:
        """Return the next objects that this block seems to hold whole, without consuming them; None if unclear.

        They are elements of a list, without its brackets, or documents, one after another. Their end is a guess, from how
        the first one begins. So the caller must parse them: if that works, it calls `skip_run`, else `take` for each.
        """
        data, start = self._data, self._position
        begins = _OBJECT_BEGINS.match(data, start)
        if begins is None or self.offset < self._no_run_before:
            return None
        next_list = _NEXT_LIST.search(data, start, start + RUN_BYTES) if in_list else None
        if next_list is not None:
            end = next_list.start()
        else:
            end = data.rfind(begins[0], start + 1, start + RUN_BYTES)
            if end < 0:
                return None
            while data[end - 1] in b" \t\r\n":
                end -= 1
            if in_list:
                end -= 1
                if data[end : end + 1] != b",":
                    return None
        # If the guess is wrong, the next one is made after these objects, so that the time stays linear.
        self._no_run_before = self._base + end
        self._run_end = end
        return DocumentValue(self.offset, data[start:end])

    def whole(self) -> DocumentValue | None:
        """Return the next object if this block holds it whole, without consuming it: `skip_run` does. None if not."""
        if len(self._data) - self._position < BLOCK_BYTES // 2 and not self._ended:
            self._fill()
        if self.offset < self._no_run_before:
            return None
        try:
            end = quick_end(self._data, self._position)
        except Unfinished:
            return None
        if end is None:
            return None
        self._no_run_before = self._base + end
        self._run_end = end
        return DocumentValue(self.offset, self._data[self._position : end])

    def skip_run(self) -> None:
        """Consume what `run` or `whole` returned."""
        self._position = self._run_end

    def elements(self) -> Iterator[None]:
        """Go to each element of the next array. The caller must consume each."""
        self._enter(b"[")
        if self.peek() == b"]":
            self._position += 1
        else:
            yield from self.further_elements()

    def further_elements(self) -> Iterator[None]:
        """Go on as `elements` does, from an element at the cursor."""
        while True:
            yield
            if self._is_closed_by(b"]"):
                return

    def members(self, known: Collection[str]) -> Iterator[str]:
        """Go to the value of each of these keys in the next object. The caller must consume each.

        Values of other keys must be valid JSON, and are skipped. Raises `Damage` for a key that occurs twice, and for too
        many keys.
        """
        self._enter(b"{")
        seen: set[str] = set()
        if self.peek() == b"}":
            self._position += 1
            return
        while True:
            key = self._key()
            if key in seen:
                raise self._damage("duplicate-key", f"{key[:_SHOWN]!r} is given twice")
            seen.add(key)
            if len(seen) > _MOST_KEYS:
                raise self._damage("too-many-keys", f"more than {_MOST_KEYS} keys where records are expected")
            if key in known:
                yield key
            else:
                self.take_checked()
            if self._is_closed_by(b"}"):
                return

    def take_checked(self) -> object:
        """Consume the next value and return it, parsed strictly. Raises `Damage` if it cannot be parsed."""
        self.peek()
        end = self._whole_value_end()
        raw = self._data[self._position : end]
        try:
            value: object = value_of(raw.decode("utf-8"))
        except UnicodeDecodeError as error:
            raise self._damage("not-utf8", f"byte {error.start} of the value: {error.reason}") from None
        except BadRecord as error:
            raise self._damage(error.code, error.detail) from None
        self._position = end
        return value

    def unexpected(self, expected: str) -> Damage:
        """Make the `Damage` to raise if something else is expected here."""
        return self._damage("not-json", f"expected {expected}, found {self._shown()}")

    def hold(self) -> None:
        """Remember this position for `rewind`. To read more than `LINE_LIMIT_BYTES` from here raises `Damage`."""
        self._held = self._position

    def release(self) -> None:
        """Forget the position that `hold` remembered."""
        self._held = None

    def rewind(self) -> None:
        """Go back to the position that `hold` remembered."""
        assert self._held is not None
        self._position, self._held = self._held, None

    def resume(self, damage: Damage, way_on: re.Pattern[bytes]) -> Row:
        """Go to the next match of `way_on`, or to the end of the file. Return a row that says what was damaged and where."""
        start, at = self._back_to(damage)
        head = self._data[start : start + _HEAD_BYTES]
        while (match := way_on.search(self._data, at)) is None and not self._ended:
            at = max(at, len(self._data) - _LONGEST_MARKER_BYTES)
            self._position = max(at - 1, 0)
            at += self._base
            self._fill()
            at -= self._base
        self._position = len(self._data) if match is None else match.start()
        self._amid = match is not None and match["marker"] is not None
        skipped_bytes = self.offset - damage.offset
        after = (
            f"; reading goes on at byte {self.offset}" if match else "; the rest is not read" if skipped_bytes else ""
        )
        return bad_row(self._file, damage.offset, f"{damage}{after}", head[:skipped_bytes])

    def resume_near(self, damage: Damage, way_on: re.Pattern[bytes]) -> Row | None:
        """Resume at the first match of `way_on` in the next `NEAR_BYTES` if it is its group ``marker``; None if not."""
        start, at = self._back_to(damage)
        if not self._ended and len(self._data) - at < NEAR_BYTES:
            self._fill()
            start, at = damage.offset - self._base, damage.search_from - self._base
        self._position = start
        match = way_on.search(self._data, at, at + NEAR_BYTES)
        if match is None or match["marker"] is None:
            return None
        self._position = match.start()
        skipped = self._data[start : min(self._position, start + _HEAD_BYTES)]
        return bad_row(self._file, damage.offset, f"{damage}; reading goes on at byte {self.offset}", skipped)

    def _back_to(self, damage: Damage) -> tuple[int, int]:
        """Go back to the damage; return where it and the search begin in `_data`, which holds what the row shows."""
        self._held = None
        # Keep one byte before it: the search looks for line ends before the match.
        self._position = max(damage.offset - self._base - 1, 0)
        if not self._ended and len(self._data) - self._position <= _HEAD_BYTES:
            self._fill()
        return damage.offset - self._base, damage.search_from - self._base

    def _enter(self, bracket: bytes) -> None:
        if self.peek() != bracket:
            raise self.unexpected(repr(bracket.decode()))
        self._position += 1

    def _is_closed_by(self, bracket: bytes) -> bool:
        """Consume the comma or closing bracket after a value; return whether it was the bracket."""
        following = self.peek()
        if following not in (b",", bracket):
            offset = self.offset
            detail = f"expected ',' or {bracket.decode()!r}, found {self._shown()}"
            raise Damage("not-json", detail, offset, search_from=offset)
        self._position += 1
        return following == bracket

    def _key(self) -> str:
        if self.peek() != b'"':
            raise self.unexpected("a key in double quotes")
        key = str(self.take_checked())
        if self.peek() != b":":
            raise self.unexpected("':'")
        self._position += 1
        return key

    def _whole_value_end(self) -> int:
        try:
            while (end := value_end(self._data, self._position, is_all=self._ended)) is None:
                size_bytes = len(self._data) - self._position
                if size_bytes > self._limit_bytes:
                    break
                if self._ended:
                    raise self._damage("not-json", "the text ends inside of what begins here", scanned_bytes=size_bytes)
                self._fill()
        except Unfit as error:
            scanned_bytes = error.position - self._position
            where = "" if not scanned_bytes else f", at byte {self._base + error.position}"
            raise self._damage(error.code, f"{error.detail}{where}", scanned_bytes=scanned_bytes) from None
        if end is None or end - self._position > self._limit_bytes:
            detail = f"more than {self._limit_bytes} bytes"
            raise self._damage("record-too-long", detail, scanned_bytes=self._limit_bytes)
        return end

    def _damage(self, code: str, detail: str, *, scanned_bytes: int = 0) -> Damage:
        """Make the `Damage` for this position.

        The next record may begin right after it, in bytes that were scanned already. If many bytes are scanned again, as
        only in a file made for that, the search begins after them, so that the time stays linear.
        """
        self._rescanned_bytes += scanned_bytes
        may_rescan = self._rescanned_bytes <= _RESCANNED_AT_FIRST_BYTES + _RESCANNED_A_BYTE * self.offset
        after = 1 if may_rescan else max(scanned_bytes, 1)
        return Damage(code, detail, self.offset, search_from=self.offset + after)

    def _shown(self) -> str:
        if not self._ended and len(self._data) - self._position < _LONGEST_MARKER_BYTES:
            self._fill()
        return shown(self._data, self._position)

    def _skip(self, spaces: re.Pattern[bytes]) -> None:
        while True:
            match = spaces.match(self._data, self._position)
            assert match is not None
            self._position = match.end()
            if self._position < len(self._data) or self._ended:
                return
            self._fill()

    def _fill(self) -> None:
        """Read as many bytes again as are in memory, at least a block; call the stream until it returned so many."""
        keep = self._position if self._held is None else self._held
        if self._position - keep > self._limit_bytes:
            self._held = None
            raise self._damage("record-too-long", f"more than {self._limit_bytes} bytes", scanned_bytes=0)
        parts = [self._data[keep:]]
        wanted = max(BLOCK_BYTES, len(parts[0]))
        while wanted > 0:
            try:
                part = self._stream.read(wanted)
            except TornStream as error:
                part, self.torn = b"", str(error)
            if not part:
                self._ended = True
                break
            parts.append(part)
            wanted -= len(part)
        self._data = b"".join(parts)
        self._base += keep
        self._position -= keep
        self._held = None if self._held is None else 0
