from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from jsonschema import Draft202012Validator
from typer.testing import CliRunner

from ledto.cli.main import cli
from ledto.cli.schema import make_schemas
from ledto.papers.report import Effort
from ledto.papers.reproduce import reproduce
from ledto.spark.sweep import sweep

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STEMS = {
    "observer": [
        *("fig2_eps", "fig3_delta", "fig4_rate", "fig5_processes", "fig6_partial_10", "fig7_partial_50"),
        *("clocks", "tradeoff"),
    ],
    "hcg": ["hcg_fig8_ordered"],
    "rpc": ["rpc_fig6_round_trip", "rpc_fig7_client_cpu"],
}


SOME: list[tuple[dict[str, list[str]], set[str]]] = [
    ({"observer": ["fig4_rate"], "hcg": STEMS["hcg"]}, {"fig4", "fig8"}),
    ({"rpc": STEMS["rpc"]}, set()),
]


@pytest.fixture(scope="module", params=SOME, ids=["observer and hcg", "rpc"])
def some(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, list[str]]]:
    """A few figures, computed in this process, and their names."""
    stems, only = request.param
    made = tmp_path_factory.mktemp("some")
    reproduce([*stems], made, Effort(seeds=2, messages=200, quick=True), only=frozenset(only))
    return made, stems


@pytest.fixture(scope="module")
def everything(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All of them, computed by Spark: a minute, of which the observer's figures take most."""
    made = tmp_path_factory.mktemp("everything")
    effort = Effort(seeds=2, messages=1000, quick=True)
    reproduce([*STEMS], made, effort, run_tasks=lambda tasks: sweep(spark.sparkContext, tasks))
    return made


def rows(folder: Path, stem: str) -> list[dict[str, str]]:
    with (folder / f"{stem}.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_every_figure_that_was_asked_for_is_there(some: tuple[Path, dict[str, list[str]]]) -> None:
    """A figure that is silently left out would look like one that was reproduced."""
    check_files(*some)


@pytest.mark.slow
def test_every_promised_file_is_there(everything: Path) -> None:
    """The same of all figures."""
    check_files(everything, STEMS)


def check_files(folder: Path, expected: dict[str, list[str]]) -> None:
    figures = {f"{stem}.{kind}" for stems in expected.values() for stem in stems for kind in ("csv", "svg", "png")}
    others = {"stated.csv", "REPORT.md"} | ({"rpc_table1.csv"} if "rpc" in expected else set())
    assert {path.name for path in folder.iterdir()} == figures | others
    assert all(path.stat().st_size > 100 for path in folder.iterdir())


@pytest.mark.slow
def test_verdicts_follow_from_the_published_numbers(everything: Path) -> None:
    """A reader who recomputes a verdict from the CSVs must reach the same one; none may be typed in."""

    def mean(row: dict[str, str]) -> float:
        return float(row["average_pct"])

    partial, rates = rows(everything, "fig6_partial_10"), rows(everything, "fig4_rate")
    wholes = [row for stem in STEMS["observer"][:4] for row in rows(everything, stem)]

    def at_full_wait(preset: str, scheme: str) -> list[float]:
        return [mean(r) for r in partial if (r["preset"], r["scheme"], r["phi_pct"]) == (preset, scheme, "100")]

    expected = {}
    for preset in ("closest", "literal"):
        expected[preset, "the physical clock alone (DPC1): 30-50% even at φ = 100%"] = all(
            30 <= value <= 50 for value in at_full_wait(preset, "dpc1")
        )
        expected[preset, "2 kn elements: 10-15%"] = all(10 <= value <= 15 for value in at_full_wait(preset, "cbd-2"))
        expected[preset, "φ = 100% delivers in perfect causal order"] = all(
            float(row["pairs"]) == 0 for row in wholes if row["preset"] == preset and row["phi_pct"] == "100"
        )
        expected[preset, "CBD with the shorter delays: 0-2%"] = all(
            mean(row) <= 2 for row in rates if row["preset"] == preset and row["panel"] == "d"
        )
    found = {(row["reading"], row["says"]): row["verdict"] for row in rows(everything, "stated")}
    assert {key: found[key] for key in expected} == {key: "met" if met else "missed" for key, met in expected.items()}
    assert {*expected.values()} == {True, False}


def test_the_report_hides_nothing(some: tuple[Path, dict[str, list[str]]]) -> None:
    """Missed statements, and who set the limits, are the part of a reproduction that is easiest to lose."""
    check_report(some[0])


@pytest.mark.slow
def test_the_whole_report_hides_nothing(everything: Path) -> None:
    """The same of all statements."""
    check_report(everything)


def check_report(folder: Path) -> None:
    report = (folder / "REPORT.md").read_text(encoding="utf-8")
    stated = rows(folder, "stated")
    lines = [line for line in report.splitlines() if line.startswith("| ") and "**: " in line]
    assert len(lines) == len({(row["paper"], row["where"], row["says"], row["check"]) for row in stated})
    for row in stated:
        verdict = f"**{row['verdict']}**: {row['obtained']} |"
        assert any(f"| {row['says']} | {row['check']} | {row['limit']} |" in line and verdict in line for line in lines)
    check_summary(report, stated)
    assert "preliminary results were already known" in " ".join(report.split())
    assert "A quick run" in report
    assert {row["verdict"] for row in stated} == {"met", "missed"}


def check_summary(report: str, stated: list[dict[str, str]]) -> None:
    """Every claim is once in the summary, under what its verdicts say."""
    summary = report[report.index("## In short") : report.index("Limits marked")]
    words = {}
    for row in stated:
        words.setdefault((row["paper"], row["says"], row["where"], row["check"]), []).append(row["verdict"])
    named = {True: "- **Stand**", False: "- **Fall**"}
    for (_, says, where, _), verdicts in words.items():
        start = named[verdicts[0] == "met"] if len({*verdicts}) == 1 else "- **Depend on the reading**"
        assert any(line.startswith(start) and f"{says} ({where})" in line for line in summary.splitlines())
    assert all(len(part.splitlines()) <= 10 for part in summary.split("\n\n"))
    assert "- **Use**: " in summary


@pytest.mark.slow
def test_a_figure_alone_has_the_same_bytes(everything: Path, spark: SparkSession, tmp_path: Path) -> None:
    """Without this, two people with the same seeds could not compare files."""
    done = CliRunner().invoke(cli, ["reproduce", "observer", "--quick", "--only", "fig4", "--to", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert {path.name for path in tmp_path.iterdir()} == {
        *("fig4_rate.csv", "fig4_rate.svg", "fig4_rate.png", "stated.csv", "REPORT.md")
    }
    for kind in ("csv", "svg", "png"):
        assert (tmp_path / f"fig4_rate.{kind}").read_bytes() == (everything / f"fig4_rate.{kind}").read_bytes()


def test_stamps_of_autonomous_instances_are_exact(spark: SparkSession, tmp_path: Path) -> None:
    """Lemma 5.1: a growth curve of stamps that get causality wrong would compare nothing."""
    done = CliRunner().invoke(cli, ["reproduce", "autonomous", "--quick", "--to", str(tmp_path), "--json"])
    assert done.exit_code == 0, done.output
    Draft202012Validator(make_schemas()["reproduce"]).validate(json.loads(done.stdout))
    assert json.loads(done.stdout)["report"] == str(tmp_path / "REPORT.md")
    exact = [row for row in rows(tmp_path, "stated") if row["where"] == "5, Lemma 5.1"]
    assert [row["verdict"] for row in exact] == ["met"] * 3
    assert (tmp_path / "autonomous_growth.svg").exists()
