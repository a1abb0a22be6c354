"""The demo's manners: towards terminals, pipes, and readers that leave early."""

from __future__ import annotations

import io
import shlex
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledto.demo.stage import DemoFailed, Stage, format_command, ledto_command

ENDLESS = """
import sys
from ledto.demo.stage import perform

def play(stage):
    stage.say("first line")
    stage.run([sys.executable, "-c", {child!r}])
    raise AssertionError("the reader has gone, and the demo did not notice")

perform(play)
"""
TALKS = "while True: print('line', flush=True)"


def test_a_reader_that_leaves_early_ends_it_quietly() -> None:
    """``make demo | head`` must show ten lines, and not a trace-back below them or an error of make."""
    with subprocess.Popen(
        [sys.executable, "-c", ENDLESS.format(child=TALKS)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as demo:
        assert demo.stdout is not None
        assert demo.stderr is not None
        assert demo.stdout.readline() == "first line\n"
        demo.stdout.close()
        assert demo.stderr.read() == ""
    assert demo.returncode == 0


def test_what_is_piped_is_plain_and_can_be_typed_again() -> None:
    """A reader copies commands out of a log: no colour codes in them, quotes where a shell needs them, never wrapped."""
    out = io.StringIO()
    words = ["x" * 90, "two words", "[bold]"]
    Stage(out).run([sys.executable, "-c", "import sys; print(*sys.argv[1:])", *words])
    shown = out.getvalue()
    assert "\x1b" not in shown
    asked = f"{'x' * 90} 'two words' '[bold]'\n"
    assert asked in shown
    assert shown.endswith(f"\n{' '.join(words)}\n")


@given(st.lists(st.text(st.characters(min_codepoint=1, exclude_categories=["Cs"])), min_size=1))
def test_a_shell_reads_a_command_as_it_was_run(words: list[str]) -> None:
    """What is shown is typed again, quotes and all, and must mean the same."""
    assert shlex.split(format_command(words)) == words


def test_a_command_that_fails_ends_the_demo() -> None:
    """A demo that goes on after a failure ends in a puzzle instead of the reason."""
    with pytest.raises(DemoFailed, match="ended with status 3") as failed:
        Stage(io.StringIO()).run([sys.executable, "-c", "raise SystemExit(3)"])
    assert failed.value.status == 3


def test_a_false_claim_ends_the_demo() -> None:
    """The demo must not praise an answer that is wrong."""
    out = io.StringIO()
    with pytest.raises(DemoFailed, match="2 and 2 is 5"):
        Stage(out).check("2 and 2 is 5", False)
    assert "✗ 2 and 2 is 5" in out.getvalue()


def test_the_command_shown_is_the_one_of_this_interpreter() -> None:
    """Another ledto on the path, of another version, must not answer in its place."""
    done = subprocess.run([*ledto_command(), "--help"], capture_output=True, text=True, check=True)
    assert "What could have caused this event?" in done.stdout
