"""Read the records of JSON documents: those of a list, or of the member of an object that holds one.

A mapping names that member, ``records = "Records"``. One literal document::

    {"Records": [{"eventID": "c1", "eventName": "AssumeRole"}, {"eventID": "c2", "eventName": "ListObjects"}]}

Documents may have any size and layout, follow each other, and stand between records that are documents by themselves.
Memory holds a block of the file and a few hundred records. A file of documents is read in one piece; JSON lines of records,
which are recognised by their first line, are read in parts, as other logs are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

import msgspec

from ledto.sources.contract import FileSlice
from ledto.sources.json.documents import Cursor, DocumentValue, document_rows
from ledto.sources.json.objects import PART_BYTES, Texts, objects
from ledto.sources.json.typed import NOT_TAKEN
from ledto.sources.lines import BOM
from ledto.sources.mapping.reading import RecordsChunk, bad_chunk
from ledto.sources.rows import Row, bad_row
from ledto.sources.spans.fields import shown

_NO_MARKER = rb"(?!)"
_FIRST_KEY = rb'\[[ \t\r\n]*\{[ \t\r\n]*("[^"\\]{1,100}")[ \t\r\n]*:'
_decode_texts = msgspec.json.Decoder(Texts).decode


def holds_documents(head: bytes, holder: str) -> bool:
    """Return whether a file that begins like this may hold documents; False if its first line is a record by itself."""
    text = head.removeprefix(BOM).lstrip(b" \t\r\n")
    if text[:1] not in (b"{", b"["):
        return False
    members = _members(text.partition(b"\n")[0])
    return members is None or holder in members


def document_chunks(piece: FileSlice, holder: str, head: bytes) -> Iterator[RecordsChunk]:
    """Yield the records of a file, in order. Their places are bytes of the file, decompressed, from 0.

    `head` is the beginning of the file.
    """
    pending: list[DocumentValue] = []
    size_bytes = 0
    for value in document_rows(piece, partial(_walk, holder=holder, file=piece.file), _marker(head, holder)):
        if isinstance(value, DocumentValue):
            pending.append(value)
            size_bytes += len(value.raw)
            if size_bytes < PART_BYTES:
                continue
        if pending:
            yield _chunk(pending)
            pending, size_bytes = [], 0
        if isinstance(value, Row):
            yield bad_chunk(value.place, value.reason or "", (value.text or "").encode())
    if pending:
        yield _chunk(pending)


def _marker(head: bytes, holder: str) -> bytes:
    """Make an expression for how a record begins, from the first one of a list: where to go on after damage."""
    name = re.escape(msgspec.json.encode(holder))
    first = re.search(rb"(?:^|" + name + rb"[ \t\r\n]*:)[ \t\r\n]*" + _FIRST_KEY, head.removeprefix(BOM))
    if first is None:
        return _NO_MARKER
    return rb"\{[ \t\r\n]{0,100}" + re.escape(first[1]) + rb"[ \t\r\n]{0,100}:"


def _walk(cursor: Cursor, holder: str, file: str) -> Iterator[DocumentValue | Row]:
    """Read a document: a list of records, an object that holds one, or a record."""
    first = cursor.peek()
    if first == b"[":
        for _ in cursor.elements():
            yield cursor.take()
        return
    if first != b"{":
        raise cursor.unexpected(f"a record, a list of records, or an object with a list in {holder!r}")
    whole = cursor.whole()
    if whole is not None and (members := _members(whole.raw)) is not None and holder not in members:
        cursor.skip_run()
        yield whole
        return
    is_record = True
    cursor.hold()
    for _ in cursor.members((holder,)):
        is_record = False
        cursor.release()
        if cursor.peek() == b"[":
            for _ in cursor.elements():
                yield cursor.take()
        else:
            offset, value = cursor.offset, cursor.take_checked()
            reason = f"bad-field: {holder} holds a list of records, not {shown(value)}"
            yield bad_row(file, offset, reason, shown(value))
    if is_record:
        cursor.rewind()
        yield cursor.take()


def _members(raw: bytes) -> Texts | None:
    """Return the members of an object; None if it is none, or cannot be read."""
    try:
        return _decode_texts(raw)
    except NOT_TAKEN:
        return None


def _chunk(values: list[DocumentValue]) -> RecordsChunk:
    raws = [_on_one_line(value.raw) for value in values]
    records, texts = objects(raws, b"\n".join(raws))
    return RecordsChunk(records, texts, (), raws, [value.offset for value in values])


def _on_one_line(raw: bytes) -> bytes:
    """Remove the spaces between the tokens of a record that has several lines. Values keep their texts."""
    if b"\n" not in raw:
        return raw
    try:
        return msgspec.json.format(raw, indent=-1)
    except NOT_TAKEN:
        return raw
