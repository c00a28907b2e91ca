"""People at their browsers, and a worker whose turns a test decides."""

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.test import Client

from jobs import dispatch
from jobs.commands import executions, logs, workers
from jobs.commands.executions import Lease
from jobs.models import Job
from jobs.states import Phase
from tests import factories


@pytest.fixture
def mira(db) -> User:
    return factories.user("member", "mira")


@pytest.fixture
def jonas(db) -> User:
    return factories.user("member", "jonas")


@pytest.fixture
def olga(db) -> User:
    return factories.user("operator", "olga", is_staff=True)


@pytest.fixture
def vera(db) -> User:
    return factories.user("viewer", "vera", is_staff=True)


@pytest.fixture
def admin(db) -> User:
    return factories.user(None, "admin", is_staff=True, is_superuser=True)


@pytest.fixture
def browser() -> Callable[[User], Client]:
    """A browser in which somebody is signed in."""

    def open_browser(user: User) -> Client:
        client = Client()
        client.force_login(user)
        return client

    return open_browser


class Track:
    """The worker atlas-1: it takes the job that a test gives it, after those before it in the queue."""

    def __init__(self) -> None:
        self.boot = factories.online("atlas-1")

    def started(self, job: Job, log: bytes = b"") -> Lease:
        dispatch.run()
        lease = factories.lease(job)
        executions.start(lease)
        executions.change_phase(lease, Phase.TRAINING)
        if log:
            logs.append(lease, 0, log)
        return lease

    def succeeded(self, job: Job) -> None:
        lease = self.started(job)
        executions.succeed(lease)
        self.freed(lease)

    def failed(self, job: Job) -> None:
        lease = self.started(job)
        executions.fail(lease, factories.failure())
        self.freed(lease)

    def lost(self, job: Job, lease: Lease) -> None:
        """Its process is killed, and the job may be tried again at once."""
        executions.crashed(lease.execution_id, self.boot.name, "The execution process was killed by SIGKILL.")
        Job.objects.filter(pk=job.pk).update(not_before=None)
        self.freed(lease)

    def freed(self, lease: Lease) -> None:
        workers.freed(self.boot, lease.execution_id)


@pytest.fixture
def worker(db) -> Track:
    return Track()


def a_job(owner: User, name: str = "digits", **wanted: object) -> Job:
    return factories.submitted(owner, name=name, **wanted)
