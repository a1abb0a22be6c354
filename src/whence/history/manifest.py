"""The manifest: one JSON file whose replacement makes a run count. Whatever it does not name is not part of the history.

Its last entry is a checksum of the text before it: ``"checksum": "7b3f00c2"``.
"""

from __future__ import annotations

import json
import re
from typing import Any
from zlib import crc32

from whence.history import layout
from whence.history.errors import DamagedHistory, NoHistory, UnsupportedFormat
from whence.history.sealing import damaged
from whence.history.storage import Store

REQUIRED = (
    "run",
    "unit",
    "events",
    "segments",
    "processes",
    "has_ids",
    "attributes",
    "native_columns",
    "policies",
    "tables",
)
_CHECKSUM = re.compile(rb',\n  "checksum": "([0-9a-f]{8})"\n\}\n')


def read_manifest(store: Store) -> dict[str, Any]:
    """The manifest of the run that counts.

    Raises `NoHistory` where there is none, `UnsupportedFormat` for another version's, and `DamagedHistory`.
    """
    place = store.place(layout.MANIFEST)
    try:
        data = store.read(layout.MANIFEST)
    except (FileNotFoundError, NotADirectoryError):
        raise NoHistory(_what_is_there(store)) from None
    except OSError as failure:
        raise NoHistory(f"{place} cannot be read: {failure}") from None
    try:
        manifest = json.loads(data)
    except ValueError as fault:
        raise damaged(place, f"it is not JSON ({fault})") from None
    found = _CHECKSUM.search(data)
    sealed = found is not None and found.end() == len(data)
    if found is not None and sealed and crc32(data[: found.start()]) != int(found[1], 16):
        raise damaged(place, "it is not as it was written")
    written = manifest.get("format") if isinstance(manifest, dict) else None
    if not isinstance(written, int):
        raise DamagedHistory(f"{place} is no manifest of a history: it has no format number")
    if written != layout.FORMAT:
        raise UnsupportedFormat(
            f"{place} has format {written}, and this version of whence reads format {layout.FORMAT}: "
            + ("install a newer whence" if written > layout.FORMAT else "make the history again with whence observe")
        )
    if not sealed:
        raise damaged(place, "its end is not the one that was written")
    if missing := [name for name in REQUIRED if name not in manifest]:
        raise DamagedHistory(f"{place} lacks {', '.join(missing)}: make the history again with whence observe")
    return dict(manifest)


def version_of(manifest: dict[str, Any]) -> tuple[str, int]:
    """What changes whenever files of the history may go: the run and, for a live history, the number of its commit."""
    return str(manifest["run"]), int(manifest.get("stream", {}).get("version", 0))


def files_named(manifest: dict[str, Any]) -> set[str]:
    """The files of the run that the manifest itself names: all but those of the segments."""
    stream = manifest.get("stream", {})
    state = stream.get("files", {}).values()
    return {
        *manifest["tables"].values(),
        *manifest.get("aside_files", ()),
        *(name for policy in manifest["policies"].values() for name in policy.get("files", ())),
        *manifest.get("clocks", {}).get("files", {}).values(),
        *(name for named in state for name in (named if isinstance(named, list) else [named])),
        *(each["file"] for each in stream.get("log", {}).get("files", ())),
    }


def write_manifest(store: Store, manifest: dict[str, Any]) -> None:
    """Replace the manifest, atomically."""
    told = {name: value for name, value in manifest.items() if name != "checksum"}
    data = json.dumps({"format": layout.FORMAT, **told}, indent=2, ensure_ascii=False).removesuffix("\n}").encode()
    store.write(layout.MANIFEST, b'%b,\n  "checksum": "%08x"\n}\n' % (data, crc32(data)))


def _what_is_there(store: Store) -> str:
    if not store.exists(""):
        return f"there is no history at {store}: it does not exist. Make one with whence observe LOGS --to {store}"
    if store.exists(layout.RUNS):
        return (
            f"the history at {store} was never finished: a run was interrupted or is still at work. "
            f"Wait for it, or start it again with whence observe LOGS --to {store}"
        )
    return f"{store} is no history: it has no {layout.MANIFEST}. Make one with whence observe LOGS --to FOLDER"
