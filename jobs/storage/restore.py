"""Putting a checkpoint back into a folder."""

import os
import shutil
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from jobs.models import Checkpoint
from jobs.storage import blobs, manifests, parallel
from jobs.storage.manifests import CheckpointRejected, Entry, Kind, Manifest
from jobs.storage.objects import storage
from jobs.storage.paths import open_root, opened_folder

__all__ = ["CheckpointRejected", "Restored", "restore"]

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

_KEEP = -1
"""chown's word for leaving an owner as it is."""


@dataclass(frozen=True, kw_only=True)
class Restored:
    """What lies in the folder now; `manifest` is `known` to the next `publish`. Sizes in bytes."""

    manifest: Manifest
    file_count: int
    total_bytes: int


def restore(
    checkpoint: Checkpoint,
    into: Path,
    *,
    uid: int | None = None,
    gid: int | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> Restored:
    """Write the checkpoint's tree into `into`, an empty folder or none, with every hash verified.

    The folder and all in it come to belong to `uid` and `gid`, where given (root only). Raises CheckpointRejected where
    something is missing or corrupt, StorageFailed where storage can't be reached, OSError where this disk fails, and
    InterruptedError once `stop` says so; the folder is empty again after any of them.
    """
    manifest = manifests.load(checkpoint)
    into.mkdir(mode=0o700, exist_ok=True)
    if any(into.iterdir()):
        raise ValueError(f"{into} is not empty.")
    try:
        _Writer(into, uid, gid, stop).write(manifest)
    except BaseException:
        _empty(into)
        raise
    files = list(manifest.files)
    return Restored(manifest=manifest, file_count=len(files), total_bytes=sum(entry.size for entry in files))


class _Writer:
    """Writes entries below one folder, by descriptors that no link can lead astray."""

    def __init__(self, into: Path, uid: int | None, gid: int | None, stop: Callable[[], bool]) -> None:
        self._into, self._stop = into, stop
        self._uid, self._gid = (_KEEP if given is None else given for given in (uid, gid))

    def write(self, manifest: Manifest) -> None:
        folders = [entry for entry in manifest.entries if entry.kind is Kind.DIR]
        self._root = open_root(self._into)
        try:
            for entry in folders:
                self._make_folder(entry)
            for entry in manifest.entries:
                if entry.kind is Kind.SYMLINK:
                    self._link(entry)
            parallel.each(manifest.files, self._write_file, threads=storage().threads)
            # Only now, deepest first: writing into a folder changes its time, and its mode may forbid it.
            for entry in reversed(folders):
                self._finish_folder(entry)
            os.fchown(self._root, self._uid, self._gid)
        finally:
            os.close(self._root)

    def _make_folder(self, entry: Entry) -> None:
        parent, name = _split(entry.path)
        with opened_folder(self._root, parent) as folder:
            os.mkdir(name, 0o700, dir_fd=folder)

    def _finish_folder(self, entry: Entry) -> None:
        with opened_folder(self._root, entry.path) as folder:
            self._dress(folder, entry)

    def _link(self, entry: Entry) -> None:
        parent, name = _split(entry.path)
        with opened_folder(self._root, parent) as folder:
            os.symlink(entry.target, name, dir_fd=folder)
            os.chown(name, self._uid, self._gid, dir_fd=folder, follow_symlinks=False)
            os.utime(name, ns=(entry.mtime_ns, entry.mtime_ns), dir_fd=folder, follow_symlinks=False)

    def _write_file(self, entry: Entry) -> None:
        parent, name = _split(entry.path)
        with opened_folder(self._root, parent) as folder:
            fd = os.open(name, _NEW, 0o600, dir_fd=folder)
        with os.fdopen(fd, "wb", buffering=0) as file:
            for chunk in blobs.content(entry):
                if self._stop():
                    raise InterruptedError("The restore was given up.")
                _write_all(fd, chunk)
            self._dress(file.fileno(), entry)

    def _dress(self, fd: int, entry: Entry) -> None:
        os.fchown(fd, self._uid, self._gid)
        os.fchmod(fd, entry.mode)
        os.utime(fd, ns=(entry.mtime_ns, entry.mtime_ns))


def _split(path: str) -> tuple[str, str]:
    parent, _, name = path.rpartition("/")
    return parent, name


def _write_all(fd: int, chunk: bytes) -> None:
    rest = memoryview(chunk)
    while rest:
        rest = rest[os.write(fd, rest) :]


def _empty(folder: Path) -> None:
    for below in folder.iterdir():
        if stat.S_ISDIR(below.lstat().st_mode):
            shutil.rmtree(below)
        else:
            below.unlink()
