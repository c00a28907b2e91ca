"""A stack of the benchmark's own, and how long it takes to answer."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx

from tests.benchmarks.report import Figure

START_SECONDS = 60.0


@dataclass(frozen=True, kw_only=True)
class Stack:
    """A running stack; `seconds` is how long it took from its start until the web answered."""

    url: str
    environment: dict[str, str]
    seconds: float

    def manage(self, *arguments: str) -> str:
        """Run a management command beside it and return what it prints."""
        command = [sys.executable, "manage.py", *arguments]
        return subprocess.run(command, env=self.environment, check=True, capture_output=True, text=True).stdout.strip()


@contextlib.contextmanager
def running(folder: Path, *, workers: int = 2) -> Iterator[Stack]:
    """A stack over `folder`, until the block ends."""
    port = _free_port()
    own = {"RERAIL_DATA_DIR": str(folder), "RERAIL_PORT": str(port), "RERAIL_WORKERS": str(workers)}
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("RERAIL_", "DJANGO_"))}
    environment = {**inherited, **own}
    begun = time.monotonic()
    process = subprocess.Popen([sys.executable, "-m", "stack"], env=environment, stdout=subprocess.DEVNULL)
    try:
        url = f"http://127.0.0.1:{port}"
        _await_answer(url, process)
        yield Stack(url=url, environment=environment, seconds=time.monotonic() - begun)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def measure_starts() -> list[Figure]:
    """The first start over an empty folder, and a later one that finds its data."""
    with tempfile.TemporaryDirectory() as folder:
        with running(Path(folder, "data")) as first:
            pass
        with running(Path(folder, "data")) as later:
            pass
    return [
        Figure(name="first `make up` until the web answers, s", value=first.seconds, limit=20.0),
        Figure(name="later `make up` until the web answers, s", value=later.seconds, limit=8.0),
    ]


def _await_answer(url: str, process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(httpx.HTTPError):
            if httpx.get(f"{url}/healthz").status_code == 200:
                return
        time.sleep(0.02)
    raise RuntimeError("The stack did not start.")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
