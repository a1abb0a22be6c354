"""What a stream began with, and what a command line says of it."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from ledto.cli.follow import TermsGiven, _ProgressPrinter
from ledto.cli.main import cli
from ledto.events.schema import REPORTS
from ledto.live import LiveWriter, OtherTerms
from tests.history.building import draw, write_history
from tests.live.streams import DELTA, EPS, MS, kind_stream, terms


@pytest.fixture
def history(tmp_path: Path) -> str:
    """A stream that has begun under exact and cbd, with eps and delta given."""
    place = str(tmp_path / "h")
    _, rows = kind_stream(Random(1), processes=2, events=5)
    with LiveWriter(place, terms(policies=("exact", "cbd:0.4"))) as writer:
        writer.step(rows, now=rows["arrival"][-1].as_py(), positions={"ledto": 7})
    return place


def test_a_stream_goes_on_when_what_is_said_of_it_is_so(history: str) -> None:
    """A user would have to repeat every option of the first start, or be told of terms that are not other ones."""
    nothing = TermsGiven(None, None, None)
    assert nothing.terms(history) is None
    assert TermsGiven(None, EPS, None).terms(history) is None
    assert TermsGiven(["exact", "cbd:40%"], None, DELTA).terms(history) is None
    with LiveWriter(history, nothing.terms(history)) as writer:
        assert writer.terms == terms(policies=("exact", "cbd:0.4"))


@pytest.mark.parametrize(
    "given",
    [
        TermsGiven(["cbd:0.4", "exact"], None, None),
        TermsGiven(None, EPS + 1, None),
        TermsGiven(None, None, DELTA + MS),
    ],
)
def test_a_stream_does_not_go_on_under_other_terms(history: str, given: TermsGiven) -> None:
    """Deliveries before and after a restart would follow different rules, and nobody would know."""
    with pytest.raises(OtherTerms, match=r"began with exact, cbd-0\.4, eps 60 ms and delta 500 ms"):
        given.terms(history)


@pytest.mark.parametrize("command", ["serve --to {}", "observe --follow logs --once --to {}"])
def test_what_the_stream_would_refuse_is_refused_before_anything_starts(
    history: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """The service would start a stream that fails, again and again, and take reports that nobody reads."""
    monkeypatch.chdir(tmp_path)
    write_history(tmp_path / "whole", [(draw(Random(1), "", 2, 5), [])], [])
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").touch()
    (tmp_path / "logs").mkdir()
    asked = {
        f"{history} --eps 1s": "leave out what says otherwise, or name another folder",
        "whole": "was made at once: name another folder",
        "other": "it has thesis.tex",
        "new --policy fast": "no delivery policy is called 'fast'",
        "new --policy cbd": "write cbd:0.6",
        "new --delta 999h --eps 1us": "--delta: at most 277076s",
        "new --eps 99999999999999999999999s": "--eps: at most 2305843009s",
    }
    for arguments, said in asked.items():
        done = CliRunner(env={"COLUMNS": "400"}).invoke(cli, command.format(arguments).split())
        assert done.exit_code in (1, 2), arguments
        assert said in " ".join(done.output.split()), arguments
        assert "Traceback" not in done.output
    assert sorted(path.name for path in tmp_path.iterdir()) == ["h", "logs", "other", "whole"]


@pytest.mark.parametrize("source", ["logs", "nats://127.0.0.1:1/other"])
def test_a_stream_does_not_go_on_with_another_source(
    history: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    """The positions of one source would be taken for those of another, and its first reports passed over."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "logs").mkdir()
    done = CliRunner().invoke(cli, ["observe", "--follow", source, "--to", history, "--once"])
    assert done.exit_code == 1
    assert "began with another source" in done.output


def test_a_stream_says_how_much_of_it_is_provable(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Who follows would take "not known" for a defect, and hear of a collector that loses reports only by open_or_exit."""
    place = str(tmp_path / "h")
    _, rows = kind_stream(Random(3), processes=3, events=40)
    teller = _ProgressPrinter(place, as_json=False)
    with LiveWriter(place, terms()) as writer:
        writer.step(rows, now=rows["arrival"][-1].as_py())
        teller.print_sometimes(writer)
        said = capsys.readouterr().err
        assert f"{len(rows)} events of 3 processes: for all of them it is provable" in said
        gone = rows["process"][0].as_py()
        writer.step(_from(gone, 100, rows), now=rows["arrival"][-1].as_py())
        teller.print_sometimes(writer)
        assert not capsys.readouterr().err
    teller.print_last()
    said = capsys.readouterr().err
    assert f"for 1 a report is missing in their past (first before {gone}:100)" in said
    teller.print_last()
    assert not capsys.readouterr().err


def _from(process: str, seq: int, rows: pa.Table) -> pa.Table:
    """A report with a number that leaves others out."""
    last = rows["arrival"][-1].as_py()
    row = {"computation": "", "process": process, "seq": seq, "time": last, "arrival": last, "kind": "local"}
    return pa.Table.from_pylist([row], REPORTS)
