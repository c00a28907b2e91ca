"""Datasets on the worker: unpacked once, kept by hash, shared by all executions that read them.

Each entry of the cache has a lock file beside it. Who reads an entry holds that shared; who makes or removes one holds
it alone. The kernel lets go of it when a process dies, however that happens. A lock file's time says when its entry was
last used, its content how large that is.
"""

import fcntl
import hashlib
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings

from jobs.models import Dataset
from jobs.states import Reason
from jobs.storage import unpacking
from jobs.storage.objects import MissingObject, StorageFailed, storage
from jobs.storage.unpacking import Limits, Unpackable
from workers import workspace

MAX_ENTRIES = 250_000
LOCK = ".lock"
NEW = ".new-"
"""How the name of an entry begins while it is made, or removed."""
AGAIN_SECONDS = 0.2
RETRY_SECONDS = 2.0


class DatasetFailed(Exception):
    """There is no dataset for the script, for `reason`; one sentence."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, kw_only=True)
class Cache:
    """A folder of unpacked datasets, and how many bytes they may take; what is in use may take more."""

    folder: Path
    most_bytes: int


@contextmanager
def ready(dataset: Dataset, stop: Callable[[], bool]) -> Iterator[Path]:
    """As `cached`, in this worker's cache; tries for as long as publishing may take while storage is away."""
    cache = Cache(folder=workspace.cache() / "datasets", most_bytes=settings.RERAIL.dataset_cache_bytes)
    deadline = time.monotonic() + settings.RERAIL.timing.publish
    with ExitStack() as stack:
        while True:
            try:
                folder = stack.enter_context(cached(dataset, cache, stop))
                break
            except StorageFailed as error:
                if stop() or time.monotonic() > deadline:
                    message = f"The dataset {dataset.filename} could not be downloaded: {error}"
                    raise DatasetFailed(Reason.PUBLISH_FAILED, message) from error
            threading.Event().wait(RETRY_SECONDS)
        yield folder


@contextmanager
def cached(dataset: Dataset, cache: Cache, stop: Callable[[], bool]) -> Iterator[Path]:
    """The folder with the dataset's files, which stays as it is until the context ends.

    Raises DatasetFailed (for `dataset_missing` where its content is not what was uploaded, `setup_failed` where it
    can't be unpacked), StorageFailed, OSError where this disk fails, and InterruptedError once `stop` says so.
    """
    cache.folder.mkdir(mode=0o711, parents=True, exist_ok=True)
    while True:
        for name in _names(dataset):
            with _held(cache, name, fcntl.LOCK_SH, stop) as lock:
                if (cache.folder / name).is_dir():
                    os.utime(lock)
                    yield cache.folder / name
                    return
        _make(dataset, cache, stop)


def _names(dataset: Dataset) -> tuple[str, str]:
    """Where it may lie: unpacked, or as one file, whose name is then part of it."""
    named = hashlib.sha256(dataset.filename.encode()).hexdigest()[:16]
    return dataset.sha256, f"{dataset.sha256}-{named}"


def _make(dataset: Dataset, cache: Cache, stop: Callable[[], bool]) -> None:
    """Download and unpack it, unless somebody else has by now."""
    unpacked, single = _names(dataset)
    with _held(cache, unpacked, fcntl.LOCK_EX, stop), _held(cache, single, fcntl.LOCK_EX, stop):
        if any((cache.folder / name).is_dir() for name in (unpacked, single)):
            return
        _make_room(cache, dataset.size)
        work = cache.folder / f"{NEW}{unpacked}"
        remove(work)
        work.mkdir(mode=0o700)
        try:
            name, size = _unpacked(dataset, work, cache, stop)
            _place(work / "data", cache.folder / name, size)
        finally:
            remove(work)
    _make_room(cache, 0, spared=name)


def _unpacked(dataset: Dataset, work: Path, cache: Cache, stop: Callable[[], bool]) -> tuple[str, int]:
    """Its files below `work/data`; the name that they are to be kept under, and their size."""
    archive, data = work / "archive", work / "data"
    _download(dataset, archive, stop)
    data.mkdir(mode=0o700)
    unpacked, single = _names(dataset)
    if not unpacking.is_archive(archive, dataset.filename):
        archive.rename(data / dataset.filename)
        return single, dataset.size
    try:
        size = unpacking.unpack(archive, data, Limits(entries=MAX_ENTRIES, total_bytes=cache.most_bytes))
    except Unpackable as error:
        message = f"The dataset {dataset.filename} can't be unpacked: {error}"
        raise DatasetFailed(Reason.SETUP_FAILED, message) from error
    return unpacked, size


def _download(dataset: Dataset, into: Path, stop: Callable[[], bool]) -> None:
    digest = hashlib.sha256()
    try:
        with into.open("wb") as file:
            for chunk in storage().read(dataset.storage_key):
                if stop():
                    raise InterruptedError("The download was given up.")
                digest.update(chunk)
                file.write(chunk)
    except MissingObject as error:
        message = f"The dataset {dataset.filename} is missing from storage."
        raise DatasetFailed(Reason.DATASET_MISSING, message) from error
    if digest.hexdigest() != dataset.sha256:
        message = f"The dataset {dataset.filename} in storage is not what was uploaded."
        raise DatasetFailed(Reason.DATASET_MISSING, message)


def _place(data: Path, entry: Path, size: int) -> None:
    """Make the tree read-only for everybody, and the entry of it."""
    for parent, folders, files in os.walk(data):
        for name in (*folders, *files):
            path = Path(parent, name)
            if not path.is_symlink():
                path.chmod(0o555 if path.is_dir() or path.stat().st_mode & 0o100 else 0o444)
    Path(f"{entry}{LOCK}").write_text(str(size))
    data.rename(entry)
    entry.chmod(0o555)


def _make_room(cache: Cache, wanted: int, spared: str = "") -> None:
    """Remove entries that nobody uses, the longest unused first, until `wanted` more bytes fit."""
    entries = [entry for lock in _locks(cache) if (entry := _entry(lock)) is not None]
    total = sum(size for _, _, size in entries) + wanted
    for _, name, size in sorted(entries):
        if total <= cache.most_bytes:
            return
        if name != spared and _evicted(cache, name):
            total -= size


def _entry(lock: Path) -> tuple[float, str, int] | None:
    """When the entry was last used, its name and its size; None where another evictor was faster."""
    with suppress(FileNotFoundError):
        return lock.stat().st_mtime, lock.name.removesuffix(LOCK), _size(lock)
    return None


def _locks(cache: Cache) -> list[Path]:
    return list(cache.folder.glob(f"*{LOCK}"))


def _size(lock: Path) -> int:
    with suppress(OSError, ValueError):
        return int(lock.read_text() or 0)
    return 0


def _evicted(cache: Cache, name: str) -> bool:
    """Remove an entry; False where somebody uses it."""
    fd = _locked(cache, name, fcntl.LOCK_EX | fcntl.LOCK_NB)
    if fd is None:
        return False
    try:
        gone = cache.folder / f"{NEW}{name}"
        remove(gone)
        entry = cache.folder / name
        if entry.is_dir():
            entry.chmod(0o755)  # a folder that may not be written can't be renamed everywhere
            entry.rename(gone)
            remove(gone)
        Path(f"{entry}{LOCK}").unlink(missing_ok=True)
    finally:
        os.close(fd)
    return True


@contextmanager
def _held(cache: Cache, name: str, how: int, stop: Callable[[], bool]) -> Iterator[int]:
    while (fd := _locked(cache, name, how | fcntl.LOCK_NB)) is None:
        if stop():
            raise InterruptedError("The wait for a dataset was given up.")
        threading.Event().wait(AGAIN_SECONDS)
    try:
        yield fd
    finally:
        os.close(fd)


def _locked(cache: Cache, name: str, how: int) -> int | None:
    """The entry's lock file, locked; None while somebody else's lock is in the way."""
    path = cache.folder / f"{name}{LOCK}"
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(fd, how)
        # One that was removed with its entry since it was opened locks nothing any more.
        if os.fstat(fd).st_nlink:
            return fd
    except BlockingIOError:
        pass
    except BaseException:
        os.close(fd)
        raise
    os.close(fd)
    return None


def remove(folder: Path) -> None:
    """Remove a tree, folders that may not be written included."""
    if not folder.exists():
        return
    for parent, _, _ in os.walk(folder):
        os.chmod(parent, 0o700)
    shutil.rmtree(folder)
