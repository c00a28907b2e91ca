"""Putting a checkpoint back into a folder."""

from dataclasses import dataclass
from pathlib import Path

from jobs.models import Checkpoint
from jobs.storage.manifests import CheckpointRejected, Manifest

__all__ = ["CheckpointRejected", "Restored", "restore"]


@dataclass(frozen=True, kw_only=True)
class Restored:
    """What lies in the folder now; `manifest` is `known` to the next `publish`. Sizes in bytes."""

    manifest: Manifest
    file_count: int
    total_bytes: int


def restore(checkpoint: Checkpoint, into: Path, *, uid: int | None = None, gid: int | None = None) -> Restored:
    """Write the checkpoint's tree into `into`, an empty folder or none, with every hash verified.

    As root, everything written belongs to `uid` and `gid`. Raises CheckpointRejected where something is missing or
    corrupt, StorageFailed where storage can't be reached; the folder is empty again after either.
    """
    raise NotImplementedError
