from __future__ import annotations

from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from ledto.clocks import HybridStamp, LamportStamp, Stamp, VectorStamp
from ledto.reporting import HEADER, Message, extract, inject

COUNTS = st.integers(0, 2**63 - 1)
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=40)
STAMPS: st.SearchStrategy[Stamp] = (
    st.builds(LamportStamp, COUNTS, TEXTS)
    | st.builds(HybridStamp, COUNTS, COUNTS, TEXTS)
    | st.dictionaries(TEXTS, st.integers(1, 2**40), min_size=1, max_size=300).map(VectorStamp)
)
MESSAGES = st.builds(Message, TEXTS, st.none() | STAMPS, TEXTS | st.just(""))


@given(MESSAGES)
@example(Message("shop:1", VectorStamp({f"process-{i:08d}": i + 1 for i in range(900)})))
def test_a_message_survives_headers_and_metadata(message: Message) -> None:
    """Headers are short and ASCII: a cause must come through whole, and only a stamp that is too long may stay behind."""
    headers: dict[str, str] = {}
    inject(headers, message)
    (text,) = headers.values()
    assert text.isascii()
    assert text.isprintable()
    assert len(text) <= 4_096
    found = extract(headers)
    assert found is not None
    assert (found.key, found.computation) == (message.key, message.computation)
    assert found.stamp == message.stamp or (found.stamp is None and len(message.stamp.to_bytes()) > 1_500)  # type: ignore[union-attr]
    for carrier in ({HEADER.upper(): text}, [(HEADER.encode(), text.encode())], (("a", "b"), (HEADER, text))):
        assert extract(carrier) == found


@given(MESSAGES, st.data())
def test_only_what_was_written_is_read(message: Message, data: st.DataObject) -> None:
    """A damaged or forged header must never be taken for another cause than the one its text spells."""
    text = message.to_text()
    at = data.draw(st.integers(0, len(text)))
    damaged = text[:at] + data.draw(st.text(max_size=3)) + text[at + data.draw(st.integers(0, 3)) :]
    found = Message.from_text(damaged)
    assert found is None or found.to_text() == damaged


@given(st.text() | st.binary() | st.integers() | st.none() | st.lists(st.text(), max_size=2))
@example("1;" + "a" * 5_000 + ";;")
@example("1;a%00;;")
@example("1;%ff;;")
@example("1;%ed%a0%80;;")
@example("1;%61;;")
@example("1;a;;%62")
@example("1;a;EQIGc2hvcEAx==;")
@example("1;a;AAAA;")
@example("2;a;;")
@example("1;;;")
@example("1;a;;, 1;b;;")
@example(b"\xff")
def test_garbage_is_no_message_and_is_counted(value: Any) -> None:
    """Anyone can send a header; it must neither raise nor count as a peer that takes part."""
    counted: list[int] = []
    carriers: list[Any] = [{HEADER: value}, [(HEADER, "1;a;;"), (HEADER, value)], [(HEADER,)], [value]]
    for carrier in carriers[:3]:
        assert extract(carrier, on_malformed=lambda: counted.append(1)) is None
    assert len(counted) == 3
    assert extract(carriers[3]) is None


def test_no_header_is_no_fault() -> None:
    """Peers that do not take part are no errors."""
    counted: list[int] = []
    for carrier in (None, {}, [], {"other": "1;a;;"}, [(3, 4)]):
        assert extract(carrier, on_malformed=lambda: counted.append(1)) is None  # type: ignore[arg-type]
    assert counted == []
    headers: dict[str, str] = {}
    inject(headers, None)
    assert headers == {}
