"""Regular expressions as ShiViz users write them: JavaScript's, in its multi-line mode, or Python's."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable

from whence.sources.contract import SourceError

_ESCAPE_OR_GROUP = re.compile(r"\\k<(\w+)>|\\.|\(\?<(?![=!])", re.DOTALL)


def compile_javascript(expression: str, *, what: str, needs: Iterable[str] = ()) -> re.Pattern[str]:
    r"""The expression for use on text whose line ends are ``\n``; `needs` are groups it must name.

    ``^`` and ``$`` match at lines, ``.`` does not match a line end, ``\d`` and ``\w`` are ASCII, as in JavaScript.
    Raises `SourceError`, which begins with `what` the expression is.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            pattern = re.compile(_ESCAPE_OR_GROUP.sub(_in_python, expression), re.MULTILINE | re.ASCII)
    except (re.error, OverflowError, RecursionError) as error:
        raise SourceError(f"{what} is no regular expression: {error}: {expression!r:.200}") from None
    missing = [name for name in needs if name not in pattern.groupindex]
    if missing:
        wanted = " and ".join(f"(?<{name}>...)" for name in missing)
        raise SourceError(
            f"{what} needs the named group{'s' if len(missing) > 1 else ''} {wanted}: {expression!r:.200}"
        )
    return pattern


def _in_python(found: re.Match[str]) -> str:
    if found[1]:
        return f"(?P={found[1]})"
    return "(?P<" if found[0] == "(?<" else found[0]
