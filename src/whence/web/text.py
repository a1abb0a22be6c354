"""Text from logs, made safe to stand in a page."""

from __future__ import annotations

import re
from html import escape

_UNSHOWABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")
"""Control characters, what turns the direction of the text that follows, and what UTF-8 or XML cannot hold."""


def safe(text: str) -> str:
    """The text for an element or a quoted attribute; characters that cannot be shown become replacement characters."""
    return escape(_UNSHOWABLE.sub("\N{REPLACEMENT CHARACTER}", text))


def shortened(text: str, most: int) -> str:
    """The text, or its beginning with an ellipsis."""
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"
