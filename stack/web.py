"""The web server, as its users find it."""

import contextlib
import http.client
from urllib.parse import urlsplit

from config.environment import Environment

EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104


def url(environment: Environment) -> str:
    """Where a browser on this machine finds it."""
    host = EVERYWHERE.get(environment.bind, environment.bind)
    return f"http://{f'[{host}]' if ':' in host else host}:{environment.port}"


def answers(environment: Environment) -> bool:
    """Whether it answers requests by now, with anything but an error of its own."""
    parts = urlsplit(url(environment))
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=5)
    with contextlib.suppress(OSError, http.client.HTTPException), contextlib.closing(connection):
        connection.request("GET", "/healthz")
        return connection.getresponse().status < 500
    return False
