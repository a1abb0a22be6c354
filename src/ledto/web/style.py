"""The style sheet of a page, light or dark like the reader's system, and the escaping of text from logs.

A page needs no other files.
"""

from __future__ import annotations

import html
import re

_UNSHOWABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")
"""Control characters, characters that change the direction of text, and what UTF-8 or XML cannot express."""


_COLOURS = """
:root {
  color-scheme: light dark;
  --ground: #fcfcfa; --panel: #ffffff; --ink: #1d2328; --muted: #5d6872; --rule: #d9dde0;
  --line: #7d8a95; --past: #2463a8; --focus: #b3201d; --backwards: #a35200; --hover: #eef3f8;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ground: #14181b; --panel: #1b2024; --ink: #e6e9eb; --muted: #9fabb5; --rule: #343c43;
    --line: #8794a0; --past: #79b4f2; --focus: #ff8a80; --backwards: #ffb057; --hover: #242c33;
  }
}
"""
_PAGE = """
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 76rem; padding: 1.5rem 1.25rem 4rem; background: var(--ground); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 .25rem; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 2.25rem 0 .5rem; }
p { max-width: 46rem; margin: .4rem 0; }
.muted { color: var(--muted); }
code { font-family: ui-monospace, monospace; font-size: .93em; overflow-wrap: anywhere; }
a { color: var(--past); }
:focus-visible { outline: 3px solid var(--past); outline-offset: 2px; }
"""
_PARTS = """
.scroll { overflow-x: auto; background: var(--panel); border: 1px solid var(--rule); border-radius: 6px; padding: .5rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
caption { text-align: left; color: var(--muted); padding: .25rem .5rem .5rem; }
th, td { text-align: left; vertical-align: top; padding: .3rem .6rem; border-bottom: 1px solid var(--rule); }
thead th { white-space: nowrap; }
tbody th { font-weight: 500; }
tbody th code, .time { white-space: nowrap; }
.number { text-align: right; white-space: nowrap; }
tr:target { background: var(--hover); outline: 2px solid var(--past); }
tr.focus th, tr.focus td { color: var(--focus); font-weight: 600; }
tr.bystander th, tr.bystander td { color: var(--muted); }
.after { color: var(--backwards); font-weight: 600; }
.legend { display: flex; flex-wrap: wrap; gap: .3rem 1.4rem; padding: 0; margin: .6rem 0; list-style: none;
  color: var(--muted); }
.legend svg { width: 34px; height: 14px; vertical-align: -2px; margin-right: .35rem; }
.diagram { display: block; font: 13px system-ui, sans-serif; }
.diagram .lifeline { stroke: var(--rule); }
.diagram .process { fill: var(--ink); font-weight: 600; }
.step { stroke: var(--past); stroke-width: 2.5; }
.step.omits { stroke-dasharray: 2 4; stroke-width: 2; }
.step.beside { stroke: var(--line); stroke-width: 1; }
.message { stroke-width: 1.6; }
.message.assumed { stroke-dasharray: 1.6 3.2; }
.message.onwards { stroke: var(--line); }
.message.backwards { stroke: var(--backwards); }
marker.onwards path { fill: var(--line); }
marker.backwards path { fill: var(--backwards); }
.diagram .amount { fill: var(--backwards); font-size: 11px; font-weight: 600; text-anchor: middle;
  paint-order: stroke; stroke: var(--panel); stroke-width: 4px; stroke-linejoin: round; }
.hit { fill: transparent; }
a.event { text-decoration: none; }
a.event:hover .hit, a.event:focus-visible .hit { fill: var(--hover); fill-opacity: .75; }
a.event:focus-visible { outline: none; }
a.event:focus-visible .dot { stroke: var(--ink); stroke-width: 3; }
.dot { stroke: var(--panel); stroke-width: 1.5; }
.past .dot { fill: var(--past); }
.focus .dot { fill: var(--focus); }
.ring { fill: none; stroke: var(--focus); stroke-width: 2; }
.possible .dot { fill: var(--panel); stroke: var(--past); stroke-width: 2; }
.bystander .dot { fill: var(--panel); stroke: var(--muted); stroke-dasharray: 3 2; }
.label { fill: var(--ink); }
.loud .label { font-weight: 700; }
.focus .label { fill: var(--focus); font-weight: 700; }
.bystander .label { fill: var(--muted); font-style: italic; }
.offset { fill: var(--muted); text-anchor: end; font-variant-numeric: tabular-nums; }
.offset.after { fill: var(--backwards); font-weight: 700; }
@media print { body { max-width: none; } .scroll { overflow: visible; border: 0; } }
"""
STYLE = _COLOURS + _PAGE + _PARTS
"""The style sheet of a page of its own."""
_RULE = re.compile(r"(?P<query>@[^{]*\{)|(?P<selectors>[^{};@]+)\{")


def style_within(selector: str) -> str:
    """Give the style sheet for a part of somebody else's page: no rule applies outside the elements of the selector."""

    def limit(rule: re.Match[str]) -> str:
        if rule["query"]:
            return rule[0]
        names = (name.strip() for name in rule["selectors"].split(","))
        return "\n" + ", ".join(selector if name == ":root" else f"{selector} {name}" for name in names) + " {"

    return _RULE.sub(limit, _COLOURS + _PARTS)


def escape(text: str) -> str:
    """Escape text for an element or a quoted attribute; replace characters that cannot be shown."""
    return html.escape(_UNSHOWABLE.sub("\N{REPLACEMENT CHARACTER}", text))


def shorten(text: str, most: int) -> str:
    """Cut text to `most` characters, with an ellipsis at the end."""
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"
