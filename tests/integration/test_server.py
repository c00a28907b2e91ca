"""The web server waits for slow readers."""

import http.client
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import firehose

WHOLE = len(firehose.CHUNK) * firehose.CHUNKS


class Connection(http.client.HTTPConnection):
    """HTTP over a unix socket."""

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(30)
        self.sock.connect(self.host)


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    path = str(tmp_path / "web.sock")
    command = [sys.executable, "-m", "config.server", "-u", path, "-v", "0", "tests.firehose:application"]
    with subprocess.Popen(command, cwd=Path(__file__).parents[2]) as server:
        deadline = time.monotonic() + 30
        while not Path(path).exists():
            assert server.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        yield path
        server.terminate()


def taken(address: str) -> int:
    connection = Connection(address)
    connection.request("GET", "/taken")
    return int(connection.getresponse().read())


def settled(address: str) -> int:
    """How much the server has taken once it takes no more."""
    before = -1
    while (now := taken(address)) != before:
        before = now
        time.sleep(0.5)
    return now


def test_what_a_slow_reader_has_not_read_is_not_made(address: str) -> None:
    reader = Connection(address)
    reader.request("GET", "/")
    response = reader.getresponse()
    assert settled(address) < WHOLE / 10
    assert len(response.read()) == WHOLE
    # The same connection serves again: nothing of the first answer hangs on it.
    reader.request("GET", "/taken")
    assert int(reader.getresponse().read()) == WHOLE


def test_a_reader_that_goes_away_holds_nothing_up(address: str) -> None:
    reader = Connection(address)
    reader.request("GET", "/")
    assert settled(address) < WHOLE / 10
    reader.close()
    assert settled(address) >= 0
    again = Connection(address)
    again.request("GET", "/")
    assert len(again.getresponse().read()) == WHOLE
