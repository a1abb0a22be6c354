"""Find the input files of a run, recognise their formats, and make their sources, before any heavy work starts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ledto.sources.contract import Source, SourceError
from ledto.sources.files import FoundFiles, InputFile, is_named_by, look_for_files
from ledto.sources.mapping.builtin import BUILT_IN
from ledto.sources.mapping.file import DEFAULT_FORMAT, load_mapping
from ledto.sources.mapping.reading import FileLayout
from ledto.sources.mapping.source import Mapped
from ledto.sources.parquet import PARQUET_SUFFIXES
from ledto.sources.records.formats import RECORD_FORMATS, sniff_records
from ledto.sources.registry import HEAD_BYTES, SOURCES, SPAN_FORMATS, format_options, known_format, recognise, source

PARQUET: Final = "parquet"
"""The format's name of Parquet files, which no text source reads."""

_BY = ":"
"""Between a format and the mapping that some files are read by. No name of a format has it."""
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
    """The format of each file. A mapping that was given for some files only follows it: ``mapped:orders.toml``."""
    sources: Mapping[str, Source]
    """The source of each text format that occurs, by the names in `formats`."""
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
    of the `options` that it has. The option ``mapping`` may be several texts (`read_mappings`). Reads only the first bytes
    of files. Raises `SourceError` for inputs that do not exist, cannot be opened or recognised, and for options that no
    format of the files has.
    """
    chosen = {name: value for name, value in (options or {}).items() if value is not None}
    mappings = read_mappings(chosen.pop("mapping", ()))
    if mappings.plain is not None:
        chosen["mapping"] = mappings.plain
    found, formats = _recognise_all(inputs, format, chosen, mappings)
    sources = _make_sources(formats, chosen)
    notes = (*_notes_of_finding(found), *_notes(found.files, formats, sources))
    return Inputs(tuple(found.files), tuple(formats), sources, str(chosen.get("unit", "ns")), notes)


@dataclass(frozen=True, slots=True)
class MappingsGiven:
    """The mappings of a run."""

    plain: str | None
    """The one for all other files that need one."""
    by_pattern: tuple[tuple[str, str], ...]
    """Patterns of file names, each with a mapping. The first that matches counts."""

    def of_file(self, name: str) -> str | None:
        """Return the mapping that a pattern gives a file; None if no pattern matches."""
        return next((mapping for pattern, mapping in self.by_pattern if is_named_by(pattern, name)), None)

    def check_used(self, files: Sequence[InputFile]) -> None:
        """Raise `SourceError` if a pattern matches no file."""
        for pattern, mapping in self.by_pattern:
            if not any(is_named_by(pattern, file.name) for file in files):
                raise SourceError(
                    f"--mapping {pattern}={mapping}: no file that is read matches {pattern}, such as {files[0].name}; "
                    "check the pattern"
                )


def read_mappings(given: str | Sequence[str]) -> MappingsGiven:
    """Read the texts of ``--mapping``: ``FILE``, or ``PATTERN=FILE`` for files whose path or folder the pattern matches.

    Raises `SourceError` for two mappings without a pattern.
    """
    plain: list[str] = []
    by_pattern: list[tuple[str, str]] = []
    for text in [given] if isinstance(given, str) else given:
        pattern, equals, mapping = text.partition("=")
        if equals and pattern and mapping and not Path(text).exists():
            by_pattern.append((pattern, mapping))
        elif text not in plain:
            plain.append(text)
    if len(plain) > 1:
        raise SourceError(
            f"{plain[0]} and {plain[1]} are both mappings for all files; say which files one of them is for: "
            f"--mapping 'PATTERN={plain[1]}', as in --mapping 'orders*={plain[1]}'"
        )
    return MappingsGiven(plain[0] if plain else None, tuple(by_pattern))


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
    inputs: Sequence[str], format: str | None, options: Mapping[str, Any], mappings: MappingsGiven
) -> tuple[FoundFiles, list[str]]:
    takes_parquet = format in (None, "ledto")
    possible = [format] if format is not None else list(SOURCES)
    suffixes = [suffix for name in possible for suffix in known_format(name).suffixes]
    wanted = tuple(dict.fromkeys((*suffixes, *(PARQUET_SUFFIXES if takes_parquet else ()))))
    found = look_for_files(inputs, wanted)
    mappings.check_used(found.files)
    with ThreadPoolExecutor(_OPENED_AT_ONCE) as pool:
        heads = list(pool.map(lambda file: file.head(HEAD_BYTES if format is None else 4), found.files))
    formats: list[str | None] = []
    recognised: list[tuple[int, str | None]] = []
    for number, (file, head) in enumerate(zip(found.files, heads, strict=True)):
        if head[:4] == _PARQUET_MAGIC or (takes_parquet and file.suffix in PARQUET_SUFFIXES):
            if not takes_parquet:
                raise SourceError(
                    f"{file.name} is Parquet, which the format {format} does not read; leave out --format"
                )
            formats.append(PARQUET)
        elif (mapping := mappings.of_file(file.name)) is not None:
            formats.append(f"{format or _format_of_mapped(file, head, mapping)}{_BY}{mapping}")
        else:
            formats.append(format)
            if format is None:
                recognised.append((number, recognise(head, file.suffix)))
    # A mapping for all files is for those that need one; only if there is none, for those that ledto could read itself.
    is_needed = any(likely is None or likely in RECORD_FORMATS for _, likely in recognised)
    for number, likely in recognised:
        keeps = is_needed and likely in BUILT_IN
        own = {name: value for name, value in options.items() if name != "mapping"} if keeps else options
        formats[number] = _choose_format(found.files[number], heads[number], likely, own)
    return found, [name for name in formats if name is not None]


def _choose_format(file: InputFile, head: bytes, likely: str | None, options: Mapping[str, Any]) -> str:
    """Choose the format of a file that looks `likely` to have one, or none, by options as well."""
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
    bases = {name: name.partition(_BY)[0] for name in used}
    options_of = {name: {*format_options(base)} for name, base in bases.items()}
    for name in used:
        if _BY in name:
            if "mapping" not in options_of[name]:
                raise SourceError(f"the format {bases[name]} has no mappings; leave out --format, or --mapping")
            options_of[name].discard("mapping")
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
        if _BY in name:
            chosen["mapping"] = name.partition(_BY)[2]
        if name == "shiviz" and formats.count(name) > 1:
            chosen["complete"] = False
        sources[name] = source(bases[name], chosen)
    return sources
