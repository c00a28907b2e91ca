"""Checkpoints as downloads."""

from collections.abc import Iterator
from dataclasses import dataclass

from jobs.models import Checkpoint
from jobs.storage import archives, blobs, manifests
from jobs.storage.manifests import CheckpointRejected, Entry
from jobs.storage.objects import storage
from jobs.storage.paths import printable
from jobs.storage.streams import ahead

__all__ = ["CheckpointRejected", "StoredFile", "archive", "open_file"]


def archive(checkpoint: Checkpoint) -> Iterator[bytes]:
    """The checkpoint as a tar.gz, the same bytes each time, with paths relative to `output/`; in constant memory.

    The manifest is read before this returns: CheckpointRejected then comes in time for a proper answer. Where a file
    proves missing or corrupt on the way, the iterator raises it before the archive's end, so nobody takes it for whole.
    Close the iterator when giving up early. Under ASGI, serve `streams.in_thread(archive(…))`: Django collects a plain
    iterator in memory first.
    """
    entries = manifests.load(checkpoint).entries
    # Reading and hashing on one thread, compressing on another.
    return archives.gzip(ahead(archives.tar(entries, blobs.content)))


@dataclass(frozen=True, kw_only=True)
class StoredFile:
    """One file of a checkpoint; its `sha256` makes a strong ETag."""

    entry: Entry

    @property
    def name(self) -> str:
        """What to call it as a download."""
        return printable(self.entry.path.rpartition("/")[2])

    @property
    def link(self) -> str | None:
        """A signed address of short life straight to it, where storage has such."""
        return storage().link(self.entry.key, self.name)

    def chunks(self, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        """The bytes from `start` up to `end` (exclusive); a whole read verifies the hash before its last chunk."""
        if start == 0 and (end is None or end >= self.entry.size):
            return blobs.content(self.entry)
        return blobs.span(self.entry, start, end)


def open_file(checkpoint: Checkpoint, path: str) -> StoredFile:
    """The file at `path`; raises FileNotFoundError where the checkpoint has none there, CheckpointRejected as above."""
    return StoredFile(entry=manifests.find(manifests.load(checkpoint), path))
