"""Answers as notebooks show them."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import ledto
from ledto.questions import History
from ledto.web.notebook import MOST_SHOWN, WITHIN
from tests.questions.test_answers import ANSWERS, LINES, observe

HOSTILE = "</title></style><script>alert(1)</script>\" onload='x' \u202e&"


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> History:
    return observe(tmp_path_factory.mktemp("notebook"), LINES)


class Page(HTMLParser):
    """The elements and texts of a page; fails for one that is not closed."""

    EMPTY = ("img", "br", "circle", "line", "rect", "path")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.EMPTY:
            assert self.open.pop() == tag

    def count(self, tag: str) -> int:
        return sum(name == tag for name, _ in self.tags)


@pytest.mark.parametrize("question", ANSWERS)
def test_every_answer_is_shown(history: History, question: str) -> None:
    """What ends a cell of a notebook is shown: as a diagram with a table where it is about events, else as a table."""
    answer = ANSWERS[question](history)
    page = Page(answer._repr_html_())
    assert page.count("table") == 1
    about_events = question not in (
        "sql",
        "small integers",
        "no rows",
        "clocks",
        "processes",
        "quarantine",
        "order of a policy",
    )
    assert page.count("svg") == about_events
    assert page.count("img") == (question == "clocks")


def test_the_diagram_has_the_events_and_messages_of_the_answer(history: History) -> None:
    """Arrows without their messages, or dots without their events, would be a picture of nothing."""
    why = history.why("web:2")
    page = Page(why._repr_html_())
    dots = [attributes for tag, attributes in page.tags if tag == "circle" and attributes.get("class") == "dot"]
    assert len(dots) == len(why.causes) + 1 + len(why.possible)
    arrows = [attributes for tag, attributes in page.tags if (attributes.get("class") or "").startswith("message")]
    assert len(arrows) == sum(edge.kind == "message" for edge in why.edges) == 2
    links = {attributes["href"] for tag, attributes in page.tags if tag == "a"}
    assert links == {f"#{attributes['id']}" for tag, attributes in page.tags if tag == "tr" and "id" in attributes}
    assert "Missing: 1 of stock between 1 and 3." in why._repr_html_()
    steps = [str(attributes["class"]) for tag, attributes in page.tags if tag == "line"]
    assert steps.count("step omits") == 1, "a report is missing between two events of stock"
    assert steps.count("step") == 1


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    """A log that anybody can write into must not run a script in the notebook of who reads it."""
    lines = [
        {"process": HOSTILE, "seq": 1, "sends": HOSTILE, "name": HOSTILE, HOSTILE: HOSTILE, "time": 1},
        {"process": "b", "seq": 1, "receives": HOSTILE, "name": HOSTILE, "time": 2},
    ]
    history = observe(tmp_path, lines)
    hostile_sql = history.sql("SELECT name, name AS \"<script>alert('column')</script>\" FROM events")
    shown = [*(ask(history) for ask in _questions()), hostile_sql, history]
    for answer in shown:
        text = answer._repr_html_()
        page = Page(text)
        assert {tag for tag, _ in page.tags}.isdisjoint({"script", "iframe", "object", "foreignobject"})
        assert not [name for _, attributes in page.tags for name in attributes if name.startswith("on")]
        assert "\u202e" not in text
    assert "&lt;script&gt;" in shown[0]._repr_html_()


def _questions() -> list[Any]:
    return [
        lambda h: h.why("b:1"),
        lambda h: h.impact("@0"),
        lambda h: h.explain("@0", "b:1"),
        lambda h: h.cut("b:1"),
        lambda h: h.order(),
        lambda h: h.processes(),
        lambda h: h.quarantine(),
        lambda h: h.clocks(),
    ]


def test_many_and_long_things_are_cut(tmp_path: Path) -> None:
    """A notebook keeps what it shows in its file: an answer of a thousand events must not make it unusable."""
    log = tmp_path / "log.jsonl"
    line = {"process": "a", "name": "n" * 10_000, "text": "t" * 10_000}
    log.write_text("".join(json.dumps({**line, "seq": seq, "time": seq}) + "\n" for seq in range(1, 400)))
    history = ledto.observe(log, tmp_path / "history")
    for answer in (history.why("a:399", k=398), history.order(), history.sql("SELECT * FROM events")):
        text = answer._repr_html_()
        assert len(text) < 200_000
        assert Page(text).count("tr") == MOST_SHOWN + 1
        assert re.search(r"\d+ more not shown here", text)
    assert "a:399" in history.why("a:399", k=398)._repr_html_()


def test_the_style_applies_to_the_answer_alone(history: History) -> None:
    """A rule for all tables or all links would change the look of the whole notebook."""
    (style,) = re.findall(r"<style>(.*?)</style>", history.why("web:2")._repr_html_(), re.DOTALL)
    selectors = [head.strip() for head in re.findall(r"([^{}]+)\{", style) if not head.strip().startswith("@")]
    assert len(selectors) > 30
    assert [one for head in selectors for one in head.split(",") if not one.strip().startswith(WITHIN)] == []


def test_a_history_is_summarized(history: History) -> None:
    """The first thing that a notebook shows is what was opened: how much, from when to when, and what was lost."""
    text = history._repr_html_()
    for part in (
        "6 of 3 processes",
        "2023-11-14 22:13:20.123456",
        "7: 6 delivered, 0 duplicate, 1 quarantined",
        "exact",
    ):
        assert part in text
    assert Page(text).count("table") == 1
    assert repr(history).endswith("6 events of 3 processes")
