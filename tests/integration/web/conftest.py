"""People at their browsers, and a worker played by commands."""

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client

from jobs import dispatch
from jobs.commands import executions, logs, workers
from jobs.commands.executions import Failure, Lease
from jobs.commands.submission import Submission, submit
from jobs.models import Job
from jobs.states import Phase, Reason


def person(name: str, *groups: str, **fields: Any) -> User:
    user = User.objects.create_user(name, password="correct horse battery", **fields)
    user.groups.set(Group.objects.filter(name__in=groups))
    return user


@pytest.fixture(autouse=True)
def quick_passwords(settings) -> None:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


@pytest.fixture
def mira(db) -> User:
    return person("mira", "member")


@pytest.fixture
def jonas(db) -> User:
    return person("jonas", "member")


@pytest.fixture
def olga(db) -> User:
    return person("olga", "operator", is_staff=True)


@pytest.fixture
def vera(db) -> User:
    return person("vera", "viewer", is_staff=True)


@pytest.fixture
def admin(db) -> User:
    return person("admin", is_staff=True, is_superuser=True)


@pytest.fixture
def browser() -> Callable[[User], Client]:
    """A browser in which somebody is signed in."""

    def open_browser(user: User) -> Client:
        client = Client()
        client.force_login(user)
        return client

    return open_browser


@dataclass
class Track:
    """A worker and what it does to jobs."""

    name: str = "atlas-1"
    boot: workers.Boot = field(init=False)

    def __post_init__(self) -> None:
        self.boot = workers.Boot(name=self.name, nonce=uuid.uuid4(), host="atlas", pid=4711, ram_mb=1000, disk_mb=1000)
        workers.register(self.boot, still_running=None)

    def assigned(self, job: Job) -> Lease:
        dispatch.run()
        job.refresh_from_db()
        execution = job.current_execution
        assert execution is not None, "it is the worker's turn for this job"
        return Lease(
            execution_id=execution.pk,
            nonce=uuid.uuid4(),
            job_id=job.pk,
            label=execution.label,
            worker_name=execution.worker_name,
        )

    def started(self, job: Job, log: bytes = b"") -> Lease:
        lease = self.assigned(job)
        executions.start(lease)
        executions.change_phase(lease, Phase.TRAINING)
        if log:
            logs.append(lease, 0, log)
        return lease

    def succeeded(self, job: Job) -> None:
        lease = self.started(job)
        executions.succeed(lease)
        workers.freed(self.boot, lease.execution_id)

    def failed(self, job: Job) -> None:
        lease = self.started(job)
        message = "The script ended with exit code 3."
        executions.fail(lease, Failure(reason=Reason.SCRIPT_ERROR, message=message, exit_code=3))
        workers.freed(self.boot, lease.execution_id)


@pytest.fixture
def worker(db) -> Track:
    return Track()


def a_job(owner: User, name: str = "digits", **wishes) -> Job:
    return submit(owner, Submission(script=wishes.pop("script", "print('hello')"), name=name, **wishes))
