"""What Rerail asks of a storage: whole objects under exact keys. A folder and an S3 bucket offer it alike."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol, cast

from django.core.files.storage import storages

CHUNK = 256 * 1024
"""Bytes read or written at a time."""


class StorageFailed(Exception):
    """Storage can't be reached, or refuses; another try may do. One sentence without addresses or credentials."""

    def __init__(self, message: str, *, full: bool = False) -> None:
        super().__init__(message)
        self.full = full


class MissingObject(Exception):
    """Nothing lies under that key."""


class SourceChanged(Exception):
    """Content was not the same from beginning to end of its reading; take it anew."""


class Source(Protocol):
    """Content that can be read from its beginning more than once."""

    @property
    def size(self) -> int:
        """About how many bytes to expect."""

    def chunks(self) -> Iterator[bytes]:
        """All of it; what it raises, no OSError, aborts the store and is passed on."""


@dataclass(frozen=True, kw_only=True)
class Stored:
    """Where content lies; `new` where this call put it there."""

    key: str
    sha256: str
    size: int
    new: bool


class ObjectStorage(Protocol):
    """Every method may be called from several threads, and raises StorageFailed where storage does not do its part."""

    threads: int
    """How many calls at a time serve it best."""

    def put(self, key: str, chunks: Iterable[bytes]) -> None:
        """Store under exactly `key`, whole and durably or not at all; what lay there is replaced."""

    def put_by_hash(self, folder: str, source: Source, named: Mapping[str, str]) -> Stored:
        """Store under `folder/<sha256>` what neither lies there nor under the key that `named` has for its sha256.

        It lasts through a power cut only after `settle(folder)`.
        """

    def settle(self, folder: str) -> None:
        """Return once everything put into `folder` is durable."""

    def read(self, key: str, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        """The bytes from `start` up to `end` (exclusive); raises MissingObject."""

    def link(self, key: str, name: str) -> str | None:
        """An address of short life that anybody may read the object at, as a download called `name`; None without."""

    def delete_all(self, keys: Iterable[str]) -> None:
        """Delete them; what is gone already is no error."""

    def keys(self, folder: str) -> Iterator[tuple[str, int]]:
        """Every object under `folder` with its size in bytes; leftovers of torn uploads are none."""

    def count_leftovers(self, folder: str) -> int:
        """How many there are of what torn uploads left under `folder`; in a bucket, uploads in progress count too."""

    def remove_leftovers(self, folder: str) -> int:
        """Remove what torn uploads left under `folder`, and say how many; spares uploads in progress in a local folder.

        In a bucket it aborts those too: ask only for attempts that have ended.
        """


def storage() -> ObjectStorage:
    """The storage of this installation."""
    return cast(ObjectStorage, storages["default"])
