"""Find the input files of a run, recognise their formats, and make their sources, before any heavy work starts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

from ledto.sources.contract import Source, SourceError
from ledto.sources.files import FoundFiles, InputFile, look_for_files
from ledto.sources.mapping.builtin import BUILT_IN
from ledto.sources.mapping.file import DEFAULT_FORMAT, load_mapping
from ledto.sources.mapping.reading import FileLayout
from ledto.sources.mapping.source import Mapped
from ledto.sources.parquet import PARQUET_SUFFIXES
from ledto.sources.records.formats import RECORD_FORMATS, sniff_records
from ledto.sources.registry import HEAD_BYTES, SOURCES, SPAN_FORMATS, format_options, known_format, recognise, source

PARQUET: Final = "parquet"
"""The format's name of Parquet files, which no text source reads."""

_PARQUET_MAGIC = b"PAR1"
_OPENED_AT_ONCE = 16
_MOST_NOTED = 3
_TABLES = ("csv", "tsv")
_OF_SHIVIZ = re.compile(r"\(\?P?<(?:clock|host)>")
"""A group of an expression for ShiViz. Without it, an expression describes single lines."""
_TEXT_BYTES_A_PACKED_BYTE = 12
"""How many bytes of text a byte of a compressed log, or of a Parquet file, commonly holds."""


class UnknownFormat(SourceError):
    """A file is of no format that is known. `file` is its name."""

    def __init__(self, file: str) -> None:
        super().__init__(
            f"the format of {file} cannot be recognised; say which it is with --format, describe it with --mapping "
            f"(`ledto map {file}` drafts one; docs/sources/mapping.md), or leave it out"
        )
        self.file = file


@dataclass(frozen=True, slots=True)
class Inputs:
    """The files of a run, each with its format. Pickles, so that tasks can read them."""

    files: tuple[InputFile, ...]
    formats: tuple[str, ...]
    """The format of each file."""
    sources: Mapping[str, Source]
    """The source of each text format that occurs."""
    unit: str
    notes: tuple[str, ...] = ()
    """What the user should know about how files are read for which nothing was said."""

    @property
    def text(self) -> list[tuple[InputFile, Source]]:
        """List the text files, each with its source."""
        with_formats = zip(self.files, self.formats, strict=True)
        return [(file, self.sources[name]) for file, name in with_formats if name != PARQUET]

    @property
    def parquet(self) -> list[InputFile]:
        """List the Parquet files."""
        return [file for file, name in zip(self.files, self.formats, strict=True) if name == PARQUET]

    @property
    def has_channels(self) -> bool:
        """Return whether some sends and receives may have no keys, and must be matched by their channel."""
        return any(getattr(source, "has_channels", False) for source in self.sources.values())

    @property
    def text_bytes(self) -> int:
        """Estimate the size of all text, decompressed."""
        return sum(
            file.size_bytes * (_TEXT_BYTES_A_PACKED_BYTE if file.compression or name == PARQUET else 1)
            for file, name in zip(self.files, self.formats, strict=True)
        )


def find_inputs(
    inputs: Sequence[str], *, format: str | None = None, options: Mapping[str, Any] | None = None
) -> Inputs:
    """Find the files that `inputs` name (see `ledto.sources.files.find_files`), and recognise each.

    `format` is a name of `ledto.sources.SOURCES`; None recognises each file by its first bytes. Each format gets those
    of the `options` that it has. Reads only the first bytes of files. Raises `SourceError` for inputs that do not exist,
    cannot be opened or recognised, and for options that no format of the files has.
    """
    chosen = {name: value for name, value in (options or {}).items() if value is not None}
    found, formats = _recognise_all(inputs, format, chosen)
    sources = _make_sources(formats, chosen)
    notes = (*_notes_of_finding(found), *_notes(found.files, formats, sources))
    return Inputs(tuple(found.files), tuple(formats), sources, str(chosen.get("unit", "ns")), notes)


def _notes_of_finding(found: FoundFiles) -> Iterator[str]:
    """Say which files are left out."""
    if found.unread:
        files = "1 file" if len(found.unread) == 1 else f"{len(found.unread):,} files"
        yield (
            f"{files} not read, such as {found.unread[0]}, because the name has no known suffix; "
            "name what is missing, or use a pattern"
        )
    if found.linked:
        links = "1 link is" if len(found.linked) == 1 else f"{len(found.linked):,} links are"
        yield f"{links} left out, such as {found.linked[0]}: the files are read once, by their other paths"


def _notes(files: Sequence[InputFile], formats: Sequence[str], sources: Mapping[str, Source]) -> tuple[str, ...]:
    """Return what is assumed about files that are read without a mapping of the user, each once."""
    notes: dict[str, None] = {}
    looked_at = 0
    for file, name in zip(files, formats, strict=True):
        source = sources.get(name)
        if not isinstance(source, Mapped):
            continue
        if source.note is not None:
            notes[source.note] = None
        if source.rules is None and looked_at < _MOST_NOTED:
            looked_at += 1
            drafted = source.drafted(file.head(HEAD_BYTES), file.name)
            if drafted is not None:
                said = "; ".join(drafted.strip().split("\n"))
                notes[f"{file.name} is read by its fields' usual names: {said}"] = None
    return tuple(notes)


def _recognise_all(
    inputs: Sequence[str], format: str | None, options: Mapping[str, Any]
) -> tuple[FoundFiles, list[str]]:
    takes_parquet = format in (None, "ledto")
    possible = [format] if format is not None else list(SOURCES)
    suffixes = [suffix for name in possible for suffix in known_format(name).suffixes]
    wanted = tuple(dict.fromkeys((*suffixes, *(PARQUET_SUFFIXES if takes_parquet else ()))))
    found = look_for_files(inputs, wanted)
    files = found.files
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
            formats.append(format or _recognise_one(file, head, options))
    return found, formats


def _recognise_one(file: InputFile, head: bytes, options: Mapping[str, Any]) -> str:
    likely = recognise(head, file.suffix)
    if likely in (None, "shiviz") or likely in RECORD_FORMATS:
        if "regex" in options:
            return "shiviz" if _OF_SHIVIZ.search(str(options["regex"])) else "regex"
        if "delimiter" in options:
            return likely if likely in _TABLES else "csv" if file.suffix == ".csv" else "shiviz"
    if "mapping" in options and (likely is None or likely in RECORD_FORMATS or likely in BUILT_IN):
        return _format_of_mapped(file, head, str(options["mapping"]))
    if likely is not None:
        return likely
    if file.suffix in known_format("ledto").suffixes and head.lstrip()[:1] not in (b"{", b"["):
        # The file is not even JSON. This format gives a row for each line, with what is wrong with it.
        return "ledto"
    raise UnknownFormat(file.name)


def _format_of_mapped(file: InputFile, head: bytes, mapping: str) -> str:
    """Return the format of a file that is read by a mapping: the one that its head has, if the mapping names none."""
    if load_mapping(mapping).format is None:
        sniffed = sniff_records(FileLayout(file.name, head).head)
        if sniffed is not None and sniffed[0] != DEFAULT_FORMAT:
            return sniffed[0]
    return "mapped"


def _make_sources(formats: Sequence[str], options: Mapping[str, Any]) -> dict[str, Source]:
    used = sorted({*formats} - {PARQUET})
    options_of = {name: format_options(name) for name in used}
    allowed = {option for names in options_of.values() for option in names} | (
        {"unit"} if PARQUET in formats else set()
    )
    if options.get("unit", "ns") != "ns" and (spans := sorted({*used} & SPAN_FORMATS)):
        raise SourceError(
            f"times of the format {spans[0]} count nanoseconds, and --unit says {options['unit']}; leave out --unit"
        )
    if unknown := sorted({*options} - allowed):
        raise SourceError(
            f"no input is of a format that has the option {unknown[0]!r}; they are: {', '.join(used) or PARQUET}"
        )
    sources = {}
    for name in used:
        chosen = {option: value for option, value in options.items() if option in options_of[name]}
        if name == "shiviz" and formats.count(name) > 1:
            chosen["complete"] = False
        sources[name] = source(name, chosen)
    return sources
