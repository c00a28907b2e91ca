"""What a script sees of the file system: run by init, alone in a mount namespace and as root there."""

from __future__ import annotations

import ctypes
import os
import stat

from workers.kernel import LaunchError, call, libc

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    Spec = dict[str, Any]

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_REMOUNT, MS_NOATIME, MS_NODIRATIME, MS_BIND, MS_REC = 32, 1024, 2048, 4096, 16384
MS_PRIVATE, MS_RELATIME = 1 << 18, 1 << 21
CLONE_NEWNS, CLONE_NEWIPC, CLONE_NEWUSER, CLONE_NEWPID = 0x00020000, 0x08000000, 0x10000000, 0x20000000
SCRATCH = ("/tmp", "/var/tmp", "/dev/shm")
KEPT_FLAGS = {"nosuid": MS_NOSUID, "nodev": MS_NODEV, "noexec": MS_NOEXEC, "noatime": MS_NOATIME,
              "nodiratime": MS_NODIRATIME, "relatime": MS_RELATIME}  # fmt: skip


def mount(what: str, source: str, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    encoded = [None if text is None else os.fsencode(text) for text in (source, target, kind)]
    options = None if data is None else data.encode()
    call(what, "mount", *encoded, ctypes.c_ulong(flags), options)


def unshare(spec: Spec) -> None:
    """Leave the mount, IPC and (for the next child) PID namespaces, by way of a user namespace when not root."""
    uid, gid = os.getuid(), os.getgid()
    flags = CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWPID | (CLONE_NEWUSER if spec["uid"] is None else 0)
    call("namespaces are refused here", "unshare", flags)
    if spec["uid"] is None:
        for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
            write(f"/proc/self/{name}", text)


def write(path: str, text: str) -> None:
    try:
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
    except OSError as error:
        raise LaunchError(f"cannot write {path}: {error.strerror}") from None


def arrange_mounts(spec: Spec) -> None:
    """Give this mount namespace its own /proc and scratch folders, cover what is hidden, bind back what is needed.

    Shallow paths come first, so that a bound folder in a hidden one, or the other way round, ends up on top.
    """
    mount("cannot make the mounts private", "none", "/", None, MS_REC | MS_PRIVATE)
    # Opened before anything is covered, since covering hides them from lookups by path.
    sources = {path: open_path(path) for path in [*spec["readonly"], *spec["writable"]]}
    mount("cannot mount /proc", "proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    if spec["lockdown"]:
        make_everything_readonly()
    covers = {*SCRATCH, *spec["hidden"]} - set(sources)
    empty = [path for path in sorted(covers | set(sources), key=depth) if place(path, sources, spec)]
    for path in empty:
        remount(path, MS_NOSUID | MS_NODEV | MS_RDONLY)


def depth(path: str) -> int:
    return path.count("/")


def open_path(path: str) -> int:
    try:
        return os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError as error:
        raise LaunchError(f"cannot bind {path}: {error.strerror}") from None


def place(path: str, sources: dict[str, int], spec: Spec) -> bool:
    """Cover `path`, or bind it back; true for a cover that is to be made read-only when all is in place."""
    if path in sources:
        bind(sources[path], path, readonly=path not in spec["writable"])
        return False
    if not os.path.lexists(path):
        return False
    if not os.path.isdir(path):
        mount(f"cannot hide {path}", "/dev/null", path, None, MS_BIND)
        return False
    mode = "1777" if path in SCRATCH else "0755"
    mount(f"cannot hide {path}", "tmpfs", path, "tmpfs", MS_NOSUID | MS_NODEV, f"mode={mode}")
    return path not in SCRATCH


def bind(source: int, path: str, *, readonly: bool) -> None:
    is_folder = stat.S_ISDIR(os.fstat(source).st_mode)
    try:
        make_mount_point(path, is_folder=is_folder)
    except OSError as error:
        raise LaunchError(f"cannot bind {path}: {error.strerror}") from None
    mount(f"cannot bind {path}", f"/proc/self/fd/{source}", path, None, MS_BIND | MS_REC)
    remount(path, kept_flags(path) | (MS_RDONLY if readonly else 0))


def remount(path: str, flags: int) -> None:
    mount(f"cannot change the mount at {path}", "none", path, None, MS_REMOUNT | MS_BIND | flags)


def make_mount_point(path: str, *, is_folder: bool) -> None:
    if os.path.lexists(path):
        return
    os.makedirs(path if is_folder else os.path.dirname(path), mode=0o755, exist_ok=True)
    if not is_folder:
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))


def kept_flags(path: str) -> int:
    """The flags of the mount at `path` that an unprivileged remount must repeat or is refused."""
    have = os.statvfs(path).f_flag
    pairs = ((os.ST_NOSUID, MS_NOSUID), (os.ST_NODEV, MS_NODEV), (os.ST_NOEXEC, MS_NOEXEC),
             (os.ST_NOATIME, MS_NOATIME), (os.ST_NODIRATIME, MS_NODIRATIME), (os.ST_RELATIME, MS_RELATIME))  # fmt: skip
    return sum(mount_flag for statvfs_flag, mount_flag in pairs if have & statvfs_flag)


def make_everything_readonly() -> None:
    """Remount every mount but /proc read-only: the script has our own uid, so permissions alone protect nothing."""
    found = [(path, options) for path, options in mounts() if path != "/proc" and not path.startswith("/proc/")]
    for path, options in found:
        flags = MS_REMOUNT | MS_BIND | MS_RDONLY | sum(KEPT_FLAGS.get(option, 0) for option in options)
        libc.mount(b"none", os.fsencode(path), None, ctypes.c_ulong(flags), None)
    # Judged by the result: a mount that lies below another one can't be changed, nor need it be.
    for path, _ in found:
        if os.access(path, os.W_OK) and os.path.isdir(path) and not os.statvfs(path).f_flag & os.ST_RDONLY:
            raise LaunchError(f"cannot make {path} read-only")


def mounts() -> Iterator[tuple[str, list[str]]]:
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            fields = line.split(" ")
            path = fields[4].replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\")
            yield path, fields[5].split(",")
