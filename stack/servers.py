"""The embedded servers alone, for tests: no supervisor, no Django."""

import contextlib
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from config import environment
from stack import postgres, preparation, valkey
from stack.errors import CannotStart
from stack.places import Places
from stack.program import Program

START_SECONDS = 60


@dataclass(frozen=True)
class Addresses:
    """Where the servers of a data folder answer; the values of DATABASE_URL and REDIS_URL."""

    database_url: str
    redis_url: str


@contextlib.contextmanager
def embedded(data_dir: Path, *, durable: bool = False) -> Iterator[Addresses]:
    """Run PostgreSQL and Valkey over `data_dir` until the end of the context, in about a second.

    The sockets are where settings look for them when RERAIL_DATA_DIR is `data_dir`. The servers also end with the
    thread that entered the context. Each test process needs a data folder of its own. `durable=False` saves the syncs.
    """
    settings = replace(environment.read(), data_dir=data_dir, storage_url=None)
    places = Places.of(settings)
    preparation.make_data_folder(settings, places)
    preparation.make_socket_folder(places)
    postgres.initialise(places)
    valkey.initialise(places)
    with contextlib.ExitStack() as running:
        running.callback(preparation.remove_socket_folder, places)
        running.enter_context(_running(valkey.program(places), places, lambda: valkey.answers(places)))
        database = postgres.program(places, connections=200, durable=durable)
        running.enter_context(_running(database, places, lambda: postgres.answers(places)))
        postgres.ensure_database(places)
        yield Addresses(postgres.url(places), valkey.url(places))


@contextlib.contextmanager
def _running(program: Program, places: Places, answers: Callable[[], bool]) -> Iterator[None]:
    process = subprocess.Popen(program.starter(places), stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        deadline = time.monotonic() + START_SECONDS
        while not answers():
            if process.poll() is not None or time.monotonic() > deadline:
                raise CannotStart(f"{program.name} does not start; its log: {places.log_of(program.name)}")
            time.sleep(0.02)
        yield
    finally:
        process.send_signal(program.stop_signal)
        try:
            process.wait(program.stop_seconds)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
