"""The console as people use it: command lines, and a job whose life goes on whenever a follower waits."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable

import pytest
from django.conf import settings
from django.core.management import ManagementUtility
from django.db import connection

from jobs.console.following import Polling

PATIENCE = 60


@pytest.fixture
def manage(capsys):
    """Run a command line in this process; returns its exit code, its answer and its errors.

    At its end a command closes the database connection: use it with `real_commits`.
    """

    def run(*argv: object) -> tuple[int, str, str]:
        capsys.readouterr()
        code = 0
        try:
            ManagementUtility(["manage.py", *map(str, argv)]).execute()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(bool(end.code))
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.fixture
def spawn(real_commits):
    """Start a command line as a process beside this one, on the same database."""
    processes = []

    def start(*argv: object, **env: str) -> subprocess.Popen[str]:
        database = connection.settings_dict
        url = (
            f"postgresql://{database['USER']}@/{database['NAME']}?host={database['HOST'] or settings.POSTGRES_SOCKETS}"
        )
        process = subprocess.Popen(
            [sys.executable, "manage.py", *map(str, argv)],
            cwd=settings.BASE_DIR,
            # Unbuffered, they would be prompt by the environment's doing.
            env={**os.environ, "PYTHONUNBUFFERED": "", "DATABASE_URL": url, **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        # Whoever reads from it must not wait for ever.
        timer = threading.Timer(PATIENCE, process.kill)
        timer.start()
        processes.append((process, timer))
        return process

    yield start
    for process, timer in processes:
        timer.cancel()
        process.kill()
        process.communicate()


@pytest.fixture
def meanwhile(monkeypatch):
    """`meanwhile(a, b, …)`: each time that a follower waits, the next of these happens instead."""

    def arrange(*steps: Callable[[], object]) -> None:
        monkeypatch.setattr(Polling, "wait", waiting_for(steps))

    return arrange


def waiting_for(steps: Iterable[Callable[[], object]]) -> Callable[[object], None]:
    left = iter(steps)

    def wait(_: object) -> None:
        step = next(left, None)
        assert step is not None, "the follower waits although nothing more is to come"
        step()

    return wait
