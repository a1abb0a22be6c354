"""Logs for ShiViz: what the expressions match, what the clocks say, and what is quarantined."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledto.sources import SourceError
from ledto.sources.regex import javascript
from ledto.sources.regex.javascript import compile_javascript
from ledto.sources.shiviz import executions, stamped_text
from ledto.sources.shiviz import source as shiviz
from ledto.sources.shiviz.executions import Leftover, find_events
from ledto.sources.shiviz.source import CLOCK_FIRST, EVENT_FIRST, ShiViz
from ledto.sources.shiviz.text_window import TextWindow
from tests.sources.hard_lines import VALUES
from tests.sources.reading import SAMPLES, piece, rows, table

RUNS_REGEX = r"(?<timestamp>\S+) \[(?<level>\w+)\] (?<event>.*)\n(?<host>\S*) (?<clock>{.*})"
DELIMITER = "^=== (?<trace>.*) ===$"


def codes(found: list[dict[str, Any]]) -> list[str | None]:
    return [row["reason"].partition(":")[0] if "reason" in row else None for row in found]


def test_a_log_of_govector_is_read_without_options() -> None:
    """The default must fit what GoVector writes, or every user begins with a regular expression."""
    at = {"computation": "", "file": "sample"}
    assert rows(ShiViz(), (SAMPLES / "shop.log").read_bytes()) == [
        at | {"process": "shop", "seq": 1, "kind": "local", "sends": "shop:1", "name": "order placed", "place": 1},
        at | {"process": "shop", "seq": 2, "kind": "local", "sends": "shop:2", "name": "ask the stock", "place": 3},
        at
        | {"process": "stock", "seq": 1, "kind": "receive", "sends": "stock:1", "name": "asked", "place": 5}
        | {"receives": "shop:2"},
        at | {"process": "stock", "seq": 2, "kind": "local", "sends": "stock:2", "name": "none left", "place": 7},
        at
        | {"process": "shop", "seq": 3, "kind": "receive", "sends": "shop:3", "name": "tell the customer", "place": 9}
        | {"receives": "stock:2"},
    ]


def test_executions_are_computations_and_what_is_wrong_is_kept() -> None:
    """Two runs in one file share host names: taken as one, the second would seem to repeat the first."""
    found = rows(ShiViz(regex=RUNS_REGEX, delimiter=DELIMITER), (SAMPLES / "runs.log").read_bytes())
    seen = [(row["computation"], row.get("process"), row.get("seq"), row["place"]) for row in found]
    assert seen == [
        ("first", "shop", 1, 2),
        ("first", "stock", 1, 4),
        ("second", "shop", 1, 7),
        ("second", None, None, 9),
        ("second", "shop", None, 10),
        ("second", "shop", None, 12),
        ("second", None, None, 14),
    ]
    assert codes(found) == [None, None, None, "no-match", "unknown-process", "clock-backwards", "bad-clock"]
    assert found[0]["time"] == 1_714_564_800_000_000_000
    assert found[0]["attributes"] == '{"timestamp":"2024-05-01T12:00:00Z","level":"info"}'
    assert found[4]["text"] == 'later [warn] knows what nobody logged\nshop {"shop":2, "ghost":1}'


def test_an_unnamed_execution_is_named_after_its_file_and_number() -> None:
    """Executions without names must stay apart, also from those of other files."""
    log = 'a {"a":1}\nx\n---\n---\na {"a":1}\ny\n---\n\n'
    found = rows(ShiViz(delimiter="^---$"), log, file="logs/two.log")
    assert [row["computation"] for row in found] == ["two.log#1", "two.log#2"]
    again = rows(ShiViz(delimiter=DELIMITER), 3 * '=== x ===\na {"a":1}\nx\n')
    assert [row["computation"] for row in again] == ["x", "x#2", "x#3"]


@pytest.mark.parametrize(
    ("clock", "code"),
    [
        ('{"a":1', "no-match"),
        ('{"a":1,}', "not-json"),
        ('{"a":1, "a":2}', "duplicate-key"),
        ('{"b":1}', "bad-clock"),
        ('{"a":0}', "bad-clock"),
        ('{"a":-1}', "bad-clock"),
        ('{"a":"1"}', "bad-clock"),
        ('{"a":1.5}', "bad-clock"),
        ('{"a":true}', "bad-clock"),
        ('{"a":{}}', "bad-clock"),
        ('{"a":9007199254740993}', "bad-clock"),
        ('{"a":1, "b":99999999999999999999}', "number-out-of-range"),
        ('{"a":1, "b":1}', "unknown-process"),
        ('{"a":1, "z":2}', "unknown-event"),
        ('{"a":1, "z":1, "b":0}', None),
        ('{"a":9007199254740992}', None),
    ],
)
def test_a_clock_that_says_nothing_true_quarantines_its_event(clock: str, code: str | None) -> None:
    """A cause that does not exist, or a count that is none, would hang the event on nothing."""
    found = rows(ShiViz(), f'z {{"z":1}}\nbefore\na {clock}\nevent\nz {{"z":3}}\nafter')
    assert set(codes(found)) == {None, code}
    assert codes(found)[0] is codes(found)[-1] is None


def test_along_a_host_clocks_only_grow() -> None:
    """A clock that forgets, or two clocks for one event, tells that the log mixes executions."""
    hosts = "".join(f'z {{"z":{n}}}\nevent\n' for n in range(1, 6))
    log = hosts + "".join(
        f"a {clock}\nevent\n"
        for clock in (
            '{"a":1, "z":3}',
            '{"a":2, "z":2}',
            '{"a":3, "z":4}',
            '{"a":3, "z":4}',
            '{"a":3, "z":5}',
            '{"a":2, "z":5}',
            '{"a":2, "z":3}',
            '{"a":7, "z":5}',
        )
    )
    found = rows(ShiViz(), log)[5:]
    backwards = "clock-backwards"
    assert codes(found) == [None, backwards, None, None, backwards, backwards, None, None]
    assert [row.get("receives") for row in found if "reason" not in row] == ["z:3", "z:4", "z:4", "z:3", "z:5"]


def test_the_event_after_one_quarantined_inherits_its_causes() -> None:
    """Otherwise one bad entry would cut everything that came with it out of the past of all later events."""
    log = 'z {"z":1}\nx\na {"a":1, "z":1, "ghost":4}\nx\na {"a":2, "z":1, "ghost":4}\nx\n'
    found = rows(ShiViz(), log)
    assert codes(found) == [None, "unknown-process", None]
    assert found[2]["receives"] == "z:1"


def test_a_log_that_is_a_part_leaves_absent_causes_to_the_observer() -> None:
    """GoVector writes a file a process: the cause may stand in another."""
    log = 'a {"a":1, "z":1}\nx\n'
    assert codes(rows(ShiViz(), log)) == ["unknown-process"]
    assert rows(ShiViz(complete=False), log)[0]["receives"] == "z:1"


@pytest.mark.parametrize(
    "regex",
    [
        r"(?<host>\S*) (?<clock>{.*})\n(?<event>.*)",
        r"(?P<host>\S*) (?P<clock>{.*})\n(?P<event>.*)",
        r"^(?<host>\w+) (?<clock>\{[^}]*\})$\n^(?<event>.*)$",
        r"(?<q>)(?<host>\S+?)\k<q> (?<clock>{.*?})\n(?<event>(?<=\n).*)",
    ],
)
def test_expressions_of_javascript_and_of_python(regex: str) -> None:
    """Users bring the expression that they have for ShiViz; CRLF files are the same text."""
    log = (SAMPLES / "shop.log").read_bytes()
    expected = table(ShiViz(), log).drop_columns("attributes")
    assert table(ShiViz(regex=regex), log).drop_columns("attributes").equals(expected)
    assert table(ShiViz(regex=regex), log.replace(b"\n", b"\r\n")).drop_columns("attributes").equals(expected)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"regex": "(?<host>a"}, "the regex of an event is no regular expression"),
        ({"regex": "(?<host>a)"}, r"needs the named group \(\?<clock>"),
        ({"regex": "x"}, r"needs the named groups \(\?<host>\.\.\.\) and \(\?<clock>"),
        ({"delimiter": "*"}, "the delimiter of executions is no regular expression"),
    ],
)
def test_an_expression_that_cannot_work_is_refused_at_once(options: dict[str, str], complaint: str) -> None:
    """Not after an hour, once for each line."""
    with pytest.raises(SourceError, match=complaint):
        ShiViz(**options)


def test_times_are_taken_where_they_are_times() -> None:
    """A date that nobody can read must stay to be seen, and must not become a time."""
    regex = r"(?<date>.*?);(?<time>.*?);(?<host>\S*) (?<clock>{.*})"
    given = ["2024-05-01;12:00:00Z", "77;", "5/27/2013;10:53 AM", ";", "1714564800000000001;", ";-9223372036854775808"]
    given += ["9223372036854775808;", "12345678901234567890;"]
    log = "".join(f'{times};a {{"a":{n}}}\n' for n, times in enumerate(given, start=1))
    found = rows(ShiViz(regex=regex), log)
    nanoseconds = 1_714_564_800_000_000_001
    times = [row.get("time") for row in found]
    assert times == [nanoseconds - 1, 77, None, None, nanoseconds, -(1 << 63), None, None]
    assert found[2]["attributes"] == '{"date":"5/27/2013","time":"10:53 AM"}'


@settings(max_examples=60)
@given(st.lists(st.integers(0, 50) | st.integers(300, 600), min_size=1, max_size=12), st.integers(1, 40))
def test_a_window_over_the_text_changes_nothing_but_what_it_cannot_see(sizes: list[int], read_bytes: int) -> None:
    """Memory stays bounded on a file of any size; that must not depend on how the bytes come in."""
    log = "".join(f'h {{"h":{n}}}\n{"é" * size}\n' for n, size in enumerate(sizes, start=1))
    whole = rows(ShiViz(), log)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(shiviz, "TextWindow", partial(TextWindow, window_characters=256, read_bytes=read_bytes))
        seen = rows(ShiViz(), log)
        patched.setattr(shiviz, "TextWindow", partial(TextWindow, window_characters=256, read_bytes=10_000))
        assert seen == rows(ShiViz(), log)
    assert [row.get("name", "") for row in whole] == ["é" * size for size in sizes]
    events = [row for row in seen if "reason" not in row]
    for event, size in zip(events, sizes, strict=True):
        name = event.get("name", "")
        assert name == "é" * size or (size >= 300 and name == "é" * len(name))
    for size, row in zip(sizes, events, strict=True):
        # The rest of what is longer than the window is told, and itself cut.
        told = [each["text"] for each in seen if "reason" in each and row["place"] <= each["place"] <= row["place"] + 1]
        assert bool(told) == (row.get("name", "") != "é" * size)


@pytest.mark.parametrize("most_held", [0, 250])
def test_executions_that_are_too_long_to_hold_are_read_alike(monkeypatch: pytest.MonkeyPatch, most_held: int) -> None:
    """A clock may name an event further on: rows must not depend on whether memory held all that lies between."""
    executions_of = [
        "".join(f'a {{"a":{n}, "b":{n}}}\nx\n' for n in range(1, 2 + size))
        + "".join(f'b {{"b":{n}}}\ny\n' for n in range(1, 1 + size))
        for size in (1, 30, 2, 40)
    ]
    log, source = "--\n".join(executions_of), ShiViz(delimiter="^--$")
    held = table(source, log)
    assert [held["reason"].null_count, held.num_rows] == [146, 150]
    monkeypatch.setattr(shiviz, "MOST_HELD_CHARACTERS", most_held)
    assert table(source, log) == held


def test_bytes_that_are_no_text_quarantine_their_event_alone() -> None:
    """One broken byte in a message must not take the file with it, nor pass as something it is not."""
    log = b'a {"a":1}\nfirst\na {"a":2}\n\xff\na {"a":3}\nthird\n'
    found = rows(ShiViz(), log)
    assert codes(found) == [None, "not-utf8", None]


def test_a_clock_that_is_quarantined_is_no_evidence_against_others() -> None:
    """One corrupt clock would take all later events of its host with it."""
    log = "".join(f'a {{"a":{n}}}\nx\n' for n in range(1, 3)) + 'b {"b":1}\nx\nb {"b":2, "a":500}\ncorrupt\n'
    log += "".join(f'b {{"b":{n}, "a":2}}\nx\n' for n in range(3, 6))
    assert codes(rows(ShiViz(), log.encode())) == [None] * 3 + ["unknown-event"] + [None] * 3


@pytest.mark.parametrize("header", ["", "a title\n"])
def test_text_before_or_after_the_clock_is_told_by_the_ends_of_the_file(header: str) -> None:
    """Both layouts alternate lines: read the wrong way round, every event gets the text of another."""
    clock_first = header + 'web {"web":1}\norder placed\npay {"pay":1, "web":1}\ncharge\n'
    event_first = 'order placed\nweb {"web":1}\ncharge\npay {"pay":1, "web":1}\n'
    for log in (clock_first, event_first):
        named = {row["process"]: row["name"] for row in rows(ShiViz(), log) if "reason" not in row}
        assert named == {"web": "order placed", "pay": "charge"}


EXPRESSIONS = [
    CLOCK_FIRST,
    EVENT_FIRST,
    r"(?<host>\w+) (?<clock>{.*})",
    r"(?<host>[ab]+) (?<clock>{.*?})(?<event>.?)",
    r"(?<event>\d+: \w*)\n(?<host>\w+) (?<clock>{.*})",
    r"^(?<host>\S*) (?<clock>{.*})$",
    r"(?<host>a|b) (?<clock>\{1\})|(?<event>1: )",
    r"(?<host>(?:a*b)*)(?<clock>{?)",
]
DELIMITERS = [None, "^--$", "--", r"-(?<trace>\w*)-\n?"]


def as_shiviz_reads(text: str, event: str, delimiter: str | None) -> list[tuple[int, int, str]]:
    """Number of the execution, line and text of each event: all text at once, split, then matched from left to right."""

    def found(expression: str, stretch: str) -> list[re.Match[str]]:
        pattern = re.compile(expression.replace("(?<", "(?P<"), re.MULTILINE | re.ASCII)
        return [match for match in pattern.finditer(stretch) if match[0]]

    stretches, start = [], 0
    for border in found(delimiter, text) if delimiter else []:
        stretches.append((start, text[start : border.start()]))
        start = border.end()
    stretches.append((start, text[start:]))
    number, events = 0, []
    for start, stretch in stretches:
        number += bool(stretch.strip())
        at = [(match, text.count("\n", 0, start + match.start()) + 1) for match in found(event, stretch)]
        events += [(number, line, match[0]) for match, line in at]
    return events


def as_we_read(
    text: str, event: str, delimiter: str | None, *, is_trusted: bool = False, **window: int
) -> list[tuple[int, int, str, bool]]:
    """Number of the execution, line and text of each event and of what is none; and whether it is one."""
    expression = compile_javascript(event, what="", is_trusted=is_trusted)
    border = None if delimiter is None else compile_javascript(delimiter, what="")
    read: list[tuple[int, int, str, bool]] = []
    for each in find_events(TextWindow(piece(text.encode()), **window), expression, border, "sample"):
        if isinstance(each, Leftover):
            read.append((each.execution.number, each.line, each.text, False))
        else:
            at = zip(each.lines, each.matches, strict=True)
            read += [(each.execution.number, line, found[0], True) for line, found in at]
    return read


PIECES = st.sampled_from(["a", "b", " ", " {1}", "\n", "\n", "--", "-", "1: ", "x", "{", "}"])


@given(
    st.lists(PIECES, max_size=60).map("".join).filter(lambda text: all(len(line) < 30 for line in text.split("\n"))),
    st.sampled_from(EXPRESSIONS),
    st.sampled_from(DELIMITERS),
    st.integers(1, 40),
)
def test_events_are_found_where_shiviz_finds_them(text: str, event: str, delimiter: str | None, read: int) -> None:
    """An expression that works in ShiViz would find nothing here, or other events, if it begins amid a line."""
    expected = as_shiviz_reads(text, event, delimiter)
    for window in ({}, {"window_characters": 256, "read_bytes": read}):
        found = as_we_read(text, event, delimiter, **window)
        assert found == as_we_read(text, event, delimiter, is_trusted=True, **window)
        assert [each[:3] for each in found if each[3]] == expected
        shown = "".join(each[2] for each in found)
        between = re.sub((delimiter or "$^").replace("(?<trace>", "(?:"), "", text, flags=re.MULTILINE)
        assert "".join(shown.split()) == "".join(between.split()), "nothing is dropped"


@pytest.mark.parametrize("regex", [None, EVENT_FIRST, r"(?<time>[^;]*);(?<host>\S+ ?) (?<clock>{.*})"])
def test_a_long_line_without_an_event_is_looked_through_once(regex: str | None) -> None:
    """A picture in a log, as one line of text, would hold up the run for hours: once for each of its characters."""
    log = f'a {{"a":1}}\nfirst\n{"x" * 300_000}\na {{"a":2}}\nlast\n'
    found = as_we_read(log, regex or CLOCK_FIRST, None)
    assert sum("x" * 300_000 in text for _, _, text, is_event in found if not is_event) <= 1


def test_a_behaviour_that_tla_prints_is_read() -> None:
    """TLA+ users bring the expression of its ShiViz module: it begins amid a line, and clocks stand in quotes."""
    regex = r'(?<event>[0-9]+: <\w*) .*>\n\/\\ Host = (?<host>.*)\n\/\\ Clock = "(?<clock>.*)"\n\/\\ sent = (?<sent>.*)'
    steps = [
        ("Ask", "n1", {"n1": 1, "n2": 0}),
        ("Answer", "n2", {"n1": 1, "n2": 1}),
        ("Hear", "n1", {"n1": 2, "n2": 1}),
    ]
    log = "Error: Invariant Inv is violated.\nState 1: <Initial predicate>\n/\\ sent = 0\n\n"
    for number, (action, host, clock) in enumerate(steps, start=2):
        shown = "{" + ",".join(f'\\"{name}\\":{count}' for name, count in clock.items()) + "}"
        log += f"State {number}: <{action} line 3, col 1 to line 4, col 9 of module Shop>\n"
        log += f'/\\ Host = {host}\n/\\ Clock = "{shown}"\n/\\ sent = {number}\n\n'
    found = [row for row in rows(ShiViz(regex=regex), log) if "reason" not in row]
    seen = [(row["process"], row["seq"], row["name"], row.get("receives"), row["attributes"]) for row in found]
    assert seen == [
        ("n1", 1, "2: <Ask", None, '{"sent":"2"}'),
        ("n2", 1, "3: <Answer", "n1:1", '{"sent":"3"}'),
        ("n1", 2, "4: <Hear", "n2:1", '{"sent":"4"}'),
    ]
    assert [row["place"] for row in found] == [5, 10, 15]


@pytest.mark.parametrize("clock", [r"{\"a\":1", r"{\"a\":1\}", r"{\"a\\\"\":1}", r'{\"a":1}', r"{\u0022a\u0022:1}"])
def test_a_clock_that_is_escaped_by_half_is_quarantined(clock: str) -> None:
    """A guess at a broken clock would make an event of another process."""
    (only,) = rows(ShiViz(regex=r"(?<host>\S*) (?<clock>.*)"), f"a {clock}\n")
    assert only["reason"].partition(":")[0] in ("not-json", "bad-clock")


CLOCK = st.lists(
    st.tuples(
        st.sampled_from(['"a"', '"b:c"', '"a" ', '"\\u0061"', '"é"', '""', '"\\u0000"', "a"]),
        st.sampled_from(("1", "2", "0", str(2**53), str(2**53 + 1), *VALUES)),
    ).map(":".join),
    max_size=4,
).flatmap(lambda parts: st.sampled_from([",", ", "]).map(lambda comma: "{" + comma.join(['"a":1', *parts]) + "}"))
LINES = st.one_of(
    CLOCK.map("a {}\nevent".format), CLOCK.map("é:1 {}\r\n".format), st.sampled_from(["", "\0", "\ufeff", "a {"])
)


@settings(max_examples=300)
@given(st.lists(LINES, max_size=5).map("\n".join))
def test_quick_reading_of_clocks_gives_the_rows_of_exact_reading(log: str) -> None:
    """Otherwise a clock would count one way as GoVector writes it, and another with a space more."""
    quick = table(ShiViz(), log)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stamped_text, "_quick_clocks", lambda *_: None)
        assert quick == table(ShiViz(), log)


EXPONENTIAL = r"^(?<event>(\w|\w\w)*)!\n(?<host>\S*) (?<clock>{.*})"
"""Digits are taken by one or by two: 60 of them without an exclamation mark can be divided in a trillion ways."""
SLOW_LINE = "1" * 60


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(javascript, "LINE_SECONDS", 0.05)


@pytest.mark.usefixtures("impatient")
def test_a_line_for_which_the_expression_takes_too_long_is_quarantined() -> None:
    """Without a limit, one line of one file would keep observe busy for years."""
    log = f'one!\na {{"a":1}}\n{SLOW_LINE}\na {{"a":9}}\ntwo!\na {{"a":2}}\n'
    found = rows(ShiViz(regex=EXPONENTIAL), log)
    assert [(row.get("name"), row["place"]) for row in found] == [("one", 1), (None, 3), (None, 4), ("two", 5)]
    assert codes(found) == [None, "too-slow", "no-match", None]
    assert found[1]["text"] == SLOW_LINE


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("options", [{"regex": EXPONENTIAL}, {"delimiter": r"^(\w|\w\w)*!$"}])
def test_an_expression_that_takes_too_long_again_and_again_is_refused(options: dict[str, str]) -> None:
    """The user must learn which of the expressions it is, and soon."""
    # An expression that needs an exclamation mark is not tried at all on a text without one.
    log = f"{SLOW_LINE}\n" * executions.MOST_SLOW_LINES + "!\n"
    with pytest.raises(SourceError, match=re.escape(repr(next(iter(options.values()))))):
        rows(ShiViz(**options), log)


PIECES = (
    *(
        r"\w+",
        r"(?<x>a*)",
        "(?<b>b)?",
        "(?<e>(?<d>[^a])|a)+",
        "(a|ab)",
        "(a*)*",
        "(?:a|b)+?",
        "[^b]",
        "[[ab]",
        r"\b",
        "^",
        "$",
        "(?=b)",
        "(?!a)",
        "(?<=a)",
        "(?<!b)",
    ),
    *(
        "{e}",
        "{",
        "a{1,2}",
        "{,1}",
        "b?",
        ".*",
        r"\S*",
        r"\s",
        r"\n",
        "(b)?",
        "|",
        "[a-b&&b]",
        "é",
        r"\d",
        "[[:alpha:]]",
        "(?i)",
    ),
)


@settings(max_examples=500)
@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=5), st.text("ab1 {e}\n[é:", max_size=20), st.data())
def test_expressions_of_users_find_what_those_of_python_find(pieces: list[str], text: str, data: st.DataObject) -> None:
    """They are run by another package, so that they can be stopped, and must mean the same as before."""
    try:
        usual = compile_javascript("".join(pieces), what="", is_trusted=True)
    except SourceError:
        return
    watched = compile_javascript("".join(pieces), what="")
    start = data.draw(st.integers(0, len(text)))
    stop = data.draw(st.integers(start, len(text)))
    for one, other in ((usual, watched), (watched, usual)):
        found, expected = one.search(text, start, stop), other.search(text, start, stop)
        assert (found and (found.span(), found[0])) == (expected and (expected.span(), expected[0]))
        assert (found and list(found.groupdict().items())) == (expected and list(expected.groupdict().items()))
    each, at = [], start
    while (expected := usual.search(text, at, stop)) is not None:
        each.append((expected.span(), expected.groups()))
        at = expected.end()
    horizon = data.draw(st.integers(start, stop + 1))
    for one in (usual, watched):
        one.append_matches(text, start, stop, horizon, together := [])
        assert [(found.span(), found.groups()) for found in together] == [one for one in each if one[0][0] < horizon]
    line_end = text.find("\n", start, stop) + 1 or stop
    in_line = watched.search_line(text, start, stop, line_end)
    expected = usual.search(text, start, stop)
    assert (in_line and in_line.span()) == (expected.span() if expected and expected.start() < line_end else None)
