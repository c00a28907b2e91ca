"""Users, workers and jobs for tests, made as the product makes them: no state is set by hand.

`job_in(state)` brings a job to any state by the commands that lead there. A worker made by `online()` fits any job
that asks for nothing; `assigned()`, `running()` and the like bring a worker of their own, which nobody else's job fits
better, so that tests can mix them.

Under `db` nothing is dispatched by itself: the factories do it. Under `real_commits` it has happened by then.
"""

import itertools
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from typing import Any

from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import User
from django.utils import timezone

from jobs import dispatch
from jobs.commands import cancellation, executions, submission, workers
from jobs.commands.executions import Failure, Lease
from jobs.commands.submission import Submission
from jobs.commands.workers import Boot
from jobs.models import Execution, Job, Worker
from jobs.states import JobState, Phase, Reason
from tests import database

_numbers = itertools.count(1)

SCRIPT = "print('hello')"


def user(role: str | None = "member", name: str | None = None, **columns: Any) -> User:
    """A person in the group `role` (`viewer`, `member`, `operator`), or in none; password `secret`."""
    person = User.objects.create(
        username=name or f"{role or 'nobody'}-{next(_numbers)}", **{"password": _password(), **columns}
    )
    if role:
        # One statement, where the groups of a person take four: most tests need one, and none is about that.
        joined = database.execute(
            "INSERT INTO auth_user_groups (user_id, group_id) SELECT %s, id FROM auth_group WHERE name = %s",
            person.pk,
            role,
        )
        assert joined == 1, f"there is no group {role}"
    return person


@cache
def _password() -> str:
    return make_password("secret")


def boot(name: str | None = None, **declared: Any) -> Boot:
    """The start of a worker process that nobody has heard of yet."""
    declared = {"nonce": uuid.uuid4(), "host": "test-host", "pid": 4242, **declared}
    return Boot(name=name or f"worker-{next(_numbers)}", **declared)


def online(name: str | None = None, **declared: Any) -> Boot:
    """A worker that has just come online, with a lease and nothing to do."""
    started = boot(name, **declared)
    workers.register(started, still_running=None)
    return started


def worker(started: Boot) -> Worker:
    """The row of a worker, as it is now."""
    return Worker.objects.get(name=started.name)


def submitted(owner: User | None = None, **wanted: Any) -> Job:
    """A job as it is once it is submitted: assigned already if a worker is free and `real_commits` is in force."""
    job = submission.submit(owner or user(), Submission(**{"script": SCRIPT, "name": "digits", **wanted}))
    job.refresh_from_db()
    return job


def lease(job: Job, nonce: uuid.UUID | None = None) -> Lease:
    """The lease of a job's present execution; of its last one, where it has none."""
    execution = Execution.objects.filter(job=job).order_by("-number").first()
    assert execution is not None, "there is no execution"
    return Lease(
        execution_id=execution.pk,
        nonce=nonce or execution.nonce or uuid.uuid4(),
        job_id=execution.job_id,
        label=execution.label,
        worker_name=execution.worker_name,
    )


def awaiting_dataset(owner: User | None = None, **wanted: Any) -> Job:
    """A job whose dataset is still to be uploaded."""
    return submitted(owner, dataset_ref="upload", **wanted)


def queued(owner: User | None = None, **wanted: Any) -> Job:
    """A job that waits although a worker may be free: it asks for a label that none carries."""
    job = submitted(owner, worker_labels={"nobody": "has this"}, **wanted)
    assert job.state == JobState.QUEUED
    return job


def assigned(owner: User | None = None, *, requires_review: bool = False, **wanted: Any) -> Job:
    """A job that a worker of its own (named like the job's execution says) has, not started."""
    mine = online(requires_review=requires_review, labels={"only": str(next(_numbers))})
    labels = {**wanted.pop("worker_labels", {}), **worker(mine).labels}
    job = submitted(owner, worker_labels=labels, **wanted)
    dispatch.run()
    job.refresh_from_db()
    assert job.current_execution is not None, "another job took that worker"
    return job


def pending_review(owner: User | None = None, **wanted: Any) -> Job:
    return assigned(owner, requires_review=True, **wanted)


def running(owner: User | None = None, **wanted: Any) -> Job:
    """A job whose execution has started; `lease(job)` is its process's."""
    job = assigned(owner, **wanted)
    executions.start(lease(job))
    job.refresh_from_db()
    return job


def training(owner: User | None = None, **wanted: Any) -> Job:
    """A running job that has come to its script."""
    job = running(owner, **wanted)
    executions.change_phase(lease(job), Phase.TRAINING)
    return job


def succeeded(owner: User | None = None, **wanted: Any) -> Job:
    job = running(owner, **wanted)
    executions.succeed(lease(job))
    return _ended(job)


def failed(owner: User | None = None, **wanted: Any) -> Job:
    job = running(owner, **wanted)
    executions.fail(lease(job), failure())
    return _ended(job)


def cancelled(owner: User | None = None, **wanted: Any) -> Job:
    job = running(owner, **wanted)
    cancellation.cancel(job.pk, job.owner)
    executions.stop(lease(job))
    return _ended(job)


def failure(reason: Reason = Reason.SCRIPT_ERROR, **more: Any) -> Failure:
    return Failure(**{"reason": reason, "message": "The script exited with code 3.", "exit_code": 3, **more})


def _ended(job: Job) -> Job:
    """Its worker has seen the last of its processes, too."""
    gone = lease(job)
    mine = Worker.objects.get(name=gone.worker_name)
    workers.freed(boot(mine.name, nonce=mine.boot_nonce), gone.execution_id)
    job.refresh_from_db()
    return job


_MAKERS: dict[JobState, Callable[..., Job]] = {
    JobState.AWAITING_DATASET: awaiting_dataset,
    JobState.QUEUED: queued,
    JobState.ASSIGNED: assigned,
    JobState.PENDING_REVIEW: pending_review,
    JobState.RUNNING: running,
    JobState.SUCCEEDED: succeeded,
    JobState.FAILED: failed,
    JobState.CANCELLED: cancelled,
}


def job_in(state: JobState, owner: User | None = None, **wanted: Any) -> Job:
    """A job in `state`, brought there by commands."""
    job = _MAKERS[state](owner, **wanted)
    assert job.state == state
    return job


def point(step: int, key: str = "loss", value: float = 0.5) -> Any:
    from jobs.commands.metrics import Point

    return Point(key=key, step=step, value=value, at=timezone.now())


class Sent:
    """A file as a client sends it."""

    def __init__(self, *chunks: bytes, filename: str = "data.csv", **fields: str) -> None:
        self.filename, self.fields = filename, fields
        self.declared_size: int | None = None
        self._chunks = chunks

    def chunks(self) -> Iterator[bytes]:
        yield from self._chunks


def changed(environment: Any, **changes: Any) -> Any:
    """The settings' environment with some fields, also those of its timing, of another value."""
    own = {name: changes.pop(name) for name in list(changes) if hasattr(environment, name)}
    return replace(environment, **own, timing=replace(environment.timing, **changes))
