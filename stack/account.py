"""As whom the embedded servers run: PostgreSQL refuses root, so that for root both run as `nobody`."""

import os
import pwd
import shutil
from pathlib import Path
from typing import TypedDict

from stack import part
from stack.errors import CannotStart

UNPRIVILEGED = "nobody"


class Identity(TypedDict):
    """What a server's Program says about its account."""

    user: str | None
    hold: Path | None


def server_user() -> str | None:
    """The servers' account when root starts them, else null: they run as whoever starts them."""
    return UNPRIVILEGED if os.getuid() == 0 else None


def check_name() -> None:
    """Raise CannotStart where the servers' account doesn't exist: initdb does nothing for a bare number."""
    try:
        pwd.getpwnam(user) if (user := server_user()) else pwd.getpwuid(os.getuid())
    except KeyError:
        who = server_user() or f"of the id {os.getuid()}"
        raise CannotStart(f"The embedded servers run as the user {who}, who has no account here.") from None


def identity(folder: Path) -> Identity:
    """For a server whose data lie in `folder`."""
    user = server_user()
    return {"user": user, "hold": folder if user else None}


def as_seen_by_server(folder: Path) -> str:
    """The name by which a server with that identity reaches its folder."""
    return part.HELD_FOLDER if server_user() else str(folder)


def make_folder(folder: Path) -> None:
    """Make a folder of the servers' account, closed to everybody else; CannotStart if it is another's."""
    folder.mkdir(mode=0o700, exist_ok=True)
    if (user := server_user()) and folder.stat().st_uid == 0:
        shutil.chown(folder, user)
    check_owner(folder)


def check_owner(folder: Path) -> None:
    """Raise CannotStart unless the servers' account owns `folder`."""
    user = server_user()
    owner = pwd.getpwnam(user).pw_uid if user else os.getuid()
    if folder.stat().st_uid != owner:
        raise CannotStart(f"{folder} belongs to the user {_name_of(folder)}: run Rerail as who ran it before.")


def _name_of(folder: Path) -> str:
    try:
        return folder.owner()
    except KeyError:
        return str(folder.stat().st_uid)
