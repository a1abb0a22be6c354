"""Regular expressions as ShiViz users write them: JavaScript's, with its flags ``gm``, or Python's.

Some expressions take exponential time on some text, as ``(a|a)*$`` does. Python's ``re`` cannot be stopped, so what users
give is run by the package ``regex``, which can, and which finds the same for what ``re`` takes. `Expression.search` gives
up in time and raises `TooSlow`.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic
from typing import Any, Final

import regex  # type: ignore[import-untyped]

from whence.sources.contract import SourceError

LINE_SECONDS: Final = 1.0
"""How long is looked for an event that begins in one line."""
CHARACTER_SECONDS: Final = 1e-6
"""How much longer for each character of the text that is looked through at once."""
_LEAST_SECONDS = 1e-3

_ESCAPE_OR_GROUP = re.compile(r"\\k<(\w+)>|\\.|\(\?<(?![=!])", re.DOTALL)
_FLAGS = re.MULTILINE | re.ASCII
_GUARDED_FLAGS = regex.MULTILINE | regex.ASCII | regex.VERSION0
_CLASS = r"\[(?:\\.|[^\]\\])(?:\\.|[^\]\\])*\]"
_LEADING_RUN = re.compile(
    rf"(?P<group>\((?:\?P<\w+>|\?:|(?!\?)))?(?P<one>\.|\\[SswWdD]|{_CLASS})[*+](?![*+{{])", re.DOTALL
)
_TOKEN = re.compile(rf"\\.|{_CLASS}|[()]|[^\\()\[]+|\[", re.DOTALL)
_BRACE = re.compile(r"\{(?!\d*(?:,\d*)?\})")
"""A brace that begins no number of times."""
_NOT_THE_SAME_FROM_EARLIER = re.compile(r"\||\(\?P=|\(\?\(|\\[1-9]")


class TooSlow(Exception):
    """An expression takes too long on this text."""


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression that is looked for in text."""

    given: str
    _pattern: Any
    _further: Any
    """The same, which is not tried where it cannot match, because it did not match one character earlier."""

    def search(self, text: str, start: int, stop: int) -> re.Match[str] | None:
        """The first match that begins at `start` or later, ends at `stop` or earlier, and is not empty. Raises `TooSlow`."""
        limit = self._limit(stop - start)
        try:
            found: re.Match[str] | None = None
            if self._further is not self._pattern:
                found = self._pattern.match(text, start, stop, **limit)
            if found is None:
                found = self._further.search(text, start, stop, **limit)
            while found is not None and found.end() == found.start():
                found = self._further.search(text, found.end() + 1, stop, **limit) if found.end() < stop else None
        except TimeoutError:
            raise TooSlow from None
        return found

    def matches(self, text: str, start: int, stop: int, horizon: int, found: list[re.Match[str]]) -> None:
        """Append to `found` what `search` finds, each from the end of the one before on, if it begins before `horizon`.

        Raises `TooSlow`.
        """
        limit, has_two_forms = self._limit(stop - start), self._further is not self._pattern
        while (first := self.search(text, start, stop)) is not None and first.start() < horizon:
            found.append(first)
            start = first.end()
            # One call finds those that follow, until something is met that `search` must decide about.
            with suppress(TimeoutError):
                for each in self._further.finditer(text, start, stop, **limit):
                    begin, end = each.span()
                    if begin >= horizon or begin == end:
                        break
                    if has_two_forms and begin > start and self._pattern.match(text, start, stop, **limit):
                        break
                    found.append(each)
                    start = end

    def search_line(self, text: str, start: int, stop: int, line_end: int) -> re.Match[str] | None:
        """As `search`, for a match that begins before `line_end`; raises `TooSlow` after `LINE_SECONDS`."""
        until = monotonic() + LINE_SECONDS
        for begin in range(start, line_end):
            try:
                found = self._pattern.match(text, begin, stop, timeout=max(until - monotonic(), _LEAST_SECONDS))
            except TimeoutError:
                raise TooSlow from None
            if found is not None and found.end() > found.start():
                return found  # type: ignore[no-any-return]
        return None

    def occurs_in(self, text: str) -> bool:
        """Whether it matches anywhere, if only an empty text. Raises `TooSlow`."""
        limit = self._limit(0)
        try:
            return self._pattern.search(text, **limit) is not None
        except TimeoutError:
            raise TooSlow from None

    def _limit(self, characters: int) -> dict[str, float]:
        """How long a call may take that looks through so many characters."""
        if isinstance(self._pattern, re.Pattern):
            return {}
        return {"timeout": LINE_SECONDS + characters * CHARACTER_SECONDS}


def compile_javascript(
    expression: str, *, what: str, needs: Iterable[str] = (), is_trusted: bool = False
) -> Expression:
    r"""The expression for use on text whose line ends are ``\n``; `needs` are groups it must name.

    An expression that `is_trusted` is known to take linear time, and is not watched.

    ``^`` and ``$`` match at lines, ``.`` does not match a line end, ``\d`` and ``\w`` are ASCII, as in JavaScript.
    Raises `SourceError`, which begins with `what` the expression is.
    """
    translated = _ESCAPE_OR_GROUP.sub(_in_python, expression)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            pattern: Any = re.compile(translated, _FLAGS)
            apart = _not_within_leading_run(translated)
            further: Any = re.compile(apart + translated, _FLAGS) if apart else pattern
            if not is_trusted:
                literal = only_as_in_re(translated)
                pattern = regex.compile(literal, _GUARDED_FLAGS)
                further = regex.compile(apart + literal, _GUARDED_FLAGS) if apart else pattern
    except (re.error, regex.error, OverflowError, RecursionError) as error:
        raise SourceError(f"{what} is no regular expression: {error}: {expression!r:.200}") from None
    missing = [name for name in needs if name not in pattern.groupindex]
    if missing:
        wanted = " and ".join(f"(?<{name}>...)" for name in missing)
        raise SourceError(
            f"{what} needs the named group{'s' if len(missing) > 1 else ''} {wanted}: {expression!r:.200}"
        )
    return Expression(expression, pattern, further)


def _in_python(found: re.Match[str]) -> str:
    if found[1]:
        return f"(?P={found[1]})"
    return "(?P<" if found[0] == "(?<" else found[0]


def only_as_in_re(expression: str) -> str:
    """The expression, without what only ``regex`` gives a meaning: classes in classes, and ``{e}``, which allows errors."""
    return _TOKEN.sub(_token_as_in_re, expression)


def _token_as_in_re(token: re.Match[str]) -> str:
    text = token[0]
    if text.startswith("[") and len(text) > 1:
        return "[" + text[1:].replace("[", r"\[")
    return text if text.startswith("\\") else _BRACE.sub(r"\{", text)


def _not_within_leading_run(expression: str) -> str:
    r"""For an expression that begins with a run, as ``\S*`` or ``.+``: that it is not tried amid such a run; else nothing.

    Whatever matches from amid a run matches from its beginning as well. Without this, a line of a million characters that
    holds no event would be looked through a million times.
    """
    run = _LEADING_RUN.match(expression)
    if run is None or _NOT_THE_SAME_FROM_EARLIER.search(expression):
        return ""
    if run["group"] and expression[_end_of_group(expression) :][:1] in ("*", "+", "?", "{"):
        return ""
    return f"(?<!{run['one']})"


def _end_of_group(expression: str) -> int:
    """Where the group ends that the expression begins with."""
    depth = 0
    for token in _TOKEN.finditer(expression):
        depth += (token[0] == "(") - (token[0] == ")")
        if token[0] == ")" and depth == 0:
            return token.end()
    return len(expression)
