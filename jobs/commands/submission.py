"""Submitting jobs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction

from jobs import actors, dispatch, transition
from jobs.commands import datasets, forks, rules
from jobs.errors import Invalid, TooLarge
from jobs.models import Dataset, Job, JobSource, Priority
from jobs.states import Command, EventKind, JobState, edge
from jobs.timeline import Fact


@dataclass(frozen=True, kw_only=True)
class Submission:
    """A request to train; `check` says what is wrong with it."""

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
    from_checkpoint: str | None = None
    """Another job's checkpoint to begin from, such as `1042/7`; the owner must be allowed to see that job."""
    dataset_ref: str = ""
    """A shared dataset's name, `upload` for one that is still to be sent, or nothing."""


def check(submission: Submission) -> None:
    """Raise Invalid, with what is wrong by field, or TooLarge for the script; a script's syntax is its own affair."""
    if len(submission.script.encode(errors="surrogatepass")) > settings.MAX_SCRIPT_BYTES:
        raise TooLarge(f"The script is larger than {settings.MAX_SCRIPT_BYTES} bytes; larger data belongs elsewhere.")
    found = {
        "training_script": rules.script(submission.script),
        "name": rules.name(submission.name),
        "args": rules.args(submission.args),
        "env": rules.env(submission.env),
        "requirements": rules.requirements(submission.requirements),
        "labels": rules.labels(submission.labels),
        "resources.labels": rules.labels(submission.worker_labels),
        "max_attempts": rules.max_attempts(submission.max_attempts),
        "retry_on": rules.retry_on(submission.retry_on),
        "time_limit_seconds": rules.seconds(submission.time_limit_seconds),
        "queue_timeout_seconds": rules.seconds(submission.queue_timeout_seconds),
        "checkpoint_seconds": rules.seconds(submission.checkpoint_seconds),
    }
    if errors := {field: wrong for field, wrong in found.items() if wrong is not None}:
        raise Invalid(errors)


def submit(owner: User, submission: Submission) -> Job:
    """Store a job and offer it to the workers; returns it as stored, before dispatch.

    Raises what `check` raises, and Invalid where `from_checkpoint` is none that the owner can have.
    """
    check(submission)
    awaiting = submission.dataset_ref == datasets.UPLOAD
    job = Job(
        owner=owner,
        name=submission.name.strip() or "untitled",
        labels=dict(submission.labels),
        worker_labels=dict(submission.worker_labels),
        priority=submission.priority,
        max_attempts=submission.max_attempts,
        retry_on=sorted(submission.retry_on),
        time_limit_seconds=submission.time_limit_seconds,
        queue_timeout_seconds=submission.queue_timeout_seconds,
        checkpoint_seconds=submission.checkpoint_seconds,
        dataset=_shared(submission),
        dataset_ref=submission.dataset_ref,
        dataset_deadline=datasets.deadline() if awaiting else None,
    )
    source = JobSource(
        script=submission.script,
        args=list(submission.args),
        env=dict(submission.env),
        requirements=submission.requirements,
    )
    with transaction.atomic():
        job.forked_from = job.resume_checkpoint = forks.source(owner, submission.from_checkpoint)
        whence = f", from checkpoint {job.forked_from.label}" if job.forked_from else ""
        transition.open_job(
            edge(Command.SUBMIT, None, JobState.AWAITING_DATASET if awaiting else JobState.QUEUED),
            job,
            source,
            facts=[
                Fact(kind=EventKind.SUBMITTED, message=f"Submitted by {owner.get_username()}{whence}."),
                *([] if awaiting else [Fact(kind=EventKind.QUEUED, message="Waiting for a free worker.")]),
            ],
            actor=actors.user(owner),
        )
        if not awaiting:
            dispatch.request()
    return job


def _shared(submission: Submission) -> Dataset | None:
    if submission.dataset_ref in {"", datasets.UPLOAD}:
        return None
    return datasets.named(submission.dataset_ref)
