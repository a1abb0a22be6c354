"""Drafts of mappings: a person with a log that nobody has described gets something to start from."""

from __future__ import annotations

import csv
import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from ledto.cli.main import cli
from ledto.sources.contract import SourceError
from ledto.sources.mapping.drafts import draft_mapping
from ledto.sources.mapping.file import read_mapping
from ledto.sources.mapping.suggest import suggest_mapping

JSON_LOG = [
    {
        "ts": 1714564800.25 + i,
        "svc": ("oven", "shelf")[i % 2],
        "machine": f"h{i % 3}",
        "lvl": "INFO",
        "msg": f"loaf {i}",
    }
    for i in range(30)
]
SPANS = [
    {
        "trace_uuid": f"t{i // 3}",
        "span_ref": f"s{i}",
        "parent_ref": f"s{i - 1}" if i % 3 else "NULL",
        "app": ("shop", "pay")[i % 2],
        "host": ("h1", "h2", "h3")[i % 3],
        "began_at": f"2024-05-01 12:00:{i:02} UTC",
        "elapsed_ms": "12",
        "verb": "charge",
        "http_code": "200",
        "note": "two\nlines" if i == 29 else "one, with a comma",
    }
    for i in range(30)
]
TEXTS = {
    "java": "2024-05-01 12:00:{:02},250 [main-{}] ERROR pay.cards.Declined - card declined",
    "spring": "2024-05-01T12:00:{:02}.250+02:00  INFO 17 --- [exec-{}] o.s.web.Shop                 : order placed",
    "python": "2024-05-01 12:00:{:02},250 - pay.cards - WARNING - attempt {}",
    "plain": "[2024-05-01T12:00:{:02}Z] WARN: attempt {}",
    "nginx": '10.0.0.{1} - - [01/May/2024:12:00:{0:02} +0200] "GET /order HTTP/1.1" 502 17 "-" "curl/8"',
    "go": "2024/05/01 12:00:{:02}.250 [error] upstream {} timed out",
}


def test_a_json_log_is_drafted_with_its_machines_and_units(tmp_path: Path) -> None:
    """Without the machine, two instances of a service would be one process, and their clocks would be compared."""
    log = tmp_path / "bakery.log"
    log.write_text("".join(f"{json.dumps(record)}\n" for record in JSON_LOG))
    drafted = draft_mapping([str(log)])
    content = tomllib.loads(drafted.draft.to_toml())
    assert content == {
        "process": "{svc}@{machine}",
        "clock": "machine",
        "time": {"from": "ts", "unit": "s"},
        "name": "msg",
        "severity": "lvl",
    }
    assert [row["process"] for row in drafted.rows[:3]] == ["oven@h0", "shelf@h1", "oven@h2"]
    assert drafted.rows[0]["time"] == 1714564800_250_000_000
    assert not any("reason" in row for row in drafted.rows)


def test_spans_in_a_table_are_drafted_as_spans(tmp_path: Path) -> None:
    """As mere lines they would have no causes."""
    log = tmp_path / "spans.csv"
    with log.open("w", newline="") as file:
        table = csv.DictWriter(file, list(SPANS[0]))
        table.writeheader()
        table.writerows(SPANS)
    # The lines that are looked at to recognise a table may end inside of a quoted value.
    row = "t,{},NULL,shop,h1,2024-05-01 12:01:00 UTC,1,x,200,{}\n"
    with log.open("a") as file:
        file.writelines(row.format(f"x{at}", '"a\nb"' if at == 17 else "y") for at in range(18))
    drafted = draft_mapping([str(log)])
    content = tomllib.loads(drafted.draft.to_toml())
    assert content["format"] == "csv"
    assert content["span"]["parent"] == "parent_ref"
    assert content["span"]["duration"] == {"from": "elapsed_ms", "unit": "ms"}
    assert {row["process"] for row in drafted.rows[:6]} == {"shop@h1", "pay@h2", "shop@h3"}, "machines have clocks"
    assert len({row["line"] for row in drafted.rows}) == 5, "each span has a start and an end"
    assert "line_parent" not in drafted.rows[0], "NULL is no parent"
    assert json.loads(drafted.rows[1]["attributes"])["elapsed_ms"] == 12, "slow spans can be asked for"


@pytest.mark.parametrize("name", TEXTS)
def test_text_of_common_loggers_is_drafted(name: str, tmp_path: Path) -> None:
    """Most logs that people have are text."""
    log = tmp_path / f"{name}.log"
    log.write_text("".join(TEXTS[name].format(i, i % 4) + "\n" for i in range(20)))
    drafted = draft_mapping([str(log)], rows=20)
    assert not drafted.draft.missing
    assert [row.get("reason") for row in drafted.rows] == [None] * 20
    seconds = [row["time"] // 10**9 for row in drafted.rows]
    hours_ahead = 2 if name in ("spring", "nginx") else 0
    assert seconds == [1714564800 - 3600 * hours_ahead + i for i in range(20)]


@pytest.mark.parametrize("wrapper", ["cri", "docker"])
def test_logs_of_containers_are_drafted_from_what_is_in_them(wrapper: str, tmp_path: Path) -> None:
    """The draft was for the lines that Kubernetes or Docker writes: it read no record, or was no use for the log itself."""
    if wrapper == "cri":
        log, process = tmp_path / "pods" / "shop_pay-7f_0f6e" / "app" / "0.log", "shop/pay-7f/app"
    else:
        log, process = tmp_path / f"{'ab' * 32}-json.log", "abababababab"
    log.parent.mkdir(parents=True, exist_ok=True)
    told = [json.dumps({"sev": "info", "logger": f"pay.{at % 2}", "what": f"order {at}"}) for at in range(20)]
    times = [f"2024-05-01T12:00:{at:02}Z" for at in range(20)]
    wrapped = {
        "cri": lambda at: f"{times[at]} stdout F {told[at]}",
        "docker": lambda at: json.dumps(
            {"log": told[at] + "\n", "stream": "stdout", "time": times[at]}, separators=(",", ":")
        ),
    }[wrapper]
    log.write_text("".join(wrapped(at) + "\n" for at in range(20)))
    other = tmp_path / "other.csv"
    other.write_text("day,what\n1,a\n2,b\n")
    drafted = draft_mapping([str(log), str(tmp_path / "other.csv")])
    content = tomllib.loads(drafted.draft.to_toml())
    assert (content["process"], content["time"]) == ("@file", "container.time")
    assert [(row["process"], row["time"] // 10**9 - 1714564800) for row in drafted.rows] == [
        (process, at) for at in range(10)
    ]
    assert drafted.files == (str(log),)
    (left_out,) = drafted.left_out
    assert left_out.startswith(f"{other} is csv")


def test_a_draft_that_reads_few_records_is_not_offered(tmp_path: Path) -> None:
    """A draft looks like help; one by which most rows are bad costs its reader an hour."""
    log = tmp_path / "app.log"
    with_time = [{"msg": "x", "time": f"2024-05-01T12:00:{at:02}Z"} for at in range(20)]
    log.write_text("".join(json.dumps(record) + "\n" for record in ({"msg": "x"},) * 12 + (*with_time,)))
    refused = CliRunner().invoke(cli, ["map", str(log), "--rows", "0"])
    assert refused.exit_code == 1
    assert "10 of its first 10 records cannot be read, as no-order" in " ".join(refused.stderr.split())
    assert not refused.stdout


def test_what_cannot_be_found_is_said(tmp_path: Path) -> None:
    """A draft that silently leaves out the time would fail later, with less help."""
    draft = suggest_mapping([{"a": 1}, {"a": 2}])
    assert [sentence.partition(":")[0] for sentence in draft.missing] == ["time"]
    log = tmp_path / "poem.txt"
    log.write_text("Shall I compare thee\nto a summer's day?\n")
    with pytest.raises(SourceError, match="named groups"):
        draft_mapping([str(log)])
    log.write_text("")
    with pytest.raises(SourceError, match="is empty"):
        draft_mapping([str(log)])


def test_observe_on_an_unknown_file_ends_with_the_draft(tmp_path: Path) -> None:
    """The error of a first try must be the next step."""
    log = tmp_path / "app.log"
    log.write_text("".join(TEXTS["plain"].format(i, i) + "\n" for i in range(20)))
    refused = CliRunner().invoke(cli, ["observe", str(log), "--to", str(tmp_path / "h")])
    assert refused.exit_code == 1
    assert "docs/sources/mapping.md" in refused.output
    assert 'time = "time"' in refused.output
    drafted = CliRunner().invoke(cli, ["map", str(log), "--to", str(tmp_path / "app.toml")])
    assert drafted.exit_code == 0, drafted.output
    made = CliRunner().invoke(
        cli,
        [
            *("observe", str(log), "--mapping", str(tmp_path / "app.toml")),
            *("--engine", "inline", "--to", str(tmp_path / "h"), "--json"),
        ],
    )
    assert made.exit_code == 0, made.output
    assert json.loads(made.stdout)["events"] == 20


def test_the_output_is_a_mapping_with_its_rows_as_comments(tmp_path: Path) -> None:
    """``ledto map x > y`` must be usable as it is."""
    log = tmp_path / "bakery.log"
    log.write_text("".join(f"{json.dumps(record)}\n" for record in JSON_LOG))
    printed = CliRunner().invoke(cli, ["map", str(log)])
    assert printed.exit_code == 0, printed.output
    assert read_mapping(printed.stdout.encode(), "draft").rules
    assert "#   2024-05-01T12:00:00.25" in printed.stdout


values = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8)
nested = st.recursive(
    values, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
)
records = st.dictionaries(
    st.text(max_size=8) | st.sampled_from(["time", "service", "span_id", "trace_id", "parent", "kind", "message_id"]),
    st.recursive(
        values, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_size=6,
)


@given(st.lists(records, max_size=12))
def test_any_records_give_a_mapping_that_can_be_read(given_records: list[dict[str, Any]]) -> None:
    """Hostile names of fields must not break the TOML, nor become keys that nobody wrote."""
    draft = suggest_mapping(given_records)
    content = tomllib.loads(draft.to_toml())
    assert set(content) <= {"process", "clock", "time", "seq", "line", "name", "severity", "event", "span"}
    if not draft.missing:
        assert read_mapping(draft.to_toml().encode(), "draft").rules
