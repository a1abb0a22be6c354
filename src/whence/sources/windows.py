"""Text of any length, seen through a window: for expressions that match several lines."""

from __future__ import annotations

import codecs
from typing import Final

from whence.sources.contract import Piece, TornStream

WINDOW_CHARACTERS: Final = 1 << 22
"""How far is looked at once. What matches is found whole if it is no longer than a quarter of it."""

_READ_BYTES = 4 << 20


class Window:
    r"""The file's text from `position` on; line ends are ``\n``, bytes that are not UTF-8 are lone surrogates.

    Memory is the window and one read, whatever the file's size. What an expression sees from a position depends on the
    text alone, never on how it was read.
    """

    def __init__(
        self, piece: Piece, *, window_characters: int = WINDOW_CHARACTERS, read_bytes: int = _READ_BYTES
    ) -> None:
        self.width = window_characters
        self._read_bytes = read_bytes
        self._stream = piece.open_at(0)
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")("surrogateescape")
        self._return_held = False
        self._ended = False
        self.torn: str | None = None
        """Why the text ends before the file does, if so."""
        self.text = ""
        self.base = 0
        """How many characters of the file come before `text`."""
        self.position = 0
        self.line = 1
        self._fill()

    def close(self) -> None:
        """Close the file."""
        self._stream.close()

    @property
    def at_end(self) -> bool:
        """Whether there is no more text."""
        return self.position >= len(self.text)

    def is_last(self, index: int) -> bool:
        """Whether the file has no text from this index on."""
        return self._ended and index >= len(self.text)

    def limit(self, start: int, *, windows: int = 1) -> int:
        """Where the window that begins at `start` ends: after a line end, unless its last line is longer than half of it.

        There is text for two `windows` after the position, unless the file ends.
        """
        end = start + windows * self.width
        if self._ended and end >= len(self.text):
            return len(self.text)
        return self.line_start(end, least=(start + end) // 2)

    def line_start(self, index: int, *, least: int) -> int:
        """The last place from `least` to `index` at which a line begins; `index` where none does."""
        return self.text.rfind("\n", least - 1, index) + 1 or index

    def advance(self, to: int) -> None:
        """Go on to a later position; indices into `text` from before are void."""
        self.line += self.text.count("\n", self.position, to)
        self.position = to
        if len(self.text) - to < 2 * self.width:
            self._fill()

    def take_line(self) -> str:
        """Go on to the next line; gives the rest of this one, cut where it is longer than the window."""
        taken: str | None = None
        while True:
            end = self.text.find("\n", self.position, self.position + self.width)
            stop = min(self.position + self.width, len(self.text)) if end < 0 else end
            if taken is None:
                taken = self.text[self.position : stop]
            self.advance(stop if end < 0 else end + 1)
            if end >= 0 or self.at_end:
                return taken

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
            parts.append(self._unix_line_ends(self._decoder.decode(data, final=self._ended)))
            length += len(parts[-1])
        self.text = "".join(parts)

    def _read(self) -> bytes:
        try:
            return self._stream.read(self._read_bytes)
        except TornStream as error:
            self.torn = str(error)
            return b""

    def _unix_line_ends(self, text: str) -> str:
        if self._return_held:
            text = "\r" + text
        self._return_held = text.endswith("\r") and not self._ended
        if self._return_held:
            text = text[:-1]
        return text.replace("\r\n", "\n")
