"""Find out what the inputs of a run are, before anything heavy starts: which files, in which formats, read by what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

from whence.sources.contract import Source, SourceError
from whence.sources.files import InputFile, find_files
from whence.sources.formats import SOURCES, SPAN_FORMATS, format_options, known_format, source
from whence.sources.parquet import PARQUET_SUFFIXES
from whence.sources.recognising import HEAD_BYTES, recognise

PARQUET: Final = "parquet"
"""Stands in place of a format's name for files that are read as columns."""

_PARQUET_MAGIC = b"PAR1"
_OPENED_AT_ONCE = 16
_TEXT_BYTES_A_PACKED_BYTE = 12
"""How much larger than its file the text of a compressed log, or of a Parquet file, commonly is."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """The files of a run, each with its format. Pickles, so that tasks can read them."""

    files: tuple[InputFile, ...]
    formats: tuple[str, ...]
    """By file."""
    sources: Mapping[str, Source]
    """The reader of each text format that occurs."""
    unit: str

    @property
    def text(self) -> list[tuple[InputFile, Source]]:
        """List the text files, each with its reader."""
        both = zip(self.files, self.formats, strict=True)
        return [(file, self.sources[name]) for file, name in both if name != PARQUET]

    @property
    def parquet(self) -> list[InputFile]:
        """List the Parquet files."""
        return [file for file, name in zip(self.files, self.formats, strict=True) if name == PARQUET]

    @property
    def has_channels(self) -> bool:
        """Tell whether sends and receives may have to be matched by their channel."""
        return any(getattr(each, "has_channels", False) for each in self.sources.values())

    @property
    def text_bytes(self) -> int:
        """Estimate how many bytes of text there are to read."""
        return sum(
            file.size_bytes * (_TEXT_BYTES_A_PACKED_BYTE if file.compression or name == PARQUET else 1)
            for file, name in zip(self.files, self.formats, strict=True)
        )


def find_inputs(
    inputs: Sequence[str], *, format: str | None = None, options: Mapping[str, Any] | None = None
) -> Inputs:
    """Find the files that `inputs` name, as `whence.sources.files.find_files` takes them, and recognise each.

    `format` is a name of `whence.sources.SOURCES`; without one, each file is taken for what its first bytes say.
    `options` are those of the formats: each takes the ones it has. Only the first bytes of files are read. Raises
    `SourceError` for inputs that do not exist, cannot be opened or recognised, and for options that no format has.
    """
    given = {name: value for name, value in (options or {}).items() if value is not None}
    files, formats = _recognise_all(inputs, format, given)
    return Inputs(tuple(files), tuple(formats), _make_sources(formats, given), str(given.get("unit", "ns")))


def _recognise_all(
    inputs: Sequence[str], format: str | None, given: Mapping[str, Any]
) -> tuple[list[InputFile], list[str]]:
    takes_parquet = format in (None, "whence")
    every = [format] if format is not None else list(SOURCES)
    suffixes = [suffix for name in every for suffix in known_format(name).suffixes]
    files = find_files(inputs, tuple(dict.fromkeys((*suffixes, *(PARQUET_SUFFIXES if takes_parquet else ())))))
    with ThreadPoolExecutor(_OPENED_AT_ONCE) as pool:
        heads = list(pool.map(lambda file: file.head(HEAD_BYTES if format is None else 4), files))
    formats = []
    for file, head in zip(files, heads, strict=True):
        if head[:4] == _PARQUET_MAGIC or (takes_parquet and file.suffix in PARQUET_SUFFIXES):
            if not takes_parquet:
                raise SourceError(
                    f"{file.name} is Parquet, which the format {format} does not read; leave out --format"
                )
            formats.append(PARQUET)
        else:
            formats.append(format or _recognise_one(file, head, given))
    return files, formats


def _recognise_one(file: InputFile, head: bytes, given: Mapping[str, Any]) -> str:
    likely = recognise(head, file.suffix)
    if likely in (None, "shiviz") and ("regex" in given or "delimiter" in given):
        return "shiviz"
    if likely is None and "mapping" in given:
        return "mapped"
    if likely is not None:
        return likely
    if file.suffix in known_format("whence").suffixes and head.lstrip()[:1] not in (b"{", b"["):
        # Not even JSON: its lines are set aside one by one, with what is wrong with each.
        return "whence"
    raise SourceError(
        f"{file.name} begins like none of the formats there are; say which it is with --format, describe it with --mapping, "
        "or leave it out"
    )


def _make_sources(formats: Sequence[str], given: Mapping[str, Any]) -> dict[str, Source]:
    used = sorted({*formats} - {PARQUET})
    known = {name: format_options(name) for name in used}
    taken = {option for options in known.values() for option in options} | ({"unit"} if PARQUET in formats else set())
    if given.get("unit", "ns") != "ns" and (spans := sorted({*used} & SPAN_FORMATS)):
        raise SourceError(
            f"times of the format {spans[0]} count nanoseconds, and --unit says {given['unit']}; leave out --unit"
        )
    if unknown := sorted({*given} - taken):
        raise SourceError(
            f"no input is of a format that has the option {unknown[0]!r}; they are: {', '.join(used) or PARQUET}"
        )
    sources = {}
    for name in used:
        mine = {option: value for option, value in given.items() if option in known[name]}
        if name == "shiviz" and sum(each == name for each in formats) > 1:
            mine["complete"] = False
        sources[name] = source(name, mine)
    return sources
