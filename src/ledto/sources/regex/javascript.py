"""Search with regular expressions as ShiViz users write them: JavaScript's, with its flags ``gm``, or Python's.

Some expressions take exponential time on some text, as ``(a|a)*$`` does. Python's ``re`` cannot be stopped. So expressions
of users are run by the package ``regex``, which can be stopped, and which finds the same for all that ``re`` accepts.
`Expression.search` then raises `TooSlow`.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic
from typing import Any, Final

from ledto.sources.contract import SourceError

LINE_SECONDS: Final = 1.0
"""How long a search may take for an event that begins in one line."""
CHARACTER_SECONDS: Final = 1e-6
"""How much longer it may take for each character of the searched text."""
_LEAST_SECONDS = 1e-3

_ESCAPE_OR_GROUP = re.compile(r"\\k<(\w+)>|\\.|\(\?<(?![=!])", re.DOTALL)
_FLAGS = re.MULTILINE | re.ASCII
_CLASS = r"\[(?:\\.|[^\]\\])(?:\\.|[^\]\\])*\]"
_LEADING_RUN = re.compile(
    rf"(?P<group>\((?:\?P<\w+>|\?:|(?!\?)))?(?P<one>\.|\\[SswWdD]|{_CLASS})[*+](?![*+{{])", re.DOTALL
)
_TOKEN = re.compile(rf"\\.|{_CLASS}|[()]|[^\\()\[]+|\[", re.DOTALL)
_BRACE = re.compile(r"\{(?!\d*(?:,\d*)?\})")
"""A brace that begins no quantifier such as ``{2,3}``."""
_NOT_THE_SAME_FROM_EARLIER = re.compile(r"\||\(\?P=|\(\?\(|\\[1-9]")


class TooSlow(Exception):
    """An expression takes too long on this text."""


@dataclass(frozen=True, slots=True)
class Expression:
    """A compiled expression."""

    source: str
    _pattern: Any
    _further: Any
    """The same, but not tried at places where it cannot match because it did not match one character earlier."""

    def search(self, text: str, start: int, stop: int) -> re.Match[str] | None:
        """Return the first match that is not empty, begins at `start` or later and ends at `stop` or earlier.

        Raises `TooSlow`.
        """
        limit = self._timeout(stop - start)
        try:
            match: re.Match[str] | None = None
            if self._further is not self._pattern:
                match = self._pattern.match(text, start, stop, **limit)
            if match is None:
                match = self._further.search(text, start, stop, **limit)
            while match is not None and match.end() == match.start():
                match = self._further.search(text, match.end() + 1, stop, **limit) if match.end() < stop else None
        except TimeoutError:
            raise TooSlow from None
        return match

    def append_matches(self, text: str, start: int, stop: int, horizon: int, matches: list[re.Match[str]]) -> None:
        """Append to `matches` what `search` finds, each from the end of the one before, if it begins before `horizon`.

        Raises `TooSlow`; `matches` then has those before.
        """
        limit, has_two_forms = self._timeout(stop - start), self._further is not self._pattern
        while (first := self.search(text, start, stop)) is not None and first.start() < horizon:
            matches.append(first)
            start = first.end()
            # One call finds those that follow, up to a case that `search` must decide.
            with suppress(TimeoutError):
                for match in self._further.finditer(text, start, stop, **limit):
                    begin, end = match.span()
                    if begin >= horizon or begin == end:
                        break
                    if has_two_forms and begin > start and self._pattern.match(text, start, stop, **limit):
                        break
                    matches.append(match)
                    start = end

    def search_line(self, text: str, start: int, stop: int, line_end: int) -> re.Match[str] | None:
        """Search for a match that begins before `line_end`. Raises `TooSlow` after `LINE_SECONDS`."""
        until = monotonic() + LINE_SECONDS
        for begin in range(start, line_end):
            try:
                match = self._pattern.match(text, begin, stop, timeout=max(until - monotonic(), _LEAST_SECONDS))
            except TimeoutError:
                raise TooSlow from None
            if match is not None and match.end() > match.start():
                return match  # type: ignore[no-any-return]
        return None

    def occurs_in(self, text: str) -> bool:
        """Return whether it matches anywhere, even an empty text. Raises `TooSlow`."""
        limit = self._timeout(0)
        try:
            return self._pattern.search(text, **limit) is not None
        except TimeoutError:
            raise TooSlow from None

    def _timeout(self, characters: int) -> dict[str, float]:
        """Return the timeout of a call that searches so many characters."""
        if isinstance(self._pattern, re.Pattern):
            return {}
        return {"timeout": LINE_SECONDS + characters * CHARACTER_SECONDS}


def load_regex() -> Any:
    """Import the package ``regex``, which only expressions of users need; needs ``ledto[formats]``."""
    import regex  # type: ignore[import-untyped]

    return regex


def compile_javascript(
    expression: str, *, what: str, needs: Iterable[str] = (), is_trusted: bool = False
) -> Expression:
    r"""Compile an expression for text with line ends ``\n``. `needs` are groups that it must have.

    Pass `is_trusted` for an expression that takes linear time: it then has no timeout.

    As in JavaScript, ``^`` and ``$`` match at lines, ``.`` does not match a line end, ``\d`` and ``\w`` are ASCII.
    Raises `SourceError`, whose message begins with `what` the expression is.
    """
    translated = _ESCAPE_OR_GROUP.sub(_translate, expression)
    engine: Any = re if is_trusted else load_regex()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            pattern: Any = re.compile(translated, _FLAGS)
            guard = _guard_against_leading_run(translated)
            further: Any = re.compile(guard + translated, _FLAGS) if guard else pattern
            if not is_trusted:
                same_in_regex = escape_for_regex(translated)
                flags = engine.MULTILINE | engine.ASCII | engine.VERSION0
                pattern = engine.compile(same_in_regex, flags)
                further = engine.compile(guard + same_in_regex, flags) if guard else pattern
    except (re.error, engine.error, OverflowError, RecursionError) as error:
        raise SourceError(f"{what} is no regular expression: {error}: {expression!r:.200}") from None
    missing = [name for name in needs if name not in pattern.groupindex]
    if missing:
        groups = " and ".join(f"(?<{name}>...)" for name in missing)
        raise SourceError(
            f"{what} needs the named group{'s' if len(missing) > 1 else ''} {groups}: {expression!r:.200}"
        )
    return Expression(expression, pattern, further)


def _translate(match: re.Match[str]) -> str:
    if match[1]:
        return f"(?P={match[1]})"
    return "(?P<" if match[0] == "(?<" else match[0]


def escape_for_regex(expression: str) -> str:
    """Escape what means something only to ``regex``, not to ``re``: classes in classes, and ``{e}``, which allows errors."""
    return _TOKEN.sub(_escape_token, expression)


def _escape_token(token: re.Match[str]) -> str:
    text = token[0]
    if text.startswith("[") and len(text) > 1:
        return "[" + text[1:].replace("[", r"\[")
    return text if text.startswith("\\") else _BRACE.sub(r"\{", text)


def _guard_against_leading_run(expression: str) -> str:
    r"""Return an assertion for an expression that begins with a run, as ``\S*`` or ``.+``; empty text for others.

    It keeps the expression from being tried in the middle of such a run. All that matches there also matches from the
    run's beginning. Without it, a line of a million characters without an event would be searched a million times.
    """
    run = _LEADING_RUN.match(expression)
    if run is None or _NOT_THE_SAME_FROM_EARLIER.search(expression):
        return ""
    if run["group"] and expression[_find_end_of_group(expression) :][:1] in ("*", "+", "?", "{"):
        return ""
    return f"(?<!{run['one']})"


def _find_end_of_group(expression: str) -> int:
    """Return the end of the group at the beginning of the expression."""
    depth = 0
    for token in _TOKEN.finditer(expression):
        depth += (token[0] == "(") - (token[0] == ")")
        if token[0] == ")" and depth == 0:
            return token.end()
    return len(expression)
