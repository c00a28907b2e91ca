"""The embedded Redis-compatible server: run by the supervisor, reached over a unix socket only."""

import contextlib
import socket

from stack import account, binaries
from stack.places import Places
from stack.program import Program

NAME = "valkey"


def program(places: Places) -> Program:
    """The server over the folder that `initialise` made."""
    settings = {
        "port": "0",
        "unixsocket": str(places.valkey_socket),
        "unixsocketperm": "700",
        "dir": account.as_seen_by_server(places.valkey_data),
        "appendonly": "yes",
        "save": "",
        "maxmemory-policy": "noeviction",
        "daemonize": "no",
    }
    options = [word for key, value in settings.items() for word in (f"--{key}", value)]
    return Program(
        name=NAME,
        command=(str(binaries.valkey(places)), *options),
        stop_seconds=30,
        server=True,
        **account.identity(places.valkey_data),
    )


def initialise(places: Places) -> None:
    """Make the folders, and clear the socket of a server that is gone."""
    account.make_folder(places.valkey_data)
    account.make_folder(places.valkey_socket.parent)
    places.valkey_socket.unlink(missing_ok=True)


def answers(places: Places) -> bool:
    """Whether the server takes commands by now; it may be reading its data still."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(5)
        connection.connect(str(places.valkey_socket))
        connection.sendall(b"PING\r\n")
        return connection.recv(64).startswith(b"+PONG")
    return False


def url(places: Places) -> str:
    """What REDIS_URL would say of it."""
    return f"unix://{places.valkey_socket}"


def why_away(url: str) -> str | None:
    """Why the Redis at `url` takes no commands, or null when it does."""
    import redis

    try:
        with redis.Redis.from_url(url, socket_connect_timeout=2, socket_timeout=2) as connection:
            connection.ping()
    except redis.RedisError as error:
        return str(error)
    return None
