"""Which isolation is in force on this machine, and what a script may see under it.

Levels, best first: `namespace` (own PID, mount and IPC namespace, own uid where we are root), `uid` (own uid only) and
`environment` (clean environment, closed descriptors, non-dumpable parents). A level is in force when a script could
really be started under it.
"""

import contextlib
import os
import pwd
import shutil
import stat
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from workers.process import Confinement, Level, Script, ScriptSpec, SpawnError, base_python

__all__ = [
    "Confinement",
    "Isolation",
    "Level",
    "confine",
    "detect",
    "give_cache",
    "give_folder",
    "is_root",
    "uid_for_owner",
]

FIRST_UID, UIDS = 64000, 1500  # ends before 65534, which is `nobody`, under which Postgres runs
MORE_UIDS = 1_900_000_000  # above what subordinate uids and containers are given
PROBE_SECONDS = 20.0
NEEDED_BY_ALL = {Path(path) for path in ("/", "/bin", "/dev", "/etc", "/lib", "/proc", "/sbin", "/sys", "/usr",
                                         "/usr/bin", "/usr/sbin", "/var", "/run")}  # fmt: skip


@dataclass(frozen=True)
class Isolation:
    """The level in force, and in a sentence what kept a better one from being so (empty at the best)."""

    level: Level
    why: str = ""


def is_root() -> bool:
    return os.geteuid() == 0


def uid_for_owner(owner_id: int) -> int:
    """A uid (and gid) for the scripts of one owner, the same on every machine; no two owners share one.

    Only where this machine's user namespace ends below the higher range do owners 1,500 apart share one.
    """
    if owner_id >= UIDS and _is_mapped(MORE_UIDS + owner_id):
        return MORE_UIDS + owner_id
    return FIRST_UID + owner_id % UIDS


def _is_mapped(uid: int) -> bool:
    try:
        ranges = Path("/proc/self/uid_map").read_text(encoding="ascii").splitlines()
    except OSError:
        return True
    return any(int(start) <= uid < int(start) + int(length) for start, _, length in map(str.split, ranges))


def confine(
    level: Level,
    owner_id: int,
    *,
    hidden: Sequence[Path] = (),
    writable: Sequence[Path] = (),
    readonly: Sequence[Path] = (),
) -> Confinement:
    """The confinement of one owner's script: what the caller names, our home hidden, and the base interpreter seen.

    Name as `hidden` the data folder and the socket folders, as `writable` the execution's folder and the owner's cache,
    as `readonly` the SDK's folder, the dataset, and the uv binary.
    """
    uid = uid_for_owner(owner_id) if is_root() and level is not Level.ENVIRONMENT else None
    seen = [*readonly, Path(os.path.realpath(sys.base_prefix)), base_python()]
    covered = [*hidden, *_private_folders()]
    if uid is not None:
        covered += _unreachable([*writable, *seen], uid)
    rootless = uid is None and level is Level.NAMESPACE
    return Confinement(level=level, uid=uid, hidden=covered, writable=writable, readonly=seen, lockdown=rootless)


def _private_folders() -> Iterator[Path]:
    """Our homes and our runtime folder: a user's session bus would start processes outside of the sandbox."""
    candidates = [Path("/run/user", str(os.getuid()))]
    with contextlib.suppress(KeyError):  # a uid without an account, as in containers
        candidates.append(Path(pwd.getpwuid(os.getuid()).pw_dir))
    candidates += [Path(os.environ[name]) for name in ("HOME", "XDG_RUNTIME_DIR") if os.environ.get(name)]
    for path in candidates:
        if path.is_absolute() and path.resolve() not in NEEDED_BY_ALL:
            yield path.resolve()


def _unreachable(paths: Sequence[Path], uid: int) -> Iterator[Path]:
    """The folders on the way to `paths` that `uid` may not enter: covered, the paths in them can be bound back."""
    ancestors = {parent for path in paths for parent in Path(os.path.realpath(path)).parents}
    return (folder for folder in sorted(ancestors) if folder not in NEEDED_BY_ALL and not _may_enter(folder, uid))


def _may_enter(folder: Path, uid: int) -> bool:
    try:
        facts = folder.stat()
    except FileNotFoundError:  # the launcher says so in its own sentence
        return True
    if facts.st_uid == uid:
        return bool(facts.st_mode & stat.S_IXUSR)
    return bool(facts.st_mode & (stat.S_IXGRP if facts.st_gid == uid else stat.S_IXOTH))


def detect(folder: Path | None = None) -> Isolation:
    """The best level under which a script can be started here in `folder`, tried once per process and folder."""
    return _detect(None if folder is None else Path(os.path.realpath(folder)))


@lru_cache(maxsize=32)
def _detect(folder: Path | None) -> Isolation:
    reasons = []
    for level in (Level.NAMESPACE, Level.UID):
        if level is Level.UID and not is_root():
            reasons.append("Only root can give scripts a uid of their own.")
            continue
        problem = probe(level, folder)
        if problem is None:
            return Isolation(level, " ".join(reasons))
        reasons.append(f"No level '{level}': {problem}")
    return Isolation(Level.ENVIRONMENT, " ".join(reasons))


def probe(level: Level, folder: Path | None = None) -> str | None:
    """Start the base interpreter under `level`; None if it runs, otherwise a sentence about what went wrong."""
    if not sys.platform.startswith("linux") and level is Level.NAMESPACE:
        return "Namespaces are a thing of Linux."
    confinement = confine(level, 0, readonly=[] if folder is None else [folder])
    argv = [str(base_python()), "-I", "-S", "-c", "pass"]
    with open(os.devnull, "wb") as null:
        spec = ScriptSpec(argv=argv, env={}, folder=folder or Path("/"), stdout=null.fileno(),
                          stderr=null.fileno(), confinement=confinement)  # fmt: skip
        try:
            with Script.spawn(spec) as script:
                end = script.wait(PROBE_SECONDS)
        except SpawnError as error:
            return str(error)
    return None if end is not None and end.code == 0 else f"The interpreter did not run there ({end})."


def give_folder(folder: Path, confinement: Confinement) -> None:
    """Make `folder` (created if missing) and all in it belong to the script, and closed to everyone else.

    For an execution's folder, once, before the script starts. Follows no link.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    if confinement.uid is None:
        return
    # The folder last: until then no other script of the same owner can enter it and swap what we are about to give.
    for path in (*_everything_in(folder), folder):
        os.chown(path, confinement.uid, confinement.uid, follow_symlinks=False)


def _everything_in(folder: Path) -> Iterator[Path]:
    for parent, folders, files in os.walk(folder):
        yield from (Path(parent, name) for name in (*folders, *files))


def give_cache(folder: Path, confinement: Confinement) -> None:
    """Make `folder` a cache of the script's uid: kept when it is one already, begun anew when it is another uid's.

    Scripts of the same owner may be at work in it, so nothing in it is touched otherwise.
    """
    uid = os.getuid() if confinement.uid is None else confinement.uid
    if folder.exists() and folder.stat().st_uid != uid:
        shutil.rmtree(folder)
    if not folder.exists():
        folder.mkdir(mode=0o700, parents=True)
        if confinement.uid is not None:
            os.chown(folder, confinement.uid, confinement.uid)
