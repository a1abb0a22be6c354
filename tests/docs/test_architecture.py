"""The map of the house: what ARCHITECTURE.md and GLOSSARY.md name is there."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

import ledto

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = Path(ledto.__file__).parent


def named_modules(page: str) -> set[str]:
    return set(re.findall(r"`(ledto(?:\.\w+)+)`", (ROOT / page).read_text()))


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "GLOSSARY.md", "CONTRIBUTING.md"])
def test_every_module_that_a_page_names_is_there(page: str) -> None:
    """A newcomer follows the walk of one line, and the third room does not exist any more."""
    for name in named_modules(page):
        module, _, attribute = name.rpartition(".")
        is_attribute = find_spec(module) is not None and hasattr(import_module(module), attribute)
        assert is_attribute or find_spec(name) is not None, name


def test_every_folder_is_on_the_map() -> None:
    """A package that the page does not show is found by nobody."""
    page = (ROOT / "ARCHITECTURE.md").read_text()
    folders = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert {folder for folder in folders if f"`{folder}/`" not in page} == set()


def test_every_package_says_what_it_takes_and_gives() -> None:
    """Package docstrings are what a newcomer reads first."""
    for path in PACKAGE.rglob("__init__.py"):
        assert ast.get_docstring(ast.parse(path.read_text())), path


def test_a_class_name_has_one_meaning() -> None:
    """A reader who has met `Message` once must not find three others of that name."""
    places: defaultdict[str, list[str]] = defaultdict(list)
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                places[node.name.lstrip("_")].append(str(path.relative_to(PACKAGE)))
    assert {name: files for name, files in places.items() if len(files) > 1} == {}
