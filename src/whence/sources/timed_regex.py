"""Regular expressions of mappings: Python's, run by the package ``regex``, which can be stopped where they take too long.

It finds the same, but for characters beyond ASCII of which Unicode and Python say different things: for Unicode, whose word
this takes, an accent that follows its letter is a part of a word, and a superscript digit is not.
"""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass, field
from typing import Any, Final

import regex  # type: ignore[import-untyped]

from whence.sources import javascript_regex
from whence.sources.contract import SourceError
from whence.sources.javascript_regex import only_as_in_re
from whence.sources.rows import BadRecord

MOST_SLOW_TEXTS: Final = 5
"""Texts that may take too long, and whose records are set aside; after that many the expression is refused."""


@dataclass(frozen=True, slots=True)
class TimedPattern:
    """An expression that is looked for in the text of one record at a time. Make it with `compile_timed`."""

    pattern: str
    groups: int
    _compiled: Any
    _slow: dict[str, None] = field(default_factory=dict, compare=False)
    """Texts that took too long: they are not tried again."""

    def taken(self, text: str) -> str | None:
        """What the first group matches, or all that is matched; None if nothing is.

        Raises `BadRecord` for a text that takes too long, and `SourceError` if too many do.
        """
        found = self._search(text)
        return None if found is None else found[1 if self.groups else 0]

    def occurs_in(self, text: str) -> bool:
        """Whether it matches anywhere; raises as `taken` does."""
        return self._search(text) is not None

    def _search(self, text: str) -> re.Match[str] | None:
        limit = javascript_regex.LINE_SECONDS
        try:
            if text not in self._slow:
                found: re.Match[str] | None = self._compiled.search(text, timeout=limit)
                return found
        except TimeoutError:
            self._slow[text] = None
        if len(self._slow) >= MOST_SLOW_TEXTS:
            raise SourceError(
                f"the expression {self.pattern!r:.200} of the mapping takes more than {limit:g} s for a text, the "
                f"{MOST_SLOW_TEXTS}th time for {text!r:.60}: write it without a repetition within a repetition"
            )
        raise BadRecord("too-slow", f"looking for {self.pattern!r:.200} takes more than {limit:g} s")


def compile_timed(expression: str) -> TimedPattern:
    """The expression, which must be one of Python's ``re``; raises `ValueError`."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            groups = re.compile(expression).groups
            return TimedPattern(expression, groups, regex.compile(only_as_in_re(expression), regex.VERSION0))
    except (re.error, regex.error, OverflowError, RecursionError) as error:
        raise ValueError(str(error)) from None
