"""Datasets in storage: one object each, as it was uploaded."""

import hashlib
import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from jobs.errors import TooLarge
from jobs.storage import keys
from jobs.storage.objects import StorageFailed, storage

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Content:
    """What lies under `key`; size in bytes."""

    key: str
    size: int
    sha256: str


def store(folder: str, chunks: Iterable[bytes], most_bytes: int) -> Content:
    """Store what comes, as it comes; raises TooLarge, StorageFailed, and whatever `chunks` raises."""
    digest, size = hashlib.sha256(), 0

    def counted() -> Iterator[bytes]:
        nonlocal size
        for chunk in chunks:
            size += len(chunk)
            if size > most_bytes:
                raise TooLarge(f"It is larger than {most_bytes // 1024**2} MiB, the most that is taken here.")
            digest.update(chunk)
            yield chunk

    key = keys.dataset_content(folder)
    storage().put(key, counted())
    return Content(key=key, size=size, sha256=digest.hexdigest())


def remove(folder: str) -> bool:
    """Remove whatever an upload stored or left there; False where storage does not do its part now."""
    try:
        storage().delete_all([keys.dataset_content(folder)])
        storage().remove_leftovers(folder)
    except StorageFailed as error:
        logger.warning("What lies under %s stays for now: %s", folder, error)
        return False
    return True
