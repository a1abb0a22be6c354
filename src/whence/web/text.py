"""Escape and shorten text from logs for a page."""

from __future__ import annotations

import html
import re

_UNSHOWABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")
"""Control characters, characters that change the direction of text, and what UTF-8 or XML cannot express."""


def escape(text: str) -> str:
    """Escape text for an element or a quoted attribute; replace characters that cannot be shown."""
    return html.escape(_UNSHOWABLE.sub("\N{REPLACEMENT CHARACTER}", text))


def shorten(text: str, most: int) -> str:
    """Cut text to `most` characters, with an ellipsis at the end."""
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"
