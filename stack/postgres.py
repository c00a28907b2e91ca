"""The embedded PostgreSQL: made once, run by the supervisor, reached over a unix socket only."""

import shutil
import signal
import subprocess
from pathlib import Path

import psutil

from stack import account, binaries
from stack.errors import CannotStart
from stack.places import Places
from stack.program import Program

NAME = "postgres"
ROLE = DATABASE = "rerail"
SUPERUSER = "postgres"


def program(places: Places, *, connections: int = 100, durable: bool = True) -> Program:
    """The server over the folder that `initialise` made; `durable=False` is for tests alone."""
    settings = {
        "listen_addresses": "",
        "unix_socket_directories": str(places.postgres_sockets),
        "unix_socket_permissions": "0700",
        "max_connections": str(connections),
        "log_timezone": "UTC",
        "timezone": "UTC",
        "fsync": "on" if durable else "off",
    }
    options = [word for key, value in settings.items() for word in ("-c", f"{key}={value}")]
    folder = account.as_seen_by_server(places.postgres_data)
    return Program(
        name=NAME,
        command=(str(binaries.postgres(places) / "postgres"), "-D", folder, *options),
        # SIGINT ends the sessions and then the server, with everything on disk.
        stop_signal=signal.SIGINT,
        stop_seconds=60,
        server=True,
        **account.identity(places.postgres_data),
    )


def initialise(places: Places) -> None:
    """Make the folders, and the database if there is none yet: whole, or not at all."""
    account.check_name()
    account.make_folder(places.postgres_sockets)
    if places.postgres_data.exists():
        _refuse_unusable(places.postgres_data)
        _clear_stale_locks(places)
        return
    draft = places.postgres_data.with_name("postgres.new")
    shutil.rmtree(draft, ignore_errors=True)
    account.make_folder(draft)
    _run_initdb(places, draft)
    draft.rename(places.postgres_data)


def answers(places: Places) -> bool:
    """Whether the server takes connections by now."""
    import psycopg

    try:
        psycopg.connect(_address(places), connect_timeout=5).close()
    except psycopg.OperationalError:
        return False
    return True


def ensure_database(places: Places) -> None:
    """Make the role and its database where they are missing; the server answers already."""
    import psycopg

    with psycopg.connect(_address(places), autocommit=True) as connection:
        if connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [ROLE]).fetchone() is None:
            connection.execute(f"CREATE ROLE {ROLE} LOGIN CREATEDB")
        if connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE]).fetchone() is None:
            connection.execute(f"CREATE DATABASE {DATABASE} OWNER {ROLE}")


def url(places: Places) -> str:
    """What DATABASE_URL would say of it."""
    return f"postgresql://{ROLE}@/{DATABASE}?host={places.postgres_sockets}"


def _address(places: Places) -> str:
    return f"postgresql://{SUPERUSER}@/{SUPERUSER}?host={places.postgres_sockets}"


def _run_initdb(places: Places, folder: Path) -> None:
    # Text is sorted by code point and folded by Unicode's rules, both by PostgreSQL itself: no system library that is
    # updated one day can change the order of an index.
    locale = ("--encoding=UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8")
    access = ("--username", SUPERUSER, "--auth-local=trust", "--auth-host=reject")
    initdb = Program(
        name="initdb",
        command=(
            str(binaries.postgres(places) / "initdb"),
            *("-D", account.as_seen_by_server(folder), "--data-checksums", *locale, *access),
        ),
        **account.identity(folder),
    )
    if subprocess.run(initdb.starter(places), stdin=subprocess.DEVNULL, check=False).returncode != 0:
        raise CannotStart(f"The database can't be made in {folder}; see {places.log_of(initdb.name)}.")


def _refuse_unusable(folder: Path) -> None:
    account.check_owner(folder)
    ours = binaries.postgres_major_version()
    try:
        made_by = (folder / "PG_VERSION").read_text().strip()
    except OSError:
        raise CannotStart(f"{folder} is no database of Rerail's; move it away to start with a new one.") from None
    if made_by != ours:
        raise CannotStart(f"The database in {folder} is of PostgreSQL {made_by}; this Rerail brings PostgreSQL {ours}.")


def _clear_stale_locks(places: Places) -> None:
    """Remove the lock files of a server that is gone.

    PostgreSQL takes any living process of its own account for that server when the number was given out again, as it is
    soon after a reboot. Only called while no other stack can own the folder.
    """
    lock = places.postgres_data / "postmaster.pid"
    if lock.exists() and any(_works_in(places.postgres_data, process) for process in psutil.process_iter()):
        return
    for path in (lock, *places.postgres_sockets.glob(".s.PGSQL.*")):
        path.unlink(missing_ok=True)


def _works_in(folder: Path, process: psutil.Process) -> bool:
    try:
        return process.cwd() == str(folder.resolve())
    except psutil.Error:
        return False
