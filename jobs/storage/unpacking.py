"""Reading archives that anybody may have made: nothing is written outside, and nothing beyond the limits.

Devices, fifos, links that lead out, names given twice, absolute names and names with `..` refuse the whole archive.
"""

import gzip
import os
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

from jobs.storage.objects import CHUNK
from jobs.storage.paths import is_safe_path, is_safe_target, open_root, opened_folder, printable

MAX_HEADER = 1024 * 1024
"""Of one header of a tar; Python reads each into memory as a whole."""
MAX_DIRECTORY = 32 * 1024 * 1024
"""Of a zip's directory, for the same reason."""
MAX_TARGET = 4096

_GZIP, _ZSTD, _ZIP = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", (b"PK\x03\x04", b"PK\x05\x06")
_TAR_NAMES = (".tar", ".tar.gz", ".tgz", ".tar.zst", ".tzst")
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_DAMAGE = (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RecursionError,
           ValueError, RuntimeError, gzip.BadGzipFile)  # fmt: skip


class Unpackable(Exception):
    """The archive is damaged, or refused for what is in it; one sentence."""


class TooBig(Unpackable):
    """It holds more than the limits allow."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What an archive may come to; sizes in bytes."""

    entries: int
    total_bytes: int
    ratio: int = 100
    """Of what comes out to the archive's own size, beyond `free_bytes`."""
    free_bytes: int = 100 * 1024 * 1024

    def most_bytes(self, archive_size: int) -> int:
        return min(self.total_bytes, self.free_bytes + self.ratio * archive_size)


def is_archive(path: Path, filename: str) -> bool:
    """Whether a file of this name is one to unpack: by its name, or by its content where the name has no suffix."""
    name = filename.lower()
    if "." in name.lstrip("."):
        return name.endswith((*_TAR_NAMES, ".zip"))
    with path.open("rb") as file:
        start = file.read(262)
    return start.startswith((*_ZIP, _GZIP, _ZSTD)) or start[257:262] == b"ustar"


def unpack(archive: Path, into: Path, limits: Limits) -> int:
    """Write the archive's tree into `into`, an existing empty folder; returns its size in bytes.

    Raises Unpackable, and OSError where this disk fails; what was written by then is the caller's to remove.
    """
    with _Tree(into) as tree:
        return _walk(archive, limits, tree)


def inspect(archive: Path, limits: Limits) -> frozenset[str]:
    """The paths of the files in an archive that `unpack` would take; raises Unpackable."""
    tree = _Names()
    _walk(archive, limits, tree)
    return frozenset(tree.files)


@dataclass(frozen=True, kw_only=True)
class _Member:
    path: str
    mode: int
    content: IO[bytes] | None = None
    """Of a file; a folder has neither this nor a target."""
    size: int = 0
    target: str = ""
    """Of a symbolic link, or of a hard link, as a path from the top."""
    hard: bool = False


class _Names:
    """Remembers what there would be."""

    def __init__(self) -> None:
        self.files: set[str] = set()
        self._links: set[str] = set()
        self._folders: set[str] = set()

    def folder(self, path: str) -> None:
        names = path.split("/")
        for depth in range(1, len(names) + 1):
            above = "/".join(names[:depth])
            if above in self.files or above in self._links:
                raise _twice(above)
            self._folders.add(above)

    def claim(self, member: _Member) -> None:
        if "/" in member.path:
            self.folder(member.path.rpartition("/")[0])
        if member.path in self.files or member.path in self._folders or member.path in self._links:
            raise _twice(member.path)
        (self._links if member.target else self.files).add(member.path)

    def write(self, member: _Member, chunks: Iterator[bytes]) -> None:
        self.claim(member)
        for _ in chunks:
            pass

    def link(self, member: _Member) -> None:
        if member.hard and member.target not in self.files:
            raise Unpackable(f"The link {printable(member.path)!r} leads to no file before it.")
        self.claim(member)

    def finish(self) -> None:
        """All is known."""


class _Tree(_Names):
    """Writes it, by descriptors that no link can lead astray; symbolic links last, so that none is ever in the way."""

    def __init__(self, into: Path) -> None:
        super().__init__()
        self._root = open_root(into)
        self._later: list[_Member] = []

    def __enter__(self) -> "_Tree":
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._root)

    def folder(self, path: str) -> None:
        known = path in self._folders
        super().folder(path)
        if known:
            return
        names = path.split("/")
        for depth in range(len(names)):
            with opened_folder(self._root, "/".join(names[:depth])) as above:
                try:
                    os.mkdir(names[depth], 0o755, dir_fd=above)
                except FileExistsError:
                    continue

    def write(self, member: _Member, chunks: Iterator[bytes]) -> None:
        self.claim(member)
        folder, _, name = member.path.rpartition("/")
        with opened_folder(self._root, folder) as above:
            fd = os.open(name, _NEW, 0o600, dir_fd=above)
        with os.fdopen(fd, "wb") as file:
            for chunk in chunks:
                file.write(chunk)
            os.fchmod(fd, 0o755 if member.mode & 0o100 else 0o644)

    def link(self, member: _Member) -> None:
        super().link(member)
        self._later.append(member)

    def finish(self) -> None:
        for member in self._later:
            folder, _, name = member.path.rpartition("/")
            with opened_folder(self._root, folder) as above:
                if member.hard:
                    source, _, source_name = member.target.rpartition("/")
                    with opened_folder(self._root, source) as there:
                        os.link(source_name, name, src_dir_fd=there, dst_dir_fd=above, follow_symlinks=False)
                else:
                    os.symlink(member.target, name, dir_fd=above)


def _walk(archive: Path, limits: Limits, tree: _Names) -> int:
    most = limits.most_bytes(archive.stat().st_size)
    total = count = 0

    def counted(member: _Member) -> Iterator[bytes]:
        nonlocal total
        assert member.content is not None
        left = member.size
        while left and (chunk := member.content.read(min(CHUNK, left))):
            left -= len(chunk)
            total += len(chunk)
            if total > most:
                raise TooBig(f"The archive comes to more than {most // 1024**2} MiB.")
            yield chunk
        if left:
            raise Unpackable("The archive is damaged: it breaks off.")

    with _sentences():
        for member in _members(archive, limits, most):
            count += 1
            if count > limits.entries:
                raise TooBig(f"The archive holds more than {limits.entries} entries.")
            if not member.path:
                continue
            if member.content is not None:
                if member.size + total > most:
                    raise TooBig(f"The archive comes to more than {most // 1024**2} MiB.")
                tree.write(member, counted(member))
            elif member.target:
                tree.link(member)
            else:
                tree.folder(member.path)
        tree.finish()
    return total


def _members(archive: Path, limits: Limits, most: int) -> Iterator[_Member]:
    with archive.open("rb") as file:
        start = file.read(4)
        file.seek(0)
        if start in _ZIP:
            yield from _zip_members(file, limits)
            return
        with _decompressed(file, start) as plain:
            # Headers count too: some 1.5 KiB for an entry with a long name.
            yield from _tar_members(_Forward(plain, most + limits.entries * 2048 + MAX_HEADER))


def _tar_members(source: "_Forward") -> Iterator[_Member]:
    # Mode "r:" asks of its file what _Forward offers, and of the stream to be no more than it is.
    with tarfile.open(fileobj=cast(Any, source), mode="r:") as tar:
        while (info := tar.next()) is not None:
            cast(Any, tar).members.clear()  # or it would remember every one
            path = _path(info.name)
            if info.issym():
                yield _Member(path=path, mode=info.mode, target=_inner_target(path, info.linkname))
            elif info.islnk():
                yield _Member(path=path, mode=info.mode, target=_path(info.linkname), hard=True)
            elif info.isdir():
                yield _Member(path=path, mode=info.mode)
            elif info.isreg() and not info.issparse():
                yield _Member(path=path, mode=info.mode, size=info.size, content=tar.extractfile(info))
            else:
                raise Unpackable(f"The archive holds {printable(path)!r}, which is no file, folder or link.")
    if not source.ended:
        raise Unpackable("The archive is damaged: it breaks off.")


def _zip_members(file: IO[bytes], limits: Limits) -> Iterator[_Member]:
    _refuse_directory(file, limits)
    with zipfile.ZipFile(file) as archive:
        for info in archive.infolist():
            mode = info.external_attr >> 16
            path = _path(info.filename)
            kind = stat.S_IFMT(mode)
            if info.flag_bits & 1:
                raise Unpackable("The archive is encrypted.")
            if info.is_dir():
                yield _Member(path=path, mode=mode)
            elif kind == stat.S_IFLNK:
                if info.file_size > MAX_TARGET:
                    raise Unpackable(f"The link {printable(path)!r} is too long.")
                target = os.fsdecode(archive.read(info))
                yield _Member(path=path, mode=mode, target=_inner_target(path, target))
            elif kind in {0, stat.S_IFREG}:
                with archive.open(info) as content:
                    yield _Member(path=path, mode=mode, size=info.file_size, content=content)
            else:
                raise Unpackable(f"The archive holds {printable(path)!r}, which is no file, folder or link.")


def _refuse_directory(file: IO[bytes], limits: Limits) -> None:
    """Judge the size of a zip's directory before it is read into memory: it lies between its files and its end."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(size - 66_000, 0))
    tail = file.read()
    end = tail.rfind(b"PK\x05\x06")
    if end < 0 or len(tail) - end < 22:
        raise Unpackable("The archive is damaged: it breaks off.")
    count, directory = int.from_bytes(tail[end + 10 : end + 12], "little"), tail[end + 12 : end + 16]
    length = int.from_bytes(directory, "little")
    if length == 0xFFFFFFFF or count == 0xFFFF:
        record = tail.rfind(b"PK\x06\x06")
        if record >= 0:
            count = int.from_bytes(tail[record + 32 : record + 40], "little")
            length = int.from_bytes(tail[record + 40 : record + 48], "little")
    file.seek(0)
    if count > limits.entries:
        raise TooBig(f"The archive holds more than {limits.entries} entries.")
    if length > MAX_DIRECTORY:
        raise TooBig("The archive's directory is too long.")


def _path(name: str) -> str:
    """The name as a path from the top; empty for the top itself."""
    name = name.removesuffix("/")
    while name.startswith("./"):
        name = name[2:].lstrip("/")
    if name in {"", "."}:
        return ""
    if not is_safe_path(name):
        raise Unpackable(f"The archive holds the name {printable(name)[:200]!r}, which can't be used.")
    return name


def _inner_target(path: str, target: str) -> str:
    if not is_safe_target(path, target):
        raise Unpackable(f"The link {printable(path)!r} leads out of the archive.")
    return target


@contextmanager
def _decompressed(file: IO[bytes], start: bytes) -> Iterator[IO[bytes]]:
    if start.startswith(_GZIP):
        with gzip.GzipFile(fileobj=file) as plain:
            yield plain  # type: ignore[misc]  # as good as IO
    elif start.startswith(_ZSTD):
        raise Unpackable("The archive is compressed by zstd, which is not supported yet; use tar.gz, zip or plain tar.")
    else:
        yield file


class _Forward:
    """A stream as tarfile wants it, which refuses to go back, to be asked for much at once, or to go on for ever."""

    def __init__(self, source: IO[bytes], most: int) -> None:
        self._source, self._most = source, most
        self._at = 0
        self._last = b""

    @property
    def ended(self) -> bool:
        """Whether the last thing read was there: an archive ends with empty blocks; one that breaks off does not."""
        return bool(self._last)

    def tell(self) -> int:
        return self._at

    def read(self, size: int) -> bytes:
        if size > MAX_HEADER:
            raise Unpackable("The archive is damaged: one of its headers is too long.")
        parts = []
        while size > 0 and (part := self._source.read(size)):
            parts.append(part)
            size -= len(part)
        self._last = b"".join(parts)
        self._at += len(self._last)
        if self._at > self._most:
            raise TooBig(f"The archive comes to more than {self._most // 1024**2} MiB.")
        return self._last

    def seek(self, position: int) -> int:
        if position < self._at:
            raise Unpackable("The archive is damaged: its parts are out of order.")
        while self._at < position and self.read(min(CHUNK, position - self._at)):
            pass
        return self._at


@contextmanager
def _sentences() -> Iterator[None]:
    try:
        yield
    except _DAMAGE as error:
        raise Unpackable(f"The archive is damaged: {_first_line(error)}.") from error


def _first_line(error: Any) -> str:
    text = str(error).strip().splitlines() or [type(error).__name__]
    return printable(text[0])[:200].rstrip(".")


def _twice(path: str) -> Unpackable:
    return Unpackable(f"The archive holds {printable(path)!r} twice.")
