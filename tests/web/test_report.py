"""The page of an incident: complete, self-contained, and deaf to what logs try to make it say."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from ledto.questions import Missing, Standing
from ledto.web.gather import Incident
from ledto.web.report import write_page
from tests.web.pages import event, incident

VOID = {"meta", "circle", "line", "rect", "path"}
HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "</title></style></svg></table><h1>owned</h1>",
    "<!-- ]]> -->",
    "\u202egnp.exe \x1b[31m \ud800",
    "javascript:alert(1)",
]


class Page(HTMLParser):
    """Tags, attributes and text of a page; fails where elements are not closed in turn."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def shape(shown: Incident) -> list[tuple[str, list[str]]]:
    """The page's tags and the names of their attributes, without any text."""
    return [(tag, sorted(attributes)) for tag, attributes in Page(write_page(shown)).tags]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_names_are_text(text: str) -> None:
    """Whoever can write a log line must not be able to run code in the browser of whoever reads the report."""
    both = [
        incident(
            history=name,
            past=[event(3, name, 1, 5, name, severity="loud", **{name: name})],
            event=event(4, name, 2, 6, name, sends=name),
            bystanders=[],
            missing=[Missing(name, 1, 3, 1), Missing(None, None, None, 1, name, name)],
            ledger={"reports": 1, "reasons": {name: 1}},
        )
        for name in (text, "tame")
    ]
    assert shape(both[0]) == shape(both[1])
    written = write_page(both[0])
    assert "\x1b" not in written
    assert "\u202e" not in written
    written.encode()


def test_the_page_needs_nothing_else() -> None:
    """A report is mailed, archived and opened offline: nothing in it may be fetched, run, or point nowhere."""
    found = Page(write_page(incident()))
    assert {tag for tag, _ in found.tags} & {
        "script",
        "link",
        "img",
        "iframe",
        "object",
        "embed",
        "base",
        "form",
    } == set()
    links = {value for _, attributes in found.tags for name, value in attributes.items() if name in ("href", "src")}
    ids = [attributes["id"] for _, attributes in found.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert links == {f"#event-{place}" for place in range(1, 6)}
    assert {f"#{name}" for name in ids} >= links
    assert "url(" not in write_page(incident()).replace("url(#diagram-", "")


def test_the_page_tells_the_story() -> None:
    """The reader must see which causes the wall clock hides, by how much, and who is innocent."""
    found = Page(write_page(incident()))
    text = found.text
    assert "2 of these 3 causes carry a wall time later than the event itself." in text
    assert text.count("after it by wall clock") == 2
    assert "+280 ms" in text
    assert "−291 ms" in text
    rows = [attributes["href"] for tag, attributes in found.tags if tag == "a"]
    assert rows == ["#event-1", "#event-2", "#event-5", "#event-3", "#event-4"], "drawn in history order"
    assert "1 of orders between 3 and 5" in text
    assert "the event that sent m0, received by stock:7" in text
    for shown in ("mail:2", "newsletter sent", "quarantined: not-json", "cbd-0.1", "50 ms", "28.6%", "not known"):
        assert shown in text


def test_each_event_says_how_it_stands() -> None:
    """What is only possible, or cannot be known, must not read like a proof."""
    shown = incident(
        possible=[event(14, "orders", 4, 995, "cache dropped")],
        bystanders=[event(12, "mail", 2, 996, "newsletter sent"), event(16, "mail", 3, 997, "mail sent")],
        standings={12: Standing.CONCURRENT, 16: Standing.UNKNOWN},
        lines={14: "housekeeping"},
    )
    text = write_page(shown)
    assert Page(text).text.count("Also possible") == 1
    said = {
        name: re.search(rf"<code>{name}</code></th>.*?<td>(\w*)</td><td>[^<]*</td></tr>", text) for name in STANDINGS
    }
    assert {name: found and found[1] for name, found in said.items()} == STANDINGS
    assert "Of 1 this cannot be known for sure, because reports are missing." in text
    assert "line housekeeping" in text


STANDINGS = {
    "stock:7": "before",
    "orders:5": "",
    "orders:4": "possible",
    "mail:2": "concurrent",
    "mail:3": "unknown",
}


def test_what_is_unknown_is_not_made_up() -> None:
    """Events without wall times, and histories without policies, give a page without invented numbers."""
    past = [event(0, "a", 1, None, "started", sends="m")]
    failure = event(1, "b", 1, 5, "failed", receives="m")
    shown = incident(event=failure, past=past, bystanders=[], missing=[], ledger={}, orderings=[])
    text = Page(write_page(shown)).text
    assert "unknown" in text
    for absent in ("later than", "What order costs", "What became", "backwards by −", "nothing leads", "missing"):
        assert absent not in text
