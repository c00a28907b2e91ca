"""Real workers: `manage.py run_worker` as a process of its own, against the servers and the database of the test."""

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
from django.conf import settings
from django.db import connection

from jobs.commands.submission import Submission, submit
from jobs.models import Execution, Job, LogChunk, Worker
from tests import factories
from tests.waiting import eventually

BASE_DIR = Path(settings.BASE_DIR)
QUICK = {
    "RERAIL_HEARTBEAT_SECONDS": "0.3",
    "RERAIL_LEASE_SECONDS": "3",
    "RERAIL_STOP_GRACE_SECONDS": "5",
    "RERAIL_RETRY_BACKOFF_SECONDS": "0.1",
}


@dataclass
class WorkerProcess:
    """A running `run_worker`."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path

    @property
    def execution_process(self) -> psutil.Process:
        """Its direct child, which runs the execution."""
        children = eventually(lambda: psutil.Process(self.process.pid).children())
        return children[0]

    def terminate(self) -> int:
        self.process.terminate()
        return self.process.wait(timeout=30)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(timeout=30)


@pytest.fixture
def start_worker(real_commits, tmp_path) -> Iterator[Callable[..., WorkerProcess]]:
    """Starts workers by name; they are stopped after the test, whatever they run."""
    started: list[WorkerProcess] = []

    def start(name: str = "w1", *options: str, online: bool = True, **environment: str) -> WorkerProcess:
        log = tmp_path / f"{name}-{len(started)}.log"
        with log.open("wb") as sink:
            process = subprocess.Popen(
                [sys.executable, "manage.py", "run_worker", "--name", name, *options],
                cwd=BASE_DIR,
                env={**os.environ, **_servers(), **QUICK, **environment},
                stdout=sink,
                stderr=sink,
            )
        worker = WorkerProcess(name, process, log)
        started.append(worker)
        if online:
            eventually(lambda: Worker.objects.filter(name=name, pid=process.pid).exists())
        return worker

    yield start
    for worker in started:
        if worker.process.poll() is None:
            worker.process.kill()
            worker.process.wait()
    for process in psutil.process_iter(["cmdline", "environ"]):
        if (process.info["environ"] or {}).get("RERAIL_TEST_RUN") == _run_id():
            process.kill()


def _servers() -> dict[str, str]:
    database = connection.settings_dict
    return {
        "DATABASE_URL": f"postgresql://rerail@/{database['NAME']}?host={settings.POSTGRES_SOCKETS}",
        "REDIS_URL": settings.REDIS_URL,
        "RERAIL_DATA_DIR": str(settings.RERAIL.data_dir),
        "RERAIL_TEST_RUN": _run_id(),
    }


def _run_id() -> str:
    return f"{os.getpid()}"


@pytest.fixture
def run(start_worker) -> Callable[..., Job]:
    """Submits a script and returns its job once it has ended."""

    def run(script: str, **wanted: Any) -> Job:
        if not Worker.objects.exists():
            start_worker()
        return ended(begin(script, **wanted))

    return run


def begin(script: str, **wanted: Any) -> Job:
    """Submit a script."""
    return submit(factories.user(), Submission(script=textwrap.dedent(script), **wanted))


def ended(job: Job, within: float = 60) -> Job:
    """The job, once it has ended."""

    def look() -> bool:
        job.refresh_from_db()
        return job.finished_at is not None

    eventually(look, within=within)
    return job


def in_state(job: Job, state: str, within: float = 30) -> Job:
    """The job, once it is in `state`."""

    def look() -> bool:
        job.refresh_from_db()
        return job.state == state

    eventually(look, within=within)
    return job


def printed(job: Job, number: int | None = None) -> bytes:
    """What an attempt of the job printed, the last one's unless `number` says which."""
    executions = Execution.objects.filter(job=job)
    execution = executions.get(number=number) if number else executions.latest("number")
    return b"".join(
        bytes(chunk) for chunk in LogChunk.objects.filter(execution=execution).values_list("data", flat=True)
    )


def says(job: Job, text: bytes, within: float = 30) -> None:
    """Wait until the job's script has printed `text`."""
    eventually(lambda: Execution.objects.filter(job=job).exists() and text in printed(job), within=within)


def kinds(job: Job) -> list[str]:
    """The kinds of the job's events, in order."""
    return list(job.events.values_list("kind", flat=True))
