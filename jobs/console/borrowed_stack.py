"""A running stack for a command that needs one: the one that is there, or one of our own for as long as it takes."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from typing import IO

from django.contrib.auth.models import User
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor

from config.environment import BASE_DIR, Environment
from jobs.console.base import ConsoleCommand
from stack import processes, web
from stack.places import Places
from workers import hardening

START_SECONDS = 120
POLL_SECONDS = 0.1


def is_running(environment: Environment) -> bool:
    """Whether a stack owns the data folder now."""
    return processes.recorded(Places.of(environment).lock) is not None


@contextlib.contextmanager
def available(command: ConsoleCommand, environment: Environment) -> Iterator[None]:
    """Have a stack that takes jobs; what was started here is stopped at the end, what ran already goes on."""
    if is_running(environment):
        command.say(f"Rerail is running at {web.url(environment)}.")
        _wait_until_ready(command, None)
        yield
        return
    command.say(f"No stack is running on {environment.data_dir}; starting one …")
    with _started(command) as own:
        _wait_until_ready(command, own)
        command.say(f"Rerail is at {web.url(environment)} meanwhile.")
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
        lines = self._output.read().decode("utf-8", "replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "it did not say why")


@contextlib.contextmanager
def _started(command: ConsoleCommand) -> Iterator[_Own]:
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            [sys.executable, "manage.py", "up"],
            cwd=BASE_DIR,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            # A Ctrl-C is for this command, which then stops the stack in good order …
            start_new_session=True,
            # … and where this command is killed, the stack ends too.
            preexec_fn=partial(hardening.die_with_parent, signal.SIGTERM, os.getpid()),
        )
        try:
            yield _Own(process, output)
        finally:
            if process.poll() is None:
                command.say("Stopping the stack …")
                process.send_signal(signal.SIGTERM)
            process.wait()


def _wait_until_ready(command: ConsoleCommand, own: _Own | None) -> None:
    """Return when the database has its tables and somebody who may submit; what is missing else comes by itself."""
    deadline = time.monotonic() + START_SECONDS
    while not _is_ready():
        if own is not None and own.ended:
            raise command.error(f"The stack did not start: {own.last_line()}")
        if time.monotonic() > deadline:
            raise command.error(f"The stack was not ready after {START_SECONDS} s.")
        time.sleep(POLL_SECONDS)


def _is_ready() -> bool:
    try:
        migrations = MigrationExecutor(connection)
        missing = migrations.migration_plan(migrations.loader.graph.leaf_nodes())
        return not missing and User.objects.filter(is_superuser=True).exists()
    except DatabaseError:
        connection.close()
        return False
