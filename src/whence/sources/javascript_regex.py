"""Regular expressions as ShiViz users write them: JavaScript's, with its flags ``gm``, or Python's."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable
from dataclasses import dataclass

from whence.sources.contract import SourceError

_ESCAPE_OR_GROUP = re.compile(r"\\k<(\w+)>|\\.|\(\?<(?![=!])", re.DOTALL)
_FLAGS = re.MULTILINE | re.ASCII
_CLASS = r"\[(?:\\.|[^\]\\])(?:\\.|[^\]\\])*\]"
_LEADING_RUN = re.compile(
    rf"(?P<group>\((?:\?P<\w+>|\?:|(?!\?)))?(?P<one>\.|\\[SswWdD]|{_CLASS})[*+](?![*+{{])", re.DOTALL
)
_TOKEN = re.compile(rf"\\.|{_CLASS}|[()]|[^\\()\[]+|\[", re.DOTALL)
_NOT_THE_SAME_FROM_EARLIER = re.compile(r"\||\(\?P=|\(\?\(|\\[1-9]")


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression that is looked for in text."""

    pattern: re.Pattern[str]
    _further: re.Pattern[str]
    """The same, which is not tried where it cannot match, because it did not match one character earlier."""

    def search(self, text: str, start: int, stop: int) -> re.Match[str] | None:
        """The first match that begins at `start` or later, ends at `stop` or earlier, and is not empty."""
        found = self.pattern.match(text, start, stop) or self._further.search(text, start, stop)
        while found is not None and found.end() == found.start():
            found = self._further.search(text, found.end() + 1, stop) if found.end() < stop else None
        return found


def compile_javascript(expression: str, *, what: str, needs: Iterable[str] = ()) -> Expression:
    r"""The expression for use on text whose line ends are ``\n``; `needs` are groups it must name.

    ``^`` and ``$`` match at lines, ``.`` does not match a line end, ``\d`` and ``\w`` are ASCII, as in JavaScript.
    Raises `SourceError`, which begins with `what` the expression is.
    """
    translated = _ESCAPE_OR_GROUP.sub(_in_python, expression)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            pattern = re.compile(translated, _FLAGS)
            further = re.compile(_not_within_leading_run(translated) + translated, _FLAGS)
    except (re.error, OverflowError, RecursionError) as error:
        raise SourceError(f"{what} is no regular expression: {error}: {expression!r:.200}") from None
    missing = [name for name in needs if name not in pattern.groupindex]
    if missing:
        wanted = " and ".join(f"(?<{name}>...)" for name in missing)
        raise SourceError(
            f"{what} needs the named group{'s' if len(missing) > 1 else ''} {wanted}: {expression!r:.200}"
        )
    return Expression(pattern, further)


def _in_python(found: re.Match[str]) -> str:
    if found[1]:
        return f"(?P={found[1]})"
    return "(?P<" if found[0] == "(?<" else found[0]


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
