"""Read a piece of a file in blocks of whole lines. A piece owns the lines that begin in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Final

from ledto.sources.contract import ByteStream, FileSlice, TornStream

LINE_LIMIT_BYTES: Final = 16 << 20
"""The length of a line at most. Longer ones become a bad row, and are never in memory as a whole."""

BOM: Final = b"\xef\xbb\xbf"
"""The byte order mark of UTF-8, which a file may begin with."""

TOO_LONG: Final = f"line-too-long: more than {LINE_LIMIT_BYTES} bytes"

BLOCK_BYTES: Final = 4 << 20
_HEAD_BYTES = 8 << 10


@dataclass(frozen=True, slots=True)
class LinesBlock:
    """Whole lines, the last one perhaps without its line end; or, with a `problem`, the text of one bad row."""

    offset: int
    """Where the first line begins in the file."""
    first_line: int
    data: bytes
    problem: str | None = None


def blocks(
    piece: FileSlice, *, block_bytes: int = BLOCK_BYTES, line_limit_bytes: int = LINE_LIMIT_BYTES
) -> Iterator[LinesBlock]:
    """Yield the lines that begin in the piece, in order. Memory holds a block and the line at its end."""
    with closing(_LineReader(piece, block_bytes)) as reader:
        yield from reader.blocks(line_limit_bytes)


class _LineReader:
    def __init__(self, piece: FileSlice, block_bytes: int) -> None:
        # Start one byte early: only the byte before the piece says whether a line begins at its start.
        self._offset = max(piece.start - 1, 0)
        self._stream: ByteStream = piece.open_at(self._offset)
        self._piece = piece
        self._block_bytes = block_bytes
        self._line = piece.lines_before + 1
        self._held = b""
        self._torn: str | None = None

    def close(self) -> None:
        self._stream.close()

    def blocks(self, line_limit_bytes: int) -> Iterator[LinesBlock]:
        yield from self._good_blocks(line_limit_bytes)
        if self._torn is not None:
            yield LinesBlock(
                self._offset, self._line, b"", f"torn-file: nothing can be read from here on: {self._torn}"
            )

    def _read(self) -> bytes:
        try:
            return self._stream.read(self._block_bytes)
        except TornStream as error:
            self._torn = str(error)
            return b""

    def _good_blocks(self, line_limit_bytes: int) -> Iterator[LinesBlock]:
        if self._piece.start and not self._skip_to_first_line():
            return
        stop = self._piece.stop
        while stop is None or self._offset < stop:
            data = self._read()
            held = self._held + data
            cut = held.rfind(b"\n") + 1 if data else len(held)
            is_last = not data
            if stop is not None:
                end_of_piece = held.find(b"\n", max(stop - 1 - self._offset, 0)) + 1
                if end_of_piece:
                    cut, is_last = end_of_piece, True
            if cut:
                yield self._take(held, cut)
            else:
                self._held = held
                if len(held) > line_limit_bytes:
                    yield self._take_head()
            if is_last:
                return

    def _take(self, held: bytes, cut: int) -> LinesBlock:
        """Return the first `cut` bytes, which are whole lines, and hold the rest."""
        block = LinesBlock(self._offset, self._line, held[:cut])
        self._held = held[cut:]
        self._offset += cut
        self._line += block.data.count(b"\n")
        return block

    def _take_head(self) -> LinesBlock:
        """Return the beginning of the held line, which is too long, and skip to the next line."""
        block = LinesBlock(self._offset, self._line, self._held[:_HEAD_BYTES], TOO_LONG)
        data = self._held
        while data:
            self._offset += len(data)
            data = self._read()
            end = data.find(b"\n") + 1
            if end:
                self._offset += end
                self._line += 1
                self._held = data[end:]
                return block
        self._held = b""
        return block

    def _skip_to_first_line(self) -> bool:
        """Skip the rest of the line that the piece before owns; False if the file ends first."""
        while data := self._read():
            end = data.find(b"\n") + 1
            if end:
                self._offset += end
                self._line += self._offset > self._piece.start
                self._held = data[end:]
                return True
            self._offset += len(data)
        return False


def count_line_ends(piece: FileSlice) -> int:
    """Count the line ends between the piece's start and stop."""
    count, position = 0, piece.start
    with closing(piece.open_at(piece.start)) as stream:
        while piece.stop is None or position < piece.stop:
            size = BLOCK_BYTES if piece.stop is None else min(BLOCK_BYTES, piece.stop - position)
            data = stream.read(size)
            if not data:
                break
            count += data.count(b"\n")
            position += len(data)
    return count
