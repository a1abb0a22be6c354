"""``ledto report``, as it is typed."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from typer.testing import CliRunner

from ledto.cli.main import cli
from tests.history.building import Made, draw, write_history


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Made]]:
    folder = tmp_path_factory.mktemp("history")
    return folder, write_history(folder, [(draw(Random(3), "", 4, 60), [30])], [])


def test_a_page_is_written_for_any_event(made: tuple[Path, list[Made]], tmp_path: Path) -> None:
    """A user with an incident of his own gets the same page as the demo's, in a folder that need not exist."""
    history, events = made
    focus = events[-1]
    to = tmp_path / "new" / "page.html"
    done = CliRunner().invoke(cli, ["report", str(history), focus.key, "--to", str(to), "-k", "5"])
    assert done.exit_code == 0, done.output
    assert f"{to}: 5 causes" in done.output
    page = to.read_text()
    last = [event for event in events if event.happened_before(focus)][-5:]
    for event in (*last, focus):
        assert f"<code>{event.key}</code></th>" in page


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (["p0:999"], 1, "there is no event 999"),
        (["@1", "--where", "colour = 1"], 2, "there is no column 'colour'"),
        (["@1", "--beside=-1"], 2, "greater than or equal to 0"),
        (["@1", "--to", "/dev/null/page.html"], 1, "/dev/null/page.html cannot be written"),
    ],
)
def test_what_cannot_be_done_is_said(
    made: tuple[Path, list[Made]], tmp_path: Path, arguments: list[str], status: int, says: str
) -> None:
    """At night, a typing error must give its reason, not a trace-back or an empty page."""
    to = tmp_path / "page.html"
    done = CliRunner(env={"COLUMNS": "200"}).invoke(cli, ["report", str(made[0]), "--to", str(to), *arguments])
    assert done.exit_code == status
    assert says in done.output
    assert not to.exists()
