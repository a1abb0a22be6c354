"""``ledto schema``: print the JSON Schema of what a command prints with ``--json``."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any

import typer

from ledto.cli.output import print_json

DRAFT = "https://json-schema.org/draft/2020-12/schema"
LINES = "One object a line."


def schema(
    command: Annotated[
        str | None, typer.Argument(help="A command, such as why.", metavar="COMMAND", show_default="all")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Changes nothing: a schema is JSON.")] = False,
) -> None:
    """Print the JSON Schema of what a command prints with --json.

    Without COMMAND, print an object with the schema of each command.

    Example: ledto schema why
    """
    schemas = make_schemas()
    if command is None:
        print_json(schemas)
        return
    if command not in schemas:
        raise typer.BadParameter(f"one of {', '.join(schemas)}, not {command!r:.60}", param_hint="COMMAND")
    print_json(schemas[command])


@cache
def make_schemas() -> Mapping[str, dict[str, Any]]:
    """Make the schema of each command from the types of its documents."""
    import pydantic

    from ledto.cli import documents as printed
    from ledto.history.damage import FilesChecked
    from ledto.history.manifest import Stream
    from ledto.service.questions import documents as answers

    def describe(kind: Any) -> dict[str, Any]:
        return pydantic.TypeAdapter(kind).json_schema()

    schemas = {
        "observe": _any_of(
            made_at_once=_describe_struct(printed.ObservedDocument),
            follow={**_describe_struct(Stream | None), "description": f"With --follow. {LINES}"},
        ),
        "map": _describe_struct(printed.MappedDocument),
        "serve": _describe_struct(printed.ServedDocument),
        "report": _describe_struct(printed.ReportedDocument),
        "export": _describe_struct(printed.ExportedDocument),
        "simulate": _any_of(
            messages=_describe_struct(printed.SimulatedDocument), history=_describe_struct(printed.RedeliveredDocument)
        ),
        "reproduce": _describe_struct(printed.ReproducedDocument),
        "find": describe(answers.FoundDocument),
        "why": describe(answers.WhyDocument),
        "impact": describe(answers.ImpactDocument),
        "relation": describe(answers.RelationDocument),
        "explain": describe(answers.ExplanationDocument),
        "concurrent": describe(answers.ConcurrentDocument),
        "cut": describe(answers.CutDocument),
        "order": {**describe(answers.OrderedDocument), "description": f"An event. {LINES}"},
        "processes": describe(list[answers.ProcessDocument]),
        "check": _any_of(counts=describe(answers.CheckDocument), files=_describe_struct(FilesChecked)),
        "clocks": describe(answers.ClocksDocument),
        "quarantine": describe(list[answers.QuarantinedDocument]),
        "sql": describe(list[dict[str, Any]]),
        "schema": describe(dict[str, Any]),
    }
    return {
        command: {"$schema": DRAFT, "title": f"ledto {command} --json", **described}
        for command, described in schemas.items()
    }


def _describe_struct(kind: Any) -> dict[str, Any]:
    import msgspec

    return msgspec.json.schema(kind)


def _any_of(**schemas: dict[str, Any]) -> dict[str, Any]:
    """Join the schemas of a command that prints one of several documents."""
    definitions: dict[str, Any] = {}
    for described in schemas.values():
        definitions |= described.pop("$defs", {})
    return {"anyOf": [{"title": name, **described} for name, described in schemas.items()], "$defs": definitions}
