"""Search with the regular expressions of mappings. They are Python's, run by the package ``regex``, which has timeouts.

It finds the same as ``re``, except for some characters beyond ASCII, where it follows Unicode: an accent after its letter
is a part of a word, and a superscript digit is not.
"""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass, field
from typing import Any, Final

from ledto.sources.contract import SourceError
from ledto.sources.regex import javascript
from ledto.sources.regex.javascript import escape_for_regex, load_regex
from ledto.sources.rows import BadRecord

MOST_SLOW_TEXTS: Final = 5
"""How many texts may take too long. Their records become bad rows; the last raises `SourceError`."""


@dataclass(frozen=True, slots=True)
class TimedPattern:
    """An expression to search in the text of one record at a time. Made by `compile_timed`."""

    pattern: str
    groups: int
    _compiled: Any
    _slow: dict[str, None] = field(default_factory=dict, compare=False)
    """Texts that took too long. They are not tried again."""

    def extract(self, text: str) -> str | None:
        """Return what the first group matches, or the whole match if there are no groups; None if there is no match.

        Raises `BadRecord` for a text that takes too long, and `SourceError` after too many.
        """
        match = self._search(text)
        return None if match is None else match[1 if self.groups else 0]

    def occurs_in(self, text: str) -> bool:
        """Return whether it matches anywhere. Raises as `extract` does."""
        return self._search(text) is not None

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of its groups."""
        return tuple(self._compiled.groupindex)

    def named_groups(self, text: str) -> dict[str, str] | None:
        """Return what the named groups match in the whole text; None if it does not match. Raises as `extract` does."""
        match = self._search(text, whole=True)
        return None if match is None else {name: part for name, part in match.groupdict().items() if part is not None}

    def _search(self, text: str, *, whole: bool = False) -> re.Match[str] | None:
        limit = javascript.LINE_SECONDS
        try:
            if text not in self._slow:
                search = self._compiled.fullmatch if whole else self._compiled.search
                match: re.Match[str] | None = search(text, timeout=limit)
                return match
        except TimeoutError:
            self._slow[text] = None
        if len(self._slow) >= MOST_SLOW_TEXTS:
            raise SourceError(
                f"the expression {self.pattern!r:.200} of the mapping takes more than {limit:g} s for a text, the "
                f"{MOST_SLOW_TEXTS}th time for {text!r:.60}: write it without a repetition within a repetition"
            )
        raise BadRecord("too-slow", f"looking for {self.pattern!r:.200} takes more than {limit:g} s")


def compile_timed(expression: str) -> TimedPattern:
    """Compile an expression of Python's ``re``. Raises `ValueError` if it is malformed."""
    regex = load_regex()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            groups = re.compile(expression).groups
            return TimedPattern(expression, groups, regex.compile(escape_for_regex(expression), regex.VERSION0))
    except (re.error, regex.error, OverflowError, RecursionError) as error:
        raise ValueError(str(error)) from None
