"""Records of text formats, against other readings of the same bytes: Python's csv, the RFCs, writers of the tests."""

from __future__ import annotations

import csv
import io
import json
import re
import struct
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ledto.sources import SourceError
from ledto.sources.mapping.moments import TimeText, check_format, read_zone
from ledto.sources.records.containers import CRI, DOCKER, Unwrapper, container_of, wrapper_of
from ledto.sources.records.contract import DecodedRecords, RecordDecoder
from ledto.sources.records.formats import RECORD_FORMATS, decode_head
from ledto.sources.records.lines import logfmt_record, usual_logfmt
from ledto.sources.records.syslog import FACILITIES, LATEST_NS, SEVERITIES
from ledto.sources.records.typed_text import as_json, typed
from ledto.sources.rows import BadRecord

TEXT = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=12)
WORD = st.text("abcXYZ019_-./é", min_size=1, max_size=8)
CUTS = st.lists(st.integers(1, 4), max_size=12)


def decode(decoder: RecordDecoder, data: bytes, cuts: Sequence[int]) -> DecodedRecords:
    """Decode lines in calls of so many lines each; the rest in one call."""
    lines = data.removesuffix(b"\n").split(b"\n")
    found, start = DecodedRecords(), 0
    for size in (*cuts, len(lines)):
        stop = min(start + size, len(lines))
        kept = [
            (lines[at], at + 1) for at in range(start, stop) if decoder.takes_blank_lines or lines[at].strip(b" \t\r")
        ]
        part = decoder.decode([line for line, _ in kept], [place for _, place in kept], is_last=stop == len(lines))
        found.problems |= {len(found.records) + number: problem for number, problem in part.problems.items()}
        found.records += part.records
        found.places += part.places
        found.raws += part.raws
        start = stop
    return found


CELL = st.text(st.characters(exclude_categories=("Cs", "Cc")) | st.sampled_from('\n",;\t '), max_size=8)


@given(
    rows=st.lists(st.lists(CELL, min_size=3, max_size=3), max_size=8),
    delimiter=st.sampled_from([",", ";", "\t"]),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    cuts=CUTS,
)
def test_a_table_holds_what_another_program_wrote(
    rows: list[list[str]], delimiter: str, quoting: Any, cuts: list[int]
) -> None:
    """Quotes, line ends and separators in values, wherever a block of the file ends: nothing is lost or moved."""
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter, quoting=quoting, lineterminator="\n")
    writer.writerow(["a", "b", "c"])
    writer.writerows(rows)
    data = text.getvalue().encode()
    form = RECORD_FORMATS["tsv" if delimiter == "\t" else "csv"]
    found = decode(form.decoder({}, data), data, cuts)
    truth = list(csv.DictReader(io.StringIO(text.getvalue(), newline=""), delimiter=delimiter))
    blank = [all(not (value or "").strip(" \t\r") for value in row.values()) for row in truth]
    kept = [row for row, is_blank in zip(truth, blank, strict=True) if not is_blank]
    expected = [{name: value for name, value in row.items() if value} for row in kept]
    assert [record for record in found.records if record] == [record for record in expected if record]
    assert not found.problems


def test_a_quote_that_is_never_closed_costs_one_line() -> None:
    """A table whose writer died in the middle of a value: all lines after it would be one value."""
    data = b'a,b\n1,2\n3,"4\n5,6\n7,8\n'
    for cuts in ([], [1, 1, 1, 1, 1], [3]):
        found = decode(RECORD_FORMATS["csv"].decoder({}, data), data, cuts)
        good = [(place, record) for place, record in zip(found.places, found.records, strict=True) if record]
        assert good == [(2, {"a": "1", "b": "2"}), (4, {"a": "5", "b": "6"}), (5, {"a": "7", "b": "8"})]
        assert [found.raws[number] for number in found.problems] == [b'3,"4']


def test_tables_say_what_is_wrong_with_a_line() -> None:
    """A line that does not fit its header is told, with both counts; preambles and nameless columns do no harm."""
    data = b"# made by hand\n,a,a\n1,2,3\n\n1,2\n"
    found = decode(RECORD_FORMATS["csv"].decoder({}, data), data, [])
    assert found.records == [None, {"column_1": "1", "a": "2", "a_3": "3"}, None]
    assert found.places == [1, 3, 5]
    assert found.problems[2] == "bad-columns: 2 values, and the header has 3"
    headless = decode(RECORD_FORMATS["csv"].decoder({"columns": ["x", "y"]}, b"1|2\n"), b"1|2\n", [])
    assert headless.records == [{"x": "1", "y": "2"}]
    with pytest.raises(SourceError, match="the delimiter of csv is one character, not ';;'"):
        RECORD_FORMATS["csv"].decoder({"delimiter": ";;"}, b"")


def write_logfmt(fields: dict[str, str]) -> str:
    """Write as Go's loggers do: in quotes, with escapes, what has spaces, quotes, signs or nothing in it."""
    bare = re.compile(r'[^\s"=\\]+')
    written = {
        key: value if bare.fullmatch(value) and value.isprintable() else json.dumps(value)
        for key, value in fields.items()
    }
    return " ".join(f"{key}={value}" for key, value in written.items())


@given(st.dictionaries(st.text("abc.é_9@", min_size=1, max_size=5), TEXT, min_size=1, max_size=6))
@example({"a": "b=c", "d": "", "e": 'say "x"'})
def test_logfmt_holds_what_was_written(fields: dict[str, str]) -> None:
    """Spaces, quotes, signs and line ends within values belong to the values."""
    assert logfmt_record(write_logfmt(fields).encode()) == fields


@given(
    st.lists(
        st.sampled_from(["a=1", "b=x=y", "c", 'd="q r"', 'e="', "f=", "=g", '"', " ", "h=é", 'i="\\""', 'j="x"y', "\t"])
    )
)
def test_quick_logfmt_is_exact_logfmt(tokens: list[str]) -> None:
    """Lines of usual form are split, others matched: a line must not mean two things."""
    line = " ".join(tokens)
    quick = usual_logfmt(line)
    if quick is not None:
        pairs = re.findall(r'([^\s="]+)=(?:"([^"]*)"|([^\s"]*))(?=\s|$)', line)
        assert quick == {key: quoted or bare for key, quoted, bare in pairs}
        assert len(pairs) == len(quick)


def test_logfmt_refuses_what_is_none() -> None:
    """Plain text among logfmt is set aside, not taken for keys; a key given twice is not decided by its place."""
    assert logfmt_record(b"a=1 flag b=\r") == {"a": "1", "flag": "true", "b": ""}
    for line, code in (
        (b"plain words", "not-logfmt"),
        (b'a="x', "not-logfmt"),
        (b"a=1 a=2", "duplicate-key"),
        (b"a=\xff", "not-utf8"),
    ):
        with pytest.raises(BadRecord, match=code):
            logfmt_record(line)


NAME = st.text("abcXYZ019.-", min_size=1, max_size=6).filter(lambda text: text != "-")


@given(
    pri=st.integers(0, 191),
    header=st.lists(st.none() | NAME, min_size=4, max_size=4),
    elements=st.dictionaries(NAME, st.dictionaries(NAME, st.text('ab "]\\=é', max_size=5), max_size=2), max_size=2),
    message=st.none() | st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=12),
)
def test_lines_of_rfc_5424_hold_their_fields(
    pri: int, header: list[str | None], elements: dict[str, dict[str, str]], message: str | None
) -> None:
    """Section 6 of the RFC, written down once more: header, structured data with its three escapes, message."""

    def escaped(value: str) -> str:
        return value.replace("\\", "\\\\").replace('"', '\\"').replace("]", "\\]")

    def parameters(params: dict[str, str]) -> str:
        return "".join(f' {key}="{escaped(value)}"' for key, value in params.items())

    data = "".join(f"[{name}{parameters(params)}]" for name, params in elements.items())
    words = [field or "-" for field in header]
    line = f"<{pri}>1 2024-05-01T12:00:00.003-07:00 {' '.join(words)} {data or '-'}"
    (record,) = decode_head("syslog", (line + (f" {message}" if message else "") + "\n").encode())
    expected: dict[str, Any] = {
        "facility": FACILITIES[pri // 8],
        "severity": SEVERITIES[pri % 8],
        "time": "2024-05-01T12:00:00.003-07:00",
        **{name: value for name, value in zip(("host", "app", "pid", "msgid"), header, strict=True) if value},
    }
    if elements:
        expected["structured"] = elements
    if message and message.removeprefix("\ufeff"):
        expected["message"] = message.removeprefix("\ufeff")
    assert {name: value for name, value in (record or {}).items() if value != ""} == expected


@given(
    written=st.datetimes(datetime(2001, 1, 1), datetime(2030, 1, 1)),
    age=st.timedeltas(timedelta(0), timedelta(days=363)),
)
def test_lines_without_a_year_are_of_the_last_one_before_the_file_was_written(
    written: datetime, age: timedelta
) -> None:
    """A log of December that is read in January is not eleven months in the future."""
    moment = (written - age).replace(microsecond=0)
    line = f"{moment:%b} {moment.day:2d} {moment:%H:%M:%S} shop pay[7]: x\n".encode()
    latest = int(written.replace(tzinfo=UTC).timestamp()) * 10**9
    (record,) = decode_head("syslog", line, {LATEST_NS: latest})
    assert record is not None
    assert record["time"] == moment.isoformat()
    assert record["assumed_year"] == str(moment.year)
    (given_year,) = decode_head("syslog", line, {LATEST_NS: latest, "year": 2004})
    assert given_year is not None
    assert given_year["time"][:4] == "2004"


FIELD_NAME = st.text("ABC_9", min_size=1, max_size=6).filter(lambda name: not name[0].isdigit())


@given(entries=st.lists(st.dictionaries(FIELD_NAME, TEXT, min_size=1, max_size=4), min_size=1, max_size=4), cuts=CUTS)
def test_the_journal_says_the_same_in_both_its_forms(entries: list[dict[str, str]], cuts: list[int]) -> None:
    """Values with line ends are binary in one form and escaped in the other; an entry may be cut anywhere."""
    exported = b""
    for entry in entries:
        for name, value in entry.items():
            data = value.encode()
            plain = name.encode() + b"=" + data + b"\n"
            binary = name.encode() + b"\n" + struct.pack("<Q", len(data)) + data + b"\n"
            exported += plain if value.isprintable() else binary
        exported += b"\n"
    form = RECORD_FORMATS["journald"]
    assert decode(form.decoder({}, exported), exported, cuts).records == entries
    as_json_lines = b"".join(
        json.dumps(
            {name: value if value.isprintable() else list(value.encode()) for name, value in entry.items()}
        ).encode()
        + b"\n"
        for entry in entries
    )
    assert decode_head("journald", as_json_lines) == entries


@given(
    lines=st.lists(
        st.tuples(st.sampled_from(["stdout", "stderr"]), st.text('ab {}"é', min_size=1, max_size=9), st.integers(1, 4))
    ),
    wrapper=st.sampled_from([CRI, DOCKER]),
    order=st.randoms(use_true_random=False),
)
def test_parts_of_long_lines_are_joined_by_stream(lines: list[tuple[str, str, int]], wrapper: str, order: Any) -> None:
    """Runtimes cut long lines, and parts of two streams alternate: each stream must read as the program wrote it."""
    queues: dict[str, list[bytes]] = {"stdout": [], "stderr": []}
    for stream, text, parts in lines:
        size = -(-len(text) // parts)
        pieces = [text[at : at + size] for at in range(0, len(text), size)]
        for number, part in enumerate(pieces):
            is_last = number == len(pieces) - 1
            if wrapper == CRI:
                queues[stream].append(f"2024-05-01T12:00:00.5Z {stream} {'F' if is_last else 'P'} {part}".encode())
            else:
                log = part + ("\n" if is_last else "")
                queues[stream].append(
                    json.dumps(
                        {"log": log, "stream": stream, "time": "2024-05-01T12:00:00.5Z"}, separators=(",", ":")
                    ).encode()
                )
    wrapped = []
    while any(queues.values()):
        wrapped.append(queues[order.choice([stream for stream, queue in queues.items() if queue])].pop(0))
    unwrapped = Unwrapper(wrapper, "x.log").unwrap(wrapped, range(len(wrapped)), is_last=True)
    for stream in queues:
        found = [
            text.decode()
            for text, place in zip(unwrapped.lines, unwrapped.places, strict=True)
            if unwrapped.containers[place]["stream"] == stream
        ]
        assert found == [text for of_stream, text, _ in lines if of_stream == stream]
    assert set(unwrapped.places) == set(unwrapped.containers)
    assert not wrapped or wrapper_of(b"\n".join(wrapped) + b"\n") == wrapper


def test_paths_of_containers_name_them() -> None:
    """Pods of two namespaces may have one name; a container's id is the only name that Docker gives."""
    uid, long_id = "0f6e9f2c-1111-2222-3333-444455556666", "ab" * 32
    pod = {"namespace": "shop", "pod": "pay-7f9c", "name": "app"}
    assert container_of(f"/var/log/pods/shop_pay-7f9c_{uid}/app/0.log") == pod
    assert container_of(f"var/log/pods/shop_pay-7f9c_{uid}/app/0.log.20240501-120000.gz") == pod
    assert container_of(f"/var/log/containers/pay-7f9c_shop_app-{long_id}.log") == {**pod, "id": "ab" * 6}
    assert container_of(f"/var/lib/docker/containers/{long_id}/{long_id}-json.log") == {"id": "ab" * 6}
    assert container_of("logs/app.log") == {}


def test_lines_that_do_not_match_belong_to_the_record_before() -> None:
    """A stack trace is part of the error that it explains, wherever a block of the file ends."""
    pattern = r"(?<time>\d\S+) (?<level>[A-Z]+) (?<message>.*)"
    data = b"banner\n1:00 ERROR boom\n  at a\n\n  at b\n1:01 INFO ok\n"
    form = RECORD_FORMATS["regex"]
    for cuts in ([], [1] * 6, [3]):
        found = decode(form.decoder({"pattern": pattern}, data), data, cuts)
        assert found.records == [
            None,
            {"time": "1:00", "level": "ERROR", "message": "boom", "continuation": "  at a\n  at b"},
            {"time": "1:01", "level": "INFO", "message": "ok"},
        ]
    alone = decode(form.decoder({"pattern": pattern, "continue": False}, data), data, [])
    assert [record is None for record in alone.records] == [True, False, True, True, False]
    for wrong, complaint in (("(", "no regular expression"), ("abc", "no named groups"), (None, "needs a pattern")):
        with pytest.raises(SourceError, match=complaint):
            form.decoder({"pattern": wrong}, b"")


@given(
    st.from_regex(r"\A-?[0-9]{1,20}(\.[0-9]{1,3})?(e[+-]?[0-9]{1,3})?\Z")
    | TEXT
    | st.sampled_from(["true", "False", "-0", "1e+16", "1e5", "007", "1e5x"])
)
def test_a_text_is_a_number_only_if_it_stays_the_same_text(text: str) -> None:
    """An id with leading zeros, or in hexadecimal digits with an e, must not become another one."""
    written = json.dumps(as_json(text), default=lambda raw: bytes(raw).decode())
    value = typed(text)
    assert isinstance(value, str) or written.strip('"') == text
    if isinstance(value, float):
        assert value == float(text)
    if isinstance(value, str):
        assert value == text
        assert as_json(text) == text
    is_plain = re.fullmatch(r"-?(0|[1-9][0-9]{0,17})(\.[0-9]+)?", text, re.ASCII) is not None and text != "-0"
    assert not is_plain or not isinstance(value, str)
    assert text not in ("007", "1e5", "1e5x", "False", "-0") or isinstance(value, str)


FORMATS = (
    "%d/%b/%Y:%H:%M:%S %z",
    "%Y-%m-%d %H:%M:%S,%f",
    "%a %b %d %H:%M:%S %Y",
    "%m/%d/%y %I:%M:%S %p",
    "%Y%m%dT%H%M%S.%f%z",
    "%j %Y %H",
)


@given(
    moment=st.datetimes(datetime(1970, 1, 2), datetime(2068, 12, 31)),
    offset=st.integers(-14 * 60, 14 * 60),
    form=st.sampled_from(FORMATS),
    zone=st.sampled_from([None, "Europe/Berlin", "America/St_Johns", "+05:30"]),
)
def test_times_of_a_format_are_those_of_strptime(moment: datetime, offset: int, form: str, zone: str | None) -> None:
    """Logs of web servers have times of their own; a zone counts only for those that name no offset."""
    minutes = f"{'-' if offset < 0 else '+'}{abs(offset) // 60:02d}{abs(offset) % 60:02d}"
    text = moment.strftime(form.replace("%z", minutes))
    truth = datetime.strptime(text, form)
    if truth.tzinfo is None:
        truth = truth.replace(tzinfo=read_zone(zone) if zone else UTC)
    since = truth - datetime(1970, 1, 1, tzinfo=UTC)
    expected = (since.days * 86_400 + since.seconds) * 10**9 + since.microseconds * 1_000
    parser = TimeText(form, read_zone(zone) if zone else None)
    assert parser.exact(text, "ns") == expected
    assert parser.quick(text, "ms") == expected // 10**6


@given(moment=st.datetimes(datetime(1980, 1, 1), datetime(2037, 1, 1)), offset=st.sampled_from(["", "Z", "+02:00"]))
def test_iso_times_without_an_offset_are_of_the_zone(moment: datetime, offset: str) -> None:
    """A log in local time that is read as UTC is hours away from those of other machines."""
    text = moment.isoformat(timespec="microseconds") + offset
    parser = TimeText(None, read_zone("America/New_York"))
    truth = datetime.fromisoformat(text)
    truth = truth if offset else truth.replace(tzinfo=ZoneInfo("America/New_York"))
    since = truth - datetime(1970, 1, 1, tzinfo=UTC)
    expected = (since.days * 86_400 + since.seconds) * 10**9 + since.microseconds * 1_000
    assert parser.exact(text, "ns") == expected
    assert parser.quick(text, "ns") in (expected, None)


@pytest.mark.parametrize(
    ("form", "complaint"),
    [("%H:%M", "needs a year"), ("%Y-%m-%d %Q", "%Q, which is not known"), ("%Y %Y", "twice"), ("%Y%", "single %")],
)
def test_a_format_of_times_that_cannot_work_is_refused(form: str, complaint: str) -> None:
    """Told when the mapping is read, not in the reason of every line."""
    with pytest.raises(ValueError, match=complaint):
        check_format(form)
    with pytest.raises(ValueError, match="is a time zone"):
        read_zone("Mars/Olympus")
