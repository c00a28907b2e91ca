"""Sending ended jobs round again."""

from typing import Any

from django.contrib.auth.models import AbstractBaseUser
from django.db import transaction
from django.db.models.functions import Now

from jobs import actors, dispatch, transition
from jobs.commands import datasets, forks
from jobs.errors import Invalid, Refused
from jobs.models import Checkpoint, Job
from jobs.states import FINAL, Command, EventKind, JobState, edge
from jobs.timeline import Fact

LATEST = "latest"
NONE = "none"


def requeue(job_id: int, by: AbstractBaseUser, from_checkpoint: str = LATEST) -> JobState:
    """Queue an ended job again with a fresh attempt budget, at a new place; returns its state afterwards.

    `from_checkpoint` is `latest`, `none`, or a checkpoint of that job such as `1042/7` (or its number). Raises Refused
    for a job that has not ended, or a fork whose source is gone, Invalid where that checkpoint does not exist.
    """
    with transaction.atomic():
        job = Job.objects.select_for_update().get(pk=job_id)
        state = JobState(job.state)
        if state not in FINAL:
            raise Refused(f"Job {job_id} has not ended yet ({state.value.lower()}); cancel it first.")
        checkpoint = _resume_point(job, from_checkpoint)
        never_came = bool(job.dataset_ref) and job.dataset_id is None
        target = JobState.AWAITING_DATASET if never_came else JobState.QUEUED
        whence = f"from checkpoint {checkpoint.label}" if checkpoint else "from the beginning"
        transition.take(
            edge(Command.REQUEUE, state, target),
            job_id=job.pk,
            facts=[Fact(kind=EventKind.REQUEUED, message=f"Requeued by {by.get_username()}, {whence}.")],
            actor=actors.user(by),
            job=_afresh(checkpoint) | {"dataset_deadline": datasets.deadline() if never_came else None},
        )
        dispatch.request()
        return target


def _afresh(checkpoint: Checkpoint | None) -> dict[str, Any]:
    return {
        "queued_at": Now(),
        "not_before": None,
        "attempts_used": 0,
        "unstarted_in_row": 0,
        "cancel_requested_at": None,
        "reason": "",
        "message": "",
        "resume_checkpoint": checkpoint,
    }


def _resume_point(job: Job, wanted: str) -> Checkpoint | None:
    if wanted == LATEST:
        return job.latest_checkpoint or forks.source_again(job)
    if wanted == NONE:
        return None
    prefix, _, number = wanted.rpartition("/")
    if (prefix and prefix != str(job.pk)) or not number.isdecimal():
        raise Invalid({"from_checkpoint": f"{wanted!r} is not a checkpoint of job {job.pk}."})
    checkpoint = Checkpoint.objects.kept().filter(job=job, n=int(number)).first()
    if checkpoint is None:
        raise Invalid({"from_checkpoint": f"Job {job.pk} has no checkpoint {number}."})
    return checkpoint
