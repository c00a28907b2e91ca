"""What must hold before anything is started; each thing that doesn't is one sentence, and nothing has changed yet."""

import contextlib
import errno
import fcntl
import json
import os
import shutil
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

from config.environment import Environment
from stack import web
from stack.errors import CannotStart
from stack.part import started
from stack.places import Places
from stack.processes import recorded
from stack.waiting import Waiting


def make_data_folder(environment: Environment, places: Places) -> None:
    """Make the data folder, or raise CannotStart where it can't be used."""
    try:
        # For root, the servers and the scripts run under accounts that must get to folders of their own in it.
        places.data.mkdir(mode=0o711 if os.getuid() == 0 else 0o700, parents=True, exist_ok=True)
        for folder in (places.logs, places.run):
            folder.mkdir(mode=0o700, exist_ok=True)
        if environment.storage_url is None:
            (places.data / "storage").mkdir(mode=0o700, exist_ok=True)
        with open(places.run / "writable", "w"):
            pass
    except OSError as error:
        raise CannotStart(f"The data folder {places.data} can't be used: {error.strerror or error}.") from error


REMOVED_STACK_SECONDS = 60


@contextlib.contextmanager
def ownership(environment: Environment, places: Places, waiting: Waiting) -> Iterator[int]:
    """Own the data folder, as the descriptor of its lock; CannotStart if another stack does.

    The supervisor inherits the descriptor: when `up` is killed, the folder is free once the supervisor has stopped
    everything, and a new start waits for that.
    """
    with open(places.lock, "a+") as file:
        if not _locked(file.fileno()):
            _wait_for_former_owner(environment, places, waiting, file.fileno())
        me = {"pid": os.getpid(), "started": started(os.getpid()), "url": web.url(environment)}
        file.truncate(0)
        file.write(json.dumps(me))
        file.flush()
        yield file.fileno()
        file.truncate(0)


@contextlib.contextmanager
def socket_folder(places: Places, waiting: Waiting) -> Iterator[int]:
    """Make the folder of the sockets and own it, as the descriptor of its lock, which the supervisor inherits as well.

    The data folder's lock is not enough: who removes that folder under a running stack, and starts anew, has another.
    """
    owned: list[int] = []

    def own() -> bool:
        owned.extend(_own_socket_folder(places))
        return bool(owned)

    if not waiting.until(own, seconds=REMOVED_STACK_SECONDS, step=0.1):
        raise CannotStart(f"Another stack uses {places.sockets}, and its data folder was removed; stop it first.")
    try:
        yield owned[0]
    finally:
        remove_socket_folder(places)
        os.close(owned[0])


def still_owned(places: Places, descriptor: int) -> bool:
    """Whether the lock that we hold is the data folder's lock still."""
    return places.lock.exists() and os.path.samestat(os.fstat(descriptor), places.lock.stat())


def _own_socket_folder(places: Places) -> list[int]:
    """The descriptor of the folder's lock, or none."""
    make_socket_folder(places)
    descriptor = os.open(places.sockets, os.O_RDONLY | os.O_DIRECTORY)
    # Its former owner may have removed it between the two.
    if (
        _locked(descriptor)
        and places.sockets.exists()
        and os.path.samestat(os.fstat(descriptor), places.sockets.stat())
    ):
        return [descriptor]
    os.close(descriptor)
    return []


def make_socket_folder(places: Places) -> None:
    """Make the folder of the sockets, or raise CannotStart if somebody else was there first."""
    mode = 0o711 if os.getuid() == 0 else 0o700
    try:
        with contextlib.suppress(FileExistsError):
            places.sockets.mkdir(mode=mode)
        found = places.sockets.lstat()
    except OSError as error:
        raise CannotStart(f"The folder {places.sockets} can't be made: {error.strerror}.") from error
    # Under /tmp anybody may have put something in our way.
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise CannotStart(f"{places.sockets} is in the way: it must be a folder that only you can write to.")
    places.sockets.chmod(mode)


def remove_socket_folder(places: Places) -> None:
    shutil.rmtree(places.sockets, ignore_errors=True)


def check_port(environment: Environment) -> None:
    """Raise CannotStart unless the web server can listen where it is to."""
    where = f"port {environment.port} of {environment.bind}"
    try:
        family, kind, _, _, address = socket.getaddrinfo(environment.bind, environment.port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
            probe.listen()
    except socket.gaierror as error:
        raise CannotStart(f"RERAIL_BIND is {environment.bind!r}, which is no address of this machine.") from error
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise CannotStart(f"{where.capitalize()} is in use; set RERAIL_PORT to a free one.") from error
        raise CannotStart(f"The web server can't listen on {where}: {error.strerror}.") from error


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _wait_for_former_owner(environment: Environment, places: Places, waiting: Waiting, descriptor: int) -> None:
    """Refuse if the owner is alive; if it was killed, wait until its supervisor has stopped everything."""
    if owner := recorded(places.lock):
        raise CannotStart(f"A running stack owns {places.data}: process {owner.pid}, at {_url_of_owner(places.lock)}.")
    print(f"Waiting for an earlier stack on {places.data} to stop …", flush=True)
    patience = environment.timing.stop_grace + environment.timing.publish + 60
    if not waiting.until(lambda: _locked(descriptor), seconds=patience, step=0.1):
        raise CannotStart(f"An earlier stack on {places.data} is still stopping after {patience:.0f} s.")


def _url_of_owner(lock: Path) -> str:
    return str(json.loads(lock.read_text()).get("url", "an unknown address"))
