"""Folders to publish, and looking at what became of them."""

import os
import stat
from pathlib import Path
from typing import Any


def describe(folder: Path) -> dict[str, tuple[Any, ...]]:
    """Everything in a folder by path: kind, mode, time and content."""
    return {os.fsdecode(path): _describe(path) for path in _below(os.fsencode(folder), b"")}


def _below(folder: bytes, prefix: bytes) -> "list[Named]":
    found = []
    for item in os.scandir(folder):
        name = prefix + item.name
        found.append(Named(name, item.path))
        if item.is_dir(follow_symlinks=False):
            found += _below(item.path, name + b"/")
    return found


class Named(bytes):
    """A relative path that knows where it lies."""

    place: bytes

    def __new__(cls, name: bytes, place: bytes) -> "Named":
        named = super().__new__(cls, name)
        named.place = place
        return named


def _describe(path: Named) -> tuple[Any, ...]:
    found = os.lstat(path.place)
    if stat.S_ISLNK(found.st_mode):
        return "symlink", found.st_mtime_ns, os.readlink(path.place)
    mode = stat.S_IMODE(found.st_mode)
    if stat.S_ISDIR(found.st_mode):
        return "dir", mode, found.st_mtime_ns
    with open(path.place, "rb") as file:
        return "file", mode, found.st_mtime_ns, file.read()


def write(folder: Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def varied(folder: Path) -> None:
    """A folder with one of everything that a checkpoint holds."""
    write(
        folder,
        {
            "model.bin": os.urandom(700_000),
            "empty": b"",
            "deep/er/still/loss.txt": b"0.5\n",
            "naïve 模型 🚂/weights": b"unicode",
            f"{'n' * 255}/{'m' * 251}.bin": b"long names",
        },
    )
    (folder / "nothing in here").mkdir()
    (folder / "run.sh").write_bytes(b"#!/bin/sh\n")
    (folder / "run.sh").chmod(0o751)
    (folder / "read only").write_bytes(b"secret")
    (folder / "read only").chmod(0o400)
    (folder / "latest").symlink_to("deep/er/still/loss.txt")
    (folder / "deep/up").symlink_to("../model.bin")
    (folder / "dangling").symlink_to("not yet")
    with open(os.fsencode(folder) + b"/not utf-8 \xff\xfe", "wb") as file:
        file.write(b"bytes")
    os.utime(folder / "model.bin", ns=(1, 1_234_567_890_123_456_789))
    os.utime(folder / "nothing in here", ns=(1, 987_654_321_000_000_001))
    (folder / "deep/er").chmod(0o500)
