"""What a checkpoint holds, as a JSON document in storage whose key carries its own hash."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from jobs.models import Checkpoint


class CheckpointRejected(Exception):
    """The checkpoint can't be used, now or later: something of it is missing or corrupt. One sentence."""


class Kind(StrEnum):
    """What an entry is."""

    FILE = "file"
    DIR = "dir"
    SYMLINK = "symlink"


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One thing in `output/`; `path` is relative to it, size in bytes, `mode` without its type bits."""

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
    """Something in `output/` that no checkpoint can hold, and why."""

    path: str
    why: str


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """All of one snapshot, sorted by path; parents come before what they hold."""

    entries: tuple[Entry, ...]
    left_out: tuple[LeftOut, ...] = ()


def load(checkpoint: Checkpoint) -> Manifest:
    """Read and verify a checkpoint's manifest; raises CheckpointRejected."""
    raise NotImplementedError


def files(checkpoint: Checkpoint) -> list[dict[str, Any]]:
    """The checkpoint's files as the API lists them: `path`, `size`, `sha256`, `mode`."""
    raise NotImplementedError
