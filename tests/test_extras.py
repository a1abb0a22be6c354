"""What works with each extra, and what a user is told where one is missing."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from ledto.extras import EXTRAS, MissingExtra, explain_missing, find_extra, name_missing_extra

HIDE = """
from importlib.machinery import PathFinder

class WithoutPackages:
    @staticmethod
    def find_spec(name, path=None, target=None):
        spec = PathFinder.find_spec(name, path, target)
        places = [] if spec is None else [spec.origin, *(spec.submodule_search_locations or ())]
        hidden = path is None and name not in ALLOWED and any("site-packages" in str(place) for place in places)
        return None if hidden else spec

sys.meta_path[sys.meta_path.index(PathFinder)] = WithoutPackages
"""
"""Where this has run, of all installed packages only those of ALLOWED can be imported, and ledto."""

TELL = """
import sys

def told(ask, *arguments, **options):
    try:
        ask(*arguments, **options)
    except ModuleNotFoundError as missing:
        return str(missing).partition("pip install ")[2]
    return "nothing"
"""

ASK = """
import ledto
h = ledto.observe("shop.jsonl", "shop.history", policies=["exact", "cbd:0.5"])
assert [event.id for event in h.why("web:2").causes] == ["web:1", "stock:1", "stock:2"]
assert [event.id for event in h.impact("web:1").effects] == ["stock:1", "stock:2", "web:2"]
assert h.relation("web:1", "web:2") == "before"
assert [step.kind for step in h.explain("web:1", "stock:2").steps] == ["message", "line"]
assert [event.id for event in h.concurrent("mail:1").events] == [] and h.concurrent("mail:1").unknown == 4
assert h.cut("stock:1").total == 2
assert h.relations([0, 3], [3, 0]).shape == (2,)
assert len(list(h.order())) == len(list(h.order(policy="exact"))) == len(h.order().to_arrow()) == 5
assert len(h.processes().to_arrow()) == 3 and h.check().events == 5 and len(h.clocks().to_arrow()) == 3
assert [report.place for report in h.quarantine()] == [6]
assert "<svg" in h.why("web:2")._repr_html_() and "5 of 3 processes" in h._repr_html_()
assert h.why("web:2", processes=["stock"], names=["reserve"]).causes[0].id == "stock:1"
print(told(h.sql, "SELECT 1"))
print(told(h.why, "web:2", where="status > 3"))
print(told(h.why("web:2").to_pandas))
print(told(h.why("web:2").to_polars))
print(told(ledto.observe, "shop.jsonl", "other.history", engine="spark"))
print(told(ledto.observe, "shop.jsonl", "other.history", format="shiviz", regex="(?<host>.) (?<clock>.)"))
assert {"numba", "pandas", "duckdb", "regex", "google"}.isdisjoint(sys.modules)
"""
SHOP = """\
{"process": "web", "seq": 1, "time": 1700000000000000000, "sends": "m1", "name": "checkout", "status": 200}
{"process": "mail", "seq": 1, "time": 1700000000010000000, "name": "newsletter"}
{"process": "stock", "seq": 1, "time": 1700000000020000000, "receives": "m1", "name": "reserve"}
{"process": "stock", "seq": 2, "time": 1700000000030000000, "sends": "m2", "name": "reserved"}
{"process": "web", "seq": 2, "time": 1700000000040000000, "receives": "m2", "name": "shown", "status": 200}
{"process": "stock",
"""


FORMATS = {
    "otlp": '{"resourceSpans": [{"resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "cart"}}]}, '
    '"scopeSpans": [{"spans": [{"traceId": "5b8efff798038103d269b633813fc60c", "spanId": "eee19b7ec3c1b174", "name": "GET", '
    '"startTimeUnixNano": "1544712660000000000", "endTimeUnixNano": "1544712661000000000"}]}]}]}\n',
    "jaeger": '{"data": [{"traceID": "5b8efff798038103", "spans": '
    '[{"traceID": "5b8efff798038103", "spanID": "eee19b7ec3c1b174", '
    '"operationName": "GET", "startTime": 1544712660000000, "duration": 5, "processID": "p1"}], '
    '"processes": {"p1": {"serviceName": "cart"}}}]}\n',
    "zipkin": '[{"traceId": "5b8efff798038103", "id": "eee19b7ec3c1b174", "name": "get", "timestamp": 1544712660000000, '
    '"duration": 5, "localEndpoint": {"serviceName": "cart"}}]\n',
    "shiviz": 'cart {"cart":1}\nput\nstock {"stock":1, "cart":1}\nreserve\n',
    "tracing": '{"TracerIdentity": "cart", "TraceID": 1, "Tag": "Put", "Body": {}, "VectorClock": {"cart": 1}}\n',
}
"""A small log of each format."""


@pytest.mark.parametrize("format", FORMATS)
def test_a_format_that_needs_no_other_package_is_read(format: str, tmp_path: Path) -> None:
    """Protobuf and regular expressions have packages of their own, which a log without them must not ask for."""
    (tmp_path / "log").write_text(FORMATS[format])
    program = (
        f"import ledto\nh = ledto.observe('log', 'h', format={format!r})\nprint(len(h), len(list(h.quarantine())))"
    )
    (printed,) = run_without(tmp_path, program, "numpy", "pyarrow", "msgspec")
    events, quarantined = printed.split()
    assert int(events) > 0
    assert quarantined == "0"


def run_without(folder: Path, program: str, *allowed: str) -> list[str]:
    """Run a program that can import only these packages besides ledto; return the lines that it prints."""
    (folder / "shop.jsonl").write_text(SHOP)
    done = subprocess.run(
        [sys.executable, "-c", f"ALLOWED = {allowed!r}\n{TELL}\n{HIDE}\n{program}"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_every_question_is_answered_with_three_packages(tmp_path: Path) -> None:
    """Who only asks installs neither Spark nor numba nor pandas, and is told what else to install by its name."""
    lines = run_without(tmp_path, ASK, "numpy", "pyarrow", "msgspec")
    assert lines == [f"'ledto[{extra}]'" for extra in ("sql", "sql", "notebook", "polars", "spark", "formats")]


@pytest.mark.parametrize(
    ("ask", "extra"),
    [
        ("ledto.open('shop.history')", "ask"),
        ("ledto.observe('shop.jsonl', 'shop.history')", "ask"),
        ("__import__('ledto.interop.govector')", "interop"),
    ],
)
def test_the_base_install_names_what_is_missing(ask: str, extra: str, tmp_path: Path) -> None:
    """Without any other package, an error that only says "No module named numpy" leaves a user to guess."""
    assert run_without(tmp_path, f"import ledto\nprint(told(lambda: {ask}))") == [f"'ledto[{extra}]'"]


def test_a_command_names_what_is_missing(tmp_path: Path) -> None:
    """The same for the command line, whatever is missing first."""
    program = "import sys; sys.argv = ['ledto', '--version']\nfrom ledto.cli import app\napp()"
    with pytest.raises(AssertionError, match=r"This command cannot run: typer is not installed.*'ledto\[cli\]'"):
        run_without(tmp_path, program)


def test_a_part_that_the_base_install_has_not_is_named_with_its_extra() -> None:
    """`pip install ledto` alone has no questions: the message must not sound like a broken installation."""
    assert find_extra("ledto.questions.history") == find_extra("ledto.batch") == "ask"
    assert find_extra("ledto.service.serve") == "serve"
    assert "only what an application embeds" in explain_missing("ledto.questions")
    with pytest.raises(MissingExtra, match=r"pip install 'ledto\[ask\]'"), name_missing_extra():
        raise ModuleNotFoundError("No module named 'ledto.questions'", name="ledto.questions")
    with pytest.raises(ModuleNotFoundError, match="somebody") as untouched, name_missing_extra():
        raise ModuleNotFoundError("somebody else's", name="somebody")
    assert not isinstance(untouched.value, MissingExtra)


@pytest.mark.parametrize("module", sorted(set(EXTRAS) - {"nats-server", "py4j"}))
def test_the_extra_that_is_named_installs_the_package(module: str) -> None:
    """A user who does what the message says must not read it again."""
    extra = EXTRAS[module]
    distributions = {name.lower().replace("_", "-") for name in packages_distributions().get(module, [module])}
    if module in ("google", "opentelemetry"):
        distributions = {"protobuf" if module == "google" else "opentelemetry-proto"}
    assert distributions & required_by(extra), (module, distributions)


def required_by(extra: str) -> set[str]:
    """Which packages an extra of ledto installs, with the extras that it includes."""
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    names: set[str] = set()
    for requirement in project["optional-dependencies"][extra]:
        of_ours = re.match(r"ledto\[(.*)\]", requirement)
        if of_ours:
            names |= set().union(*(required_by(part) for part in of_ours[1].split(",")))
        else:
            names |= {re.split(r"[^\w.-]", requirement)[0]}
    return names
