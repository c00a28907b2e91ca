"""What a checkpoint holds, as a JSON document in storage whose key carries its own hash.

Equal snapshots of one attempt share a manifest's key, so collection must treat manifests as it treats blobs: a key goes
when no kept checkpoint names it.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from typing import Any

from jobs.models import Checkpoint
from jobs.storage import keys
from jobs.storage.objects import MissingObject, Stored, storage
from jobs.storage.paths import is_safe_path, is_safe_target, printable

VERSION = 1
MAX_ENTRIES = 250_000
"""Bounds the memory that a snapshot takes; files, folders and links together."""
MAX_BYTES = 512 * 1024 * 1024


class CheckpointRejected(Exception):
    """The checkpoint can't be used, now or later: something of it is missing or corrupt. One sentence."""


class Kind(StrEnum):
    """What an entry is."""

    FILE = "file"
    DIR = "dir"
    SYMLINK = "symlink"


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One thing in `output/`; `path` is relative to it, size in bytes, `mode` the nine permission bits.

    Bytes of a name that are not UTF-8 stand as surrogates, as `os.fsdecode` gives them.
    """

    path: str
    kind: Kind
    mode: int = 0
    mtime_ns: int = 0
    size: int = 0
    sha256: str = ""
    key: str = ""
    target: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class LeftOut:
    """Something in `output/` that no checkpoint can hold, and why; `path` is fit for people."""

    path: str
    why: str


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """All of one snapshot, sorted by path; parents come before what they hold."""

    job_id: int
    attempt: int
    entries: tuple[Entry, ...]
    left_out: tuple[LeftOut, ...] = ()

    @property
    def files(self) -> Iterator[Entry]:
        return (entry for entry in self.entries if entry.kind is Kind.FILE)

    @property
    def total_bytes(self) -> int:
        return sum(entry.size for entry in self.files)

    def blob_keys(self) -> set[str]:
        """The blobs that it needs."""
        return {entry.key for entry in self.files}


def save(manifest: Manifest) -> Stored:
    """Store the manifest durably under its own hash."""
    folder = keys.manifest_folder(manifest.job_id, manifest.attempt)
    stored = storage().put_by_hash(folder, _Text(_encode(manifest)), {})
    storage().settle(folder)
    return stored


def load(checkpoint: Checkpoint) -> Manifest:
    """Read and verify a checkpoint's manifest; raises CheckpointRejected, or StorageFailed."""
    content = _read(checkpoint)
    if checkpoint.manifest_key.rpartition("/")[2] != hashlib.sha256(content).hexdigest():
        raise CheckpointRejected(f"The manifest of checkpoint {checkpoint.label} is corrupt.")
    try:
        manifest = _decode(content)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise CheckpointRejected(f"The manifest of checkpoint {checkpoint.label} can't be used: {error}.") from error
    if manifest.job_id != checkpoint.job_id:
        raise CheckpointRejected(f"The manifest of checkpoint {checkpoint.label} is another job's.")
    return manifest


def files(checkpoint: Checkpoint) -> list[dict[str, Any]]:
    """The checkpoint's files as the API lists them: `path`, `size` in bytes, `sha256`, `mode`."""
    return [
        {"path": printable(entry.path), "size": entry.size, "sha256": entry.sha256, "mode": entry.mode}
        for entry in load(checkpoint).files
    ]


def find(manifest: Manifest, path: str) -> Entry:
    """The file at `path`, as it is or as `files` shows it; raises FileNotFoundError."""
    for entry in manifest.files:
        if path in {entry.path, printable(entry.path)}:
            return entry
    raise FileNotFoundError(f"There is no file {printable(path)!r} in it.")


@dataclass(frozen=True)
class _Text:
    """An encoded manifest as a source."""

    content: bytes

    @property
    def size(self) -> int:
        return len(self.content)

    def chunks(self) -> Iterator[bytes]:
        yield self.content


def _read(checkpoint: Checkpoint) -> bytes:
    content = bytearray()
    try:
        for chunk in storage().read(checkpoint.manifest_key):
            content += chunk
            if len(content) > MAX_BYTES:
                raise CheckpointRejected(f"The manifest of checkpoint {checkpoint.label} is too large.")
    except MissingObject as error:
        raise CheckpointRejected(f"The manifest of checkpoint {checkpoint.label} is missing.") from error
    return bytes(content)


_DEFAULTS = {field.name: field.default for field in fields(Entry)}


def _encode(manifest: Manifest) -> bytes:
    document = {
        "version": VERSION,
        "job": manifest.job_id,
        "attempt": manifest.attempt,
        "entries": [_spoken(asdict(entry)) for entry in manifest.entries],
        "left_out": [asdict(left_out) for left_out in manifest.left_out],
    }
    # Escaped, because names that are not UTF-8 hold surrogates.
    return json.dumps(document, ensure_ascii=True, separators=(",", ":")).encode("ascii")


def _spoken(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Without what an entry of its kind has no word for."""
    always = {"path", "kind", "mode", "mtime_ns"} | ({"size"} if entry["kind"] is Kind.FILE else set())
    return {name: value for name, value in entry.items() if name in always or value != _DEFAULTS[name]}


def _decode(content: bytes) -> Manifest:
    document = json.loads(content)
    if document["version"] != VERSION:
        raise ValueError(f"it is of version {document['version']!r}, not {VERSION}")
    manifest = Manifest(
        job_id=_whole(document["job"]),
        attempt=_whole(document["attempt"]),
        entries=tuple(Entry(**{**entry, "kind": Kind(entry["kind"])}) for entry in document["entries"]),
        left_out=tuple(LeftOut(**left_out) for left_out in document["left_out"]),
    )
    _check(manifest)
    return manifest


def _check(manifest: Manifest) -> None:
    """Refuse what could write outside a folder; a manifest's hash says only that nobody changed it since."""
    if len(manifest.entries) > MAX_ENTRIES:
        raise ValueError(f"it names more than {MAX_ENTRIES} entries")
    folders, seen = {""}, set[str]()
    for entry in manifest.entries:
        if not is_safe_path(entry.path) or entry.path in seen or entry.path.rpartition("/")[0] not in folders:
            raise ValueError(f"it holds a bad path, {printable(str(entry.path))!r}")
        _check_details(entry)
        seen.add(entry.path)
        if entry.kind is Kind.DIR:
            folders.add(entry.path)


def _check_details(entry: Entry) -> None:
    plain = 0 <= _whole(entry.mode) <= 0o777 and abs(_whole(entry.mtime_ns)) < 2**63 and _whole(entry.size) >= 0
    if not plain:
        raise ValueError(f"it holds a bad mode, time or size at {printable(entry.path)!r}")
    if entry.kind is Kind.FILE and not keys.holds(entry.key, entry.sha256):
        raise ValueError(f"it holds a bad key at {printable(entry.path)!r}")
    if entry.kind is Kind.SYMLINK and not is_safe_target(entry.path, entry.target):
        raise ValueError(f"it holds a link out at {printable(entry.path)!r}")


def _whole(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError("a number is missing")
    return value
