"""A folder as storage: a file appears under its name only once it is whole and on the disk."""

import errno
import fcntl
import hashlib
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.core.files import File
from django.core.files.storage import FileSystemStorage
from django.utils.deconstruct import deconstructible

from jobs.storage.objects import CHUNK, MissingObject, Source, StorageFailed, Stored

LEFTOVER = ".part-"
"""How the names of unfinished files begin."""

_FULL = {errno.ENOSPC, errno.EDQUOT}


@deconstructible
class LocalStorage(FileSystemStorage):
    """Exact keys below one folder, folders of mode 0700 and files of mode 0600.

    Content goes to a locked temporary file beside its place, is synced, then renamed. The lock tells a file being
    written from what a killed process left.
    """

    threads = max(2, min(4, os.cpu_count() or 1))

    def __init__(self, location: str | None = None, base_url: str | None = None) -> None:
        super().__init__(location, base_url, 0o600, 0o700, allow_overwrite=True)

    def get_available_name(self, name: str, max_length: int | None = None) -> str:
        return name

    def _save(self, name: str, content: "File[Any]") -> str:
        self.put(name, content.chunks())
        return name

    def put(self, key: str, chunks: Iterable[bytes]) -> None:
        place = self._place(key)
        with _failures("store an object"), self._unfinished(place.parent) as (fd, temporary):
            for chunk in chunks:
                _write_all(fd, chunk)
            _finish(fd, temporary, place)
            _sync_folder(place.parent)

    def put_by_hash(self, folder: str, source: Source, named: Mapping[str, str]) -> Stored:
        digest, size = hashlib.sha256(), 0
        with _failures("store an object"), self._unfinished(self._place(folder)) as (fd, temporary):
            # Hashed and written in one pass: what lies under a hash is what was hashed, even if the source changes.
            for chunk in source.chunks():
                digest.update(chunk)
                _write_all(fd, chunk)
                size += len(chunk)
            sha256 = digest.hexdigest()
            key = named.get(sha256) or f"{folder}/{sha256}"
            new = not _has(self._place(key), size)
            if new:
                key = f"{folder}/{sha256}"
                _finish(fd, temporary, self._place(key))
            else:
                temporary.unlink()
        return Stored(key=key, sha256=sha256, size=size, new=new)

    def settle(self, folder: str) -> None:
        with _failures("store an object"):
            place = self._place(folder)
            if place.is_dir():
                _sync_folder(place)

    def read(self, key: str, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        with _failures("read an object"), _opened(self._place(key), key) as file:
            file.seek(start)
            left = float("inf") if end is None else end - start
            while left > 0 and (chunk := file.read(int(min(CHUNK, left)))):
                left -= len(chunk)
                yield chunk

    def link(self, key: str, name: str) -> str | None:
        return None

    def delete_all(self, keys: Iterable[str]) -> None:
        with _failures("delete an object"):
            for key in keys:
                place = self._place(key)
                place.unlink(missing_ok=True)
                self._drop_empty(place.parent)

    def keys(self, folder: str) -> Iterator[tuple[str, int]]:
        with _failures("list its objects"):
            for file in self._files(folder):
                if not file.name.startswith(LEFTOVER):
                    yield str(file.relative_to(self.location)), file.stat().st_size

    def count_leftovers(self, folder: str) -> int:
        with _failures("look for what a torn upload left"):
            return sum(1 for file in self._files(folder) if file.name.startswith(LEFTOVER))

    def remove_leftovers(self, folder: str) -> int:
        with _failures("remove what a torn upload left"):
            removed = [file for file in self._files(folder) if file.name.startswith(LEFTOVER) and _remove_dead(file)]
            for parent in {file.parent for file in removed}:
                self._drop_empty(parent)
            return len(removed)

    def _place(self, key: str) -> Path:
        return Path(self.path(key))

    def _files(self, folder: str) -> Iterator[Path]:
        for parent, _, names in os.walk(self._place(folder)):
            yield from (Path(parent, name) for name in names)

    @contextmanager
    def _unfinished(self, folder: Path) -> Iterator[tuple[int, Path]]:
        """A new temporary file in `folder`, removed on any error; the caller renames or unlinks it."""
        fd, temporary = self._create(folder)
        try:
            yield fd, temporary
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        finally:
            os.close(fd)

    def _create(self, folder: Path) -> tuple[int, Path]:
        temporary = folder / f"{LEFTOVER}{secrets.token_hex(8)}"
        while True:
            _make(folder)
            try:
                fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            except FileNotFoundError:
                continue  # the folder was empty a moment ago, and dropped
            fcntl.flock(fd, fcntl.LOCK_EX)
            return fd, temporary

    def _drop_empty(self, folder: Path) -> None:
        root = Path(self.location)
        while folder != root and root in folder.parents:
            try:
                folder.rmdir()
            except OSError:
                return
            folder = folder.parent


def _make(folder: Path) -> None:
    """Create the folder with its parents, each durably."""
    if folder.is_dir():
        return
    _make(folder.parent)
    folder.mkdir(mode=0o700, exist_ok=True)
    _sync_folder(folder.parent)


def _finish(fd: int, temporary: Path, place: Path) -> None:
    os.fsync(fd)
    temporary.replace(place)


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _write_all(fd: int, chunk: bytes) -> None:
    rest = memoryview(chunk)
    while rest:
        rest = rest[os.write(fd, rest) :]


def _has(place: Path, size: int) -> bool:
    try:
        return place.stat().st_size == size
    except FileNotFoundError:
        return False


@contextmanager
def _opened(place: Path, key: str) -> Iterator[Any]:
    try:
        file = open(place, "rb", buffering=0)  # noqa: SIM115  closed below
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
        raise MissingObject(key) from error
    with file:
        yield file


def _remove_dead(file: Path) -> bool:
    """Remove an unfinished file unless somebody still writes it."""
    try:
        fd = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        file.unlink(missing_ok=True)
        return True
    except BlockingIOError:
        return False
    finally:
        os.close(fd)


@contextmanager
def _failures(doing: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise StorageFailed("The storage folder's disk is full.", full=True) from error
        raise StorageFailed(f"Storage could not {doing}: {error.strerror or type(error).__name__}.") from error
