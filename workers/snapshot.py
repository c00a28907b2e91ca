"""Looking at `output/` while its owner may be changing it, and may mean harm.

Everything is opened relative to folders that are held open and through no link, so nothing outside is ever read. What a
checkpoint can't hold is left out and named.
"""

import errno
import os
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from jobs.storage.manifests import MAX_ENTRIES, Entry, Kind, LeftOut
from jobs.storage.objects import CHUNK, SourceChanged
from jobs.storage.paths import MAX_DEPTH, is_safe_target, open_root, opened_folder, printable

TICK_NS = 20_000_000
"""Two writes closer than this may carry the same time."""
MAX_NAMED = 1_000
"""How many things left out are named; the rest is counted."""

_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_GONE = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}
_CLOSED = {errno.EACCES, errno.EPERM}
_SPECIAL = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFBLK: "a device",
    stat.S_IFCHR: "a device",
}
FOREIGN = "belongs to another user"
UNREADABLE = "can't be read"


class TooMuch(Exception):
    """There are more things in `output/` than a checkpoint can hold. One sentence."""


class Interrupted(Exception):
    """`stop` said to give up."""


class Unfit(Exception):
    """A file turned out to be something that is left out; the message says why."""


class Vanished(Exception):
    """A file is not there any more."""


class Unreadable(Exception):
    """The disk under `output/` fails. One sentence."""


@dataclass
class Tree:
    """What one walk found; `files` carry size, mode and time, and no hash yet. Unsorted."""

    folders: list[Entry] = field(default_factory=list)
    links: list[Entry] = field(default_factory=list)
    files: list[Entry] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    unnamed: int = 0

    def leave_out(self, path: str, why: str) -> None:
        if len(self.left_out) < MAX_NAMED:
            self.left_out.append(LeftOut(path=printable(path), why=why))
        else:
            self.unnamed += 1

    @property
    def seen(self) -> int:
        return len(self.folders) + len(self.links) + len(self.files) + len(self.left_out) + self.unnamed

    @property
    def is_empty(self) -> bool:
        return not (self.folders or self.links or self.files)


class Output:
    """`output/`, held open; everything in it is expected to belong to its owner. A context manager."""

    def __init__(self, folder: Path, stop: Callable[[], bool]) -> None:
        self._folder, self._stop = folder, stop
        self._root: int | None = None
        self._owner = 0

    def __enter__(self) -> "Output":
        try:
            self._root = open_root(self._folder)
            self._owner = os.fstat(self._root).st_uid
        except OSError as error:
            # Its owner may have deleted it, or put a link in its place: then nothing is in it.
            if error.errno not in _GONE:
                raise _unreadable(error) from error
        return self

    def __exit__(self, *_: object) -> None:
        if self._root is not None:
            os.close(self._root)

    def walk(self) -> Tree:
        """All that is in it; raises TooMuch, Interrupted."""
        tree = Tree()
        if self._root is None and self._folder.is_symlink():
            tree.leave_out(".", "output/ was replaced by a link")
        pending = [""] if self._root is not None else []
        while pending:
            pending += self._list(pending.pop(), tree)
        return tree

    def source(self, seen: Entry) -> "FileSource":
        assert self._root is not None
        return FileSource(self._root, self._owner, seen.path, self._stop)

    def _list(self, path: str, tree: Tree) -> list[str]:
        """Note what lies in one folder, and return the folders below."""
        assert self._root is not None
        try:
            with opened_folder(self._root, path) as folder:
                if path:
                    tree.folders.append(_entry(path, Kind.DIR, os.fstat(folder)))
                with os.scandir(folder) as found:
                    below = [self._note(folder, path, item, tree) for item in found]
        except OSError as error:
            self._leave_folder_out(path, error, tree)
            return []
        return [name for name in below if name is not None]

    def _note(self, folder: int, parent: str, item: "os.DirEntry[str]", tree: Tree) -> str | None:
        if tree.seen >= MAX_ENTRIES:
            raise TooMuch(f"There are more than {MAX_ENTRIES} files and folders in output/.")
        if self._stop():
            raise Interrupted
        path = f"{parent}/{item.name}" if parent else item.name
        try:
            found = item.stat(follow_symlinks=False)
            return self._sort(folder, path, item.name, found, tree)
        except OSError as error:
            if error.errno not in _GONE:
                raise
            return None

    def _sort(self, folder: int, path: str, name: str, found: os.stat_result, tree: Tree) -> str | None:
        """Put it where it belongs; returns the path of a folder to look into."""
        kind = stat.S_IFMT(found.st_mode)
        if found.st_uid != self._owner:
            tree.leave_out(path, FOREIGN)
        elif kind == stat.S_IFDIR:
            if path.count("/") + 1 < MAX_DEPTH:
                return path
            tree.leave_out(path, "lies too deep")
        elif kind == stat.S_IFREG:
            tree.files.append(_entry(path, Kind.FILE, found))
        elif kind == stat.S_IFLNK:
            _note_link(path, os.readlink(name, dir_fd=folder), found, tree)
        else:
            tree.leave_out(path, f"is {_SPECIAL.get(kind, 'no file')}")
        return None

    def _leave_folder_out(self, path: str, error: OSError, tree: Tree) -> None:
        if error.errno in _CLOSED:
            tree.folders = [entry for entry in tree.folders if entry.path != path]
            tree.leave_out(path or ".", UNREADABLE)
        elif error.errno not in _GONE:
            raise _unreadable(error) from error


class FileSource:
    """A file's content, as a source for storage. Never blocks on what was put in its place."""

    def __init__(self, root: int, owner: int, path: str, stop: Callable[[], bool]) -> None:
        self._root, self._owner, self._path, self._stop = root, owner, path, stop
        self.found: Entry | None = None
        """What it was when last read."""

    @property
    def size(self) -> int:
        return self.found.size if self.found else 0

    def chunks(self) -> Iterator[bytes]:
        """Raises SourceChanged, Unfit, Vanished, Unreadable or Interrupted."""
        try:
            parent, _, name = self._path.rpartition("/")
            with opened_folder(self._root, parent) as folder:
                fd = os.open(name, _FILE, dir_fd=folder)
        except OSError as error:
            raise _lost(error) from error
        try:
            yield from self._read(fd)
        except OSError as error:
            raise _lost(error) from error
        finally:
            os.close(fd)

    def _read(self, fd: int) -> Iterator[bytes]:
        before = self._settled(fd)
        self.found = _entry(self._path, Kind.FILE, before)
        left = before.st_size
        while chunk := os.read(fd, CHUNK):
            left -= len(chunk)
            if left < 0:
                raise SourceChanged
            if self._stop():
                raise Interrupted
            yield chunk
        if left or _version(os.fstat(fd)) != _version(before):
            raise SourceChanged

    def _settled(self, fd: int) -> os.stat_result:
        """The file's state, old enough for a later write to show in its time."""
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            raise Unfit("is no file any more")
        if found.st_uid != self._owner:
            raise Unfit(FOREIGN)
        age = time.time_ns() - found.st_mtime_ns
        if abs(age) < TICK_NS:
            time.sleep((TICK_NS - age) / 1e9)
            found = os.fstat(fd)
        return found


def _version(found: os.stat_result) -> tuple[int, int]:
    return found.st_size, found.st_mtime_ns


def _entry(path: str, kind: Kind, found: os.stat_result) -> Entry:
    return Entry(
        path=path,
        kind=kind,
        # Not what would let a file act for its owner.
        mode=0 if kind is Kind.SYMLINK else found.st_mode & 0o777,
        mtime_ns=found.st_mtime_ns,
        size=found.st_size if kind is Kind.FILE else 0,
    )


def _note_link(path: str, target: str, found: os.stat_result, tree: Tree) -> None:
    if is_safe_target(path, target):
        link = _entry(path, Kind.SYMLINK, found)
        tree.links.append(Entry(path=path, kind=Kind.SYMLINK, mtime_ns=link.mtime_ns, target=target))
    else:
        tree.leave_out(path, "is a link that points out of output/")


def _lost(error: OSError) -> Exception:
    if error.errno in _CLOSED:
        return Unfit(UNREADABLE)
    # A link or a pipe without a writer's end in the file's place: it is not there any more.
    if error.errno in _GONE | {errno.ENXIO, errno.EISDIR}:
        return Vanished()
    return _unreadable(error)


def _unreadable(error: OSError) -> Unreadable:
    return Unreadable(f"output/ can't be read: {error.strerror or type(error).__name__}.")
