"""A tree of entries as tar.gz, byte for byte the same each time."""

import tarfile
from collections.abc import Callable, Generator, Iterable, Iterator

from isal import isal_zlib

from jobs.storage.manifests import Entry, Kind

RECORD = 10_240
"""Archives end at a multiple of it, by tar's tradition."""
LEVEL = 1
GZIP = 31
"""zlib's word for the gzip format with the largest window; isal writes its header without a time."""
LEAST = 64 * 1024
"""Smaller pieces are collected before they are handed on."""

_TYPES = {Kind.FILE: tarfile.REGTYPE, Kind.DIR: tarfile.DIRTYPE, Kind.SYMLINK: tarfile.SYMTYPE}


def tar(entries: Iterable[Entry], content: Callable[[Entry], Iterator[bytes]]) -> Generator[bytes, None, None]:
    """The entries as a pax archive; `content` gives exactly `entry.size` bytes or raises."""
    total = 0
    for entry in entries:
        for piece in _member(entry, content):
            total += len(piece)
            yield piece
    end = 2 * tarfile.BLOCKSIZE
    yield bytes(end + -(total + end) % RECORD)


def _member(entry: Entry, content: Callable[[Entry], Iterator[bytes]]) -> Iterator[bytes]:
    info = tarfile.TarInfo(entry.path)
    info.type, info.mode, info.linkname = _TYPES[entry.kind], entry.mode, entry.target
    info.size = entry.size
    info.mtime = entry.mtime_ns // 1_000_000_000
    yield info.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")
    if entry.kind is Kind.FILE:
        yield from content(entry)
        yield bytes(-entry.size % tarfile.BLOCKSIZE)


def gzip(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The pieces compressed; an error on the way leaves the stream without its end, which every reader notices."""
    compressor = isal_zlib.compressobj(level=LEVEL, wbits=GZIP)
    ready, size = [], 0
    for piece in pieces:
        ready.append(compressor.compress(piece))
        size += len(ready[-1])
        if size >= LEAST:
            yield b"".join(ready)
            ready, size = [], 0
    yield b"".join([*ready, compressor.flush()])
