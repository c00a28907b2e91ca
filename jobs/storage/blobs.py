"""Reading back what a manifest names, and trusting none of it unseen."""

import hashlib
from collections.abc import Iterator

from jobs.storage.manifests import CheckpointRejected, Entry
from jobs.storage.objects import MissingObject, storage
from jobs.storage.paths import printable


def content(entry: Entry) -> Iterator[bytes]:
    """The file's bytes; raises CheckpointRejected before the last of them where they are not what was stored."""
    digest, left, held = hashlib.sha256(), entry.size, b""
    for chunk in span(entry, 0, None):
        digest.update(chunk)
        left -= len(chunk)
        if left < 0:
            raise corrupt(entry)
        if held:
            yield held
        held = chunk
    if left or digest.hexdigest() != entry.sha256:
        raise corrupt(entry)
    if held:
        yield held


def span(entry: Entry, start: int, end: int | None) -> Iterator[bytes]:
    """Part of the file's bytes, as they lie there; raises CheckpointRejected where it is missing."""
    try:
        yield from storage().read(entry.key, start, end)
    except MissingObject as error:
        raise CheckpointRejected(f"The content of {printable(entry.path)!r} is missing from storage.") from error


def corrupt(entry: Entry) -> CheckpointRejected:
    return CheckpointRejected(f"The content of {printable(entry.path)!r} in storage is corrupt.")
