"""Read text of any length through a window, for expressions that match several lines."""

from __future__ import annotations

import codecs
from typing import Final

from ledto.sources.contract import FileSlice, TornStream

WINDOW_CHARACTERS: Final = 1 << 22
"""How much text is searched at once. A match is found whole if it is no longer than a quarter of it."""

_READ_BYTES = 4 << 20


class TextWindow:
    r"""The file's text from `position` on. Line ends are ``\n``; bytes that are not UTF-8 are lone surrogates.

    Memory holds the window and one read, whatever the file's size. What an expression sees from a position depends only on
    the text, never on how it was read.
    """

    def __init__(
        self, piece: FileSlice, *, window_characters: int = WINDOW_CHARACTERS, read_bytes: int = _READ_BYTES
    ) -> None:
        self.width = window_characters
        self._read_bytes = read_bytes
        self._stream = piece.open_at(0)
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")("surrogateescape")
        self._holds_return = False
        self._ended = False
        self.torn: str | None = None
        """Why the text ends before the file does; None if it does not."""
        self.text = ""
        self.base = 0
        """The number of characters of the file before `text`."""
        self.position = 0
        self.line = 1
        self._fill()

    def close(self) -> None:
        """Close the file."""
        self._stream.close()

    @property
    def at_end(self) -> bool:
        """Return whether there is no more text."""
        return self.position >= len(self.text)

    def is_last(self, index: int) -> bool:
        """Return whether the file has no text from this index on."""
        return self._ended and index >= len(self.text)

    def limit(self, start: int, *, windows: int = 1) -> int:
        """Return the end of the window that begins at `start`: after a line end, unless the last line is longer than half.

        `text` always has two windows after the position, unless the file ends.
        """
        end = start + windows * self.width
        if self._ended and end >= len(self.text):
            return len(self.text)
        return self.line_start(end, least=(start + end) // 2)

    def line_start(self, index: int, *, least: int) -> int:
        """Return the last index from `least` to `index` at which a line begins; `index` if none does."""
        return self.text.rfind("\n", least - 1, index) + 1 or index

    def advance(self, to: int) -> None:
        """Move to a later position. Earlier indices into `text` become invalid."""
        self.line += self.text.count("\n", self.position, to)
        self.position = to
        if len(self.text) - to < 2 * self.width:
            self._fill()

    def take_line(self) -> str:
        """Move to the next line; return the rest of this one, cut to the length of the window."""
        line: str | None = None
        while True:
            end = self.text.find("\n", self.position, self.position + self.width)
            stop = min(self.position + self.width, len(self.text)) if end < 0 else end
            if line is None:
                line = self.text[self.position : stop]
            self.advance(stop if end < 0 else end + 1)
            if end >= 0 or self.at_end:
                return line

    def _fill(self) -> None:
        if self._ended:
            return
        parts = [self.text[self.position :]]
        self.base += self.position
        self.position = 0
        length = len(parts[0])
        while length < 2 * self.width and not self._ended:
            data = self._read()
            self._ended = not data
            parts.append(self._replace_line_ends(self._decoder.decode(data, final=self._ended)))
            length += len(parts[-1])
        self.text = "".join(parts)

    def _read(self) -> bytes:
        try:
            return self._stream.read(self._read_bytes)
        except TornStream as error:
            self.torn = str(error)
            return b""

    def _replace_line_ends(self, text: str) -> str:
        r"""Replace ``\r\n`` by ``\n``. Hold a final ``\r`` until the next read."""
        if self._holds_return:
            text = "\r" + text
        self._holds_return = text.endswith("\r") and not self._ended
        if self._holds_return:
            text = text[:-1]
        return text.replace("\r\n", "\n")
