"""JSON documents of any size, read forward in bounded memory: a cursor to walk them, and a way on after damage.

A reader walks what holds its records (`Cursor.members`, `Cursor.elements`) and takes the records (`Cursor.take`) as
bytes, each with its place in the file. A file may hold several documents, one after another or one a line. Memory is a
block and the record at hand, which may have `LINE_LIMIT_BYTES`.

Where the structure is damaged, what came before is good, and the way on is a place where something surely begins: a line
that begins with a bracket, or what the reader says its records look like. Inside a JSON text every quote has a backslash
before it, so ``{"traceId":`` with bare quotes is never part of one.
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
from ledto.sources.lines import LINE_LIMIT_BYTES
from ledto.sources.rows import BadRecord, Row, bad_row

T = TypeVar("T")

BLOCK_BYTES: Final = 1 << 20
RUN_BYTES: Final = 1 << 18
"""Of objects that are parsed together: what they become should stay in the cache of a processor."""
NEAR_BYTES: Final = 1 << 19
"""How far a way on is looked for inside of a document."""

_BOM = b"\xef\xbb\xbf"
_SPACE = re.compile(rb"[ \t\r\n]*")
_STRAY = re.compile(rb"[ \t\r\n,\]}]*")
"""What stands between records of a document whose beginning was lost."""
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
    """One value as it stands in the file."""

    offset: int
    raw: bytes


class Damage(Exception):
    """The structure of a document is lost at `offset`; the next record is looked for from `search_from` on."""

    def __init__(self, code: str, detail: str, offset: int, search_from: int) -> None:
        super().__init__(f"{code}: at byte {offset}: {detail}")
        self.offset = offset
        self.search_from = search_from


def document_rows(piece: FileSlice, walk: Callable[[Cursor], Iterator[T]], marker: bytes) -> Iterator[T | Row]:
    """What `walk` gives for each document, and a row for each damage; `walk` consumes one value or more, or raises `Damage`.

    `marker` is an expression, at most `_LONGEST_MARKER_BYTES` long, for where a value begins that `walk` can take by itself.
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
    """A place in a file of JSON, which moves forward."""

    def __init__(self, piece: FileSlice, *, offset: int = 0, limit_bytes: int = LINE_LIMIT_BYTES) -> None:
        self.torn: str | None = None
        self._file = piece.file
        self._stream: ByteStream = piece.open_at(offset)
        self._limit_bytes = limit_bytes
        self._base = offset
        """Where in the file `_data` begins."""
        self._data = b""
        self._position = 0
        self._held: int | None = None
        self._ended = False
        self._amid = False
        self._rescanned_bytes = 0
        self._run_end = 0
        self._no_run_before = 0
        if not offset:
            self._fill()
            self._position = len(_BOM) if self._data.startswith(_BOM) else 0

    @property
    def offset(self) -> int:
        """Where in the file the cursor is."""
        return self._base + self._position

    def close(self) -> None:
        """Free what is held."""
        self._stream.close()

    def is_at_document(self) -> bool:
        """Go to the next document; False at the end of the file."""
        self._held = None
        self._skip(_STRAY if self._amid else _SPACE)
        return self._position < len(self._data)

    def peek(self) -> bytes:
        """The first byte of what comes next, spaces left out; empty at the end of the file."""
        self._skip(_SPACE)
        return self._data[self._position : self._position + 1]

    def follows(self, pattern: re.Pattern[bytes]) -> bool:
        """Whether what comes next in this block begins so; a few hundred bytes at most are looked at."""
        return pattern.match(self._data, self._position) is not None

    def take(self) -> DocumentValue:
        """The value that comes next. Raises `Damage` where its end cannot be found within the limit."""
        self.peek()
        end = self._whole_value_end()
        taken = DocumentValue(self.offset, self._data[self._position : end])
        self._position = end
        return taken

    def run(self, *, in_list: bool) -> DocumentValue | None:
        """The objects from here on that this block surely holds whole; None where that cannot be seen.

        They are those of a list, without its brackets, or documents, one after another. Where they end is a guess, from how
        the first one begins: the caller must parse them, and goes over them by `skip_run` if that works, and if not by
        `take`, one by one.
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
        # Should they not be what they seem to be, the next guess is made after them: the time stays linear.
        self._no_run_before = self._base + end
        self._run_end = end
        return DocumentValue(self.offset, data[start:end])

    def whole(self) -> DocumentValue | None:
        """The object that comes next, if this block holds it whole; `skip_run` goes over it."""
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
        """Go to the end of what `run` or `whole` gave."""
        self._position = self._run_end

    def elements(self) -> Iterator[None]:
        """Go to each element of the array that comes next; the caller takes or walks it."""
        self._enter(b"[")
        if self.peek() == b"]":
            self._position += 1
        else:
            yield from self.further_elements()

    def further_elements(self) -> Iterator[None]:
        """As `elements`, where the cursor is at an element already."""
        while True:
            yield
            if self._is_closed_by(b"]"):
                return

    def members(self, known: Collection[str]) -> Iterator[str]:
        """Go to the value of each of these keys of the object that comes next; the caller takes or walks it.

        Values of other keys must be right, and are left out. Raises `Damage` for a key that comes twice, and for more keys
        than anything that holds records has.
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
        """The value that comes next, parsed strictly. Raises `Damage` where it cannot be."""
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
        """What to raise where something else is expected than what comes next."""
        return self._damage("not-json", f"expected {expected}, found {self._shown()}")

    def hold(self) -> None:
        """Remember this place, to `rewind` to; after `LINE_LIMIT_BYTES` more, that is `Damage`."""
        self._held = self._position

    def release(self) -> None:
        """Forget the place that was remembered."""
        self._held = None

    def rewind(self) -> None:
        """Go back to the place that was remembered."""
        assert self._held is not None
        self._position, self._held = self._held, None

    def resume(self, damage: Damage, way_on: re.Pattern[bytes]) -> Row:
        """Go to where reading can go on, or to the end of the file; the row says what was damaged and where that is."""
        start, at = self._back_to(damage)
        head = self._data[start : start + _HEAD_BYTES]
        while (found := way_on.search(self._data, at)) is None and not self._ended:
            at = max(at, len(self._data) - _LONGEST_MARKER_BYTES)
            self._position = max(at - 1, 0)
            at += self._base
            self._fill()
            at -= self._base
        self._position = len(self._data) if found is None else found.start()
        self._amid = found is not None and found["marker"] is not None
        skipped_bytes = self.offset - damage.offset
        after = (
            f"; reading goes on at byte {self.offset}" if found else "; the rest is not read" if skipped_bytes else ""
        )
        return bad_row(self._file, damage.offset, f"{damage}{after}", head[:skipped_bytes])

    def resume_near(self, damage: Damage, way_on: re.Pattern[bytes]) -> Row | None:
        """As `resume`, if what `way_on` finds first in the next `NEAR_BYTES` is its group ``marker``; None if not."""
        start, at = self._back_to(damage)
        if not self._ended and len(self._data) - at < NEAR_BYTES:
            self._fill()
            start, at = damage.offset - self._base, damage.search_from - self._base
        self._position = start
        found = way_on.search(self._data, at, at + NEAR_BYTES)
        if found is None or found["marker"] is None:
            return None
        self._position = found.start()
        skipped = self._data[start : min(self._position, start + _HEAD_BYTES)]
        return bad_row(self._file, damage.offset, f"{damage}; reading goes on at byte {self.offset}", skipped)

    def _back_to(self, damage: Damage) -> tuple[int, int]:
        """Where in `_data` the damage and the search for a way on begin; what a row shows of it is there."""
        self._held = None
        # One byte more is kept than is skipped: a way on may be the beginning of a line.
        self._position = max(damage.offset - self._base - 1, 0)
        if not self._ended and len(self._data) - self._position <= _HEAD_BYTES:
            self._fill()
        return damage.offset - self._base, damage.search_from - self._base

    def _enter(self, bracket: bytes) -> None:
        if self.peek() != bracket:
            raise self.unexpected(repr(bracket.decode()))
        self._position += 1

    def _is_closed_by(self, bracket: bytes) -> bool:
        """Go over the comma or the closing bracket that follows a value."""
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
        """Damage at this place.

        The next record may begin right after it, in what was scanned already. If that happens too often, as only in a
        file made for it, the search begins after what was scanned: the time stays linear.
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
            found = spaces.match(self._data, self._position)
            assert found is not None
            self._position = found.end()
            if self._position < len(self._data) or self._ended:
                return
            self._fill()

    def _fill(self) -> None:
        """Have as many bytes again as are left, at least a block; how few a read gives makes no difference."""
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
