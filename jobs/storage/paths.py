"""Paths inside `output/`: which are safe to write, and opening them without ever following a link."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

MAX_DEPTH = 128
MAX_NAME_BYTES = 255

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def is_safe_path(path: object) -> bool:
    """Whether it names something below a folder, whatever that folder is."""
    if not isinstance(path, str):
        return False
    names = path.split("/")
    return len(names) <= MAX_DEPTH and all(_is_safe_name(name) for name in names)


def _is_safe_name(name: str) -> bool:
    try:
        size = len(os.fsencode(name))
    except UnicodeEncodeError:
        return False
    return name not in {"", ".", ".."} and "\0" not in name and size <= MAX_NAME_BYTES


def is_safe_target(path: str, target: object) -> bool:
    """Whether a link at `path` with this target stays inside, whatever the other links there are.

    `..` may only come first: climbing from the link's own folder is exact, climbing out of another link is not.
    """
    if not isinstance(target, str) or not target or target.startswith("/"):
        return False
    names = [name for name in target.split("/") if name not in {"", "."}]
    climbs = next((index for index, name in enumerate(names) if name != ".."), len(names))
    inner = names[climbs:]
    return climbs <= path.count("/") and len(target) < 4096 and all(_is_safe_name(name) for name in inner)


def printable(path: str) -> str:
    """Fit for people, JSON and the database: bytes that are not UTF-8 are written as `\\xff`."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def open_root(folder: str | os.PathLike[str]) -> int:
    """A descriptor of the folder; raises OSError where it is missing, a link, or no folder."""
    return os.open(folder, _FOLDER)


@contextmanager
def opened_folder(root: int, path: str) -> Iterator[int]:
    """A descriptor of the folder at `path` below `root` (itself for an empty path), reached through no link."""
    fd = os.dup(root)
    try:
        for name in path.split("/") if path else ():
            below = os.open(name, _FOLDER, dir_fd=fd)
            os.close(fd)
            fd = below
        yield fd
    finally:
        os.close(fd)
