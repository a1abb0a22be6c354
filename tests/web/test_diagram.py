"""The diagram must draw what happened, and only call backwards what the clocks put backwards."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from ledto.web.diagram import FOCUS, HEAD_PX, PAST, ROW_PX, Arrow, Dot, draw_diagram, find_arrows

SVG = "{http://www.w3.org/2000/svg}"


def dot(process: str, seq: int, *, time: int | None = None, position: int = -1, causes: tuple[int, ...] = ()) -> Dot:
    return Dot(f"event-{process}-{seq}", process, seq, "x", "x", PAST, time, position, causes, False)


def drawn(dots: list[Dot]) -> ElementTree.Element:
    return ElementTree.fromstring(draw_diagram(dots, unit="ns", title="a title", description="a description"))


def test_messages_are_arrows_from_their_send_to_each_receipt() -> None:
    """A reader follows arrows to the cause: one too few hides it, one too many accuses the innocent."""
    dots = [
        dot("a", 1, time=50, position=10),
        dot("b", 1, time=20, position=11, causes=(10,)),
        dot("c", 1, time=50, position=12, causes=(10,)),
        dot("c", 2, time=60, position=13, causes=(7,)),
        dot("b", 2, position=14),
        dot("a", 2, time=70, position=15, causes=(7, 14)),
    ]
    assert find_arrows(dots) == [Arrow(0, 1, 30), Arrow(0, 2, None), Arrow(4, 5, None)]
    svg = drawn(dots)
    lines = [line for line in svg.iter(f"{SVG}line") if "message" in line.get("class", "")]
    assert [line.get("class") for line in lines] == ["message backwards", "message onwards", "message onwards"]
    assert [text.text for text in svg.iter(f"{SVG}text") if text.get("class") == "amount"] == ["−30 ns"]


def test_a_gap_in_a_process_is_dashed() -> None:
    """A solid line says that nothing happened in between; it must not be said of events that are left out."""
    svg = drawn([dot("a", 1), dot("a", 2), dot("a", 5)])
    assert [line.get("class") for line in svg.iter(f"{SVG}line") if "step" in line.get("class", "")] == [
        "step",
        "step omits",
    ]


def on_line(line: str | None, position: int, *, follows: tuple[int, ...] = (), **more: Any) -> Dot:
    return replace(dot("a", position, position=position), line=line, follows=follows, **more)


def test_each_line_has_a_lane_and_is_joined_to_what_it_follows() -> None:
    """Two requests on one line would look like cause and effect."""
    svg = drawn(
        [
            on_line("one", 1),
            on_line("two", 2),
            on_line("one", 3, follows=(1,)),
            on_line("three", 4, follows=(3,)),
            on_line("two", 6),
            on_line("four", 7),
        ]
    )
    dots = [circle.get("cx") for circle in svg.iter(f"{SVG}circle")]
    assert dots[0] == dots[2] == dots[3] == dots[5], "lines that are not shown at the same time share a lane"
    assert dots[1] == dots[4] != dots[0]
    steps = [line for line in svg.iter(f"{SVG}line") if "step" in line.get("class", "")]
    ends = [
        (line.get("class"), *(round((int(line.get(y, 0)) - HEAD_PX) / ROW_PX - 0.5) for y in ("y1", "y2")))
        for line in steps
    ]
    assert ends == [("step", 0, 2), ("step", 2, 3), ("step omits", 1, 4)]


def test_an_answer_that_is_only_assumed_is_dotted() -> None:
    """A reader would take for certain what nobody recorded."""
    dots = [dot("a", 1, position=1), replace(dot("b", 1, position=2, causes=(1,)), assumed=frozenset({1}))]
    lines = [line.get("class") for line in drawn(dots).iter(f"{SVG}line") if "message" in line.get("class", "")]
    assert lines == ["message assumed onwards"]


@given(st.lists(st.tuples(st.text(min_size=1), st.text(), st.text()), min_size=1, max_size=12))
def test_any_text_gives_one_well_formed_image(rows: list[tuple[str, str, str]]) -> None:
    """Names come from logs: none may break the page, add elements to it, or lose a row of it."""
    dots = [
        Dot(f"event-{place}", process, place, label, title, FOCUS if place == 0 else PAST, place, place, (), True)
        for place, (process, label, title) in enumerate(rows)
    ]
    svg = drawn(dots)
    links = list(svg.iter(f"{SVG}a"))
    assert [link.get("href") for link in links] == [f"#event-{place}" for place in range(len(rows))]
    known = {"svg", "title", "desc", "defs", "marker", "path", "line", "text", "a", "rect", "circle"}
    assert {element.tag.removeprefix(SVG) for element in svg.iter()} <= known
    assert len(list(svg.iter(f"{SVG}circle"))) == len(rows) + 1, "a dot each, and the ring around the focus"


def test_every_row_can_be_reached_and_told_without_seeing() -> None:
    """Keyboard and screen reader users get the events too: links with a title, in causal order, under a described image."""
    svg = drawn([dot("a", 1), dot("b", 1)])
    named = svg.get("aria-labelledby", "").split()
    described = {element.get("id"): element.text for element in svg if element.get("id")}
    assert [described[name] for name in named] == ["a title", "a description"]
    for link in svg.iter(f"{SVG}a"):
        title = link.find(f"{SVG}title")
        assert title is not None
        assert title.text == "x"


def test_numbered_processes_stand_in_the_order_of_their_numbers() -> None:
    """stock-10 after stock-9, as people count, so that the eye finds a line."""
    text = draw_diagram([dot(f"p{n}", 1) for n in (10, 9, 1)], unit="ns", title="", description="")
    assert re.findall(r"<title>(p\d+)</title>", text) == ["p1", "p9", "p10"]
