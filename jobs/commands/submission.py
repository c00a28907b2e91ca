"""Submitting jobs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from django.contrib.auth.models import AbstractBaseUser
from django.db import transaction

from jobs import actors, dispatch, transition
from jobs.models import Job, JobSource, Priority
from jobs.states import Command, EventKind, JobState, edge
from jobs.timeline import Fact


@dataclass(frozen=True, kw_only=True)
class Submission:
    """A checked request to train."""

    script: str
    name: str = ""
    args: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    requirements: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    worker_labels: Mapping[str, str] = field(default_factory=dict)
    priority: Priority = Priority.NORMAL
    max_attempts: int = 3
    retry_on: frozenset[str] = frozenset({"lost"})
    time_limit_seconds: float | None = None
    queue_timeout_seconds: float | None = None
    checkpoint_seconds: float | None = None


def submit(owner: AbstractBaseUser, submission: Submission) -> Job:
    """Store a job and offer it to the workers; returns it as stored, before dispatch."""
    job = Job(
        owner_id=owner.pk,
        name=submission.name or "untitled",
        labels=dict(submission.labels),
        worker_labels=dict(submission.worker_labels),
        priority=submission.priority,
        max_attempts=submission.max_attempts,
        retry_on=sorted(submission.retry_on),
        time_limit_seconds=submission.time_limit_seconds,
        queue_timeout_seconds=submission.queue_timeout_seconds,
        checkpoint_seconds=submission.checkpoint_seconds,
    )
    source = JobSource(
        script=submission.script,
        args=list(submission.args),
        env=dict(submission.env),
        requirements=submission.requirements,
    )
    with transaction.atomic():
        transition.open_job(
            edge(Command.SUBMIT, None, JobState.QUEUED),
            job,
            source,
            facts=[
                Fact(kind=EventKind.SUBMITTED, message=f"Submitted by {owner.get_username()}."),
                Fact(kind=EventKind.QUEUED, message="Waiting for a free worker."),
            ],
            actor=actors.user(owner),
        )
        dispatch.request()
    return job
