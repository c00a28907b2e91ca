"""A running stack for a command that needs one: the one that is there, or one of our own for as long as it takes."""

import contextlib
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import IO

from config.environment import BASE_DIR, Environment
from stack import processes, web
from stack.errors import CannotStart
from stack.places import Places

START_SECONDS = 120
POLL_SECONDS = 0.1


def is_running(environment: Environment) -> bool:
    """Whether a stack owns the data folder now."""
    return processes.recorded(Places.of(environment).lock) is not None


@contextlib.contextmanager
def available(environment: Environment, say: Callable[[str], None]) -> Iterator[None]:
    """Have a stack that takes jobs, or raise CannotStart. One started here is stopped at the end, another goes on.

    Django must be set up; what happens is told to people by `say`.
    """
    if is_running(environment):
        say(f"Rerail is running at {web.url(environment)}.")
        _wait_until_ready(None)
        yield
        return
    say(f"No stack is running on {environment.data_dir}; starting one …")
    with _started(say) as own:
        _wait_until_ready(own)
        say(f"Rerail is at {web.url(environment)} meanwhile.")
        yield


class _Own:
    """A stack of ours and what it says."""

    def __init__(self, process: subprocess.Popen[bytes], output: IO[bytes]) -> None:
        self._process = process
        self._output = output

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    def last_line(self) -> str:
        self._output.seek(0)
        lines = self._output.read().decode("utf-8", "replace").splitlines()
        return next((line.strip() for line in reversed(lines) if line.strip()), "it did not say why")


@contextlib.contextmanager
def _started(say: Callable[[str], None]) -> Iterator[_Own]:
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "stack"],
            cwd=BASE_DIR,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            # A Ctrl-C is for our caller, which then stops the stack in good order; where that is killed, it ends too.
            start_new_session=True,
            preexec_fn=processes.end_with_parent,
        )
        try:
            yield _Own(process, output)
        finally:
            if process.poll() is None:
                say("Stopping the stack …")
                process.send_signal(signal.SIGTERM)
            process.wait()


def _wait_until_ready(own: _Own | None) -> None:
    """Return when the database has its tables and its first account; what is missing else comes by itself."""
    deadline = time.monotonic() + START_SECONDS
    while not _is_ready():
        if own is not None and own.ended:
            raise CannotStart(f"The stack did not start: {own.last_line()}")
        if time.monotonic() > deadline:
            raise CannotStart(f"The stack was not ready after {START_SECONDS} s.")
        time.sleep(POLL_SECONDS)


def _is_ready() -> bool:
    from django.contrib.auth.models import User
    from django.db import DatabaseError, connection
    from django.db.migrations.executor import MigrationExecutor

    try:
        migrations = MigrationExecutor(connection)
        missing = migrations.migration_plan(migrations.loader.graph.leaf_nodes())
        return not missing and User.objects.filter(is_superuser=True).exists()
    except DatabaseError:
        connection.close()
        return False
