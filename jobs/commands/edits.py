"""Changing what a job is called and when it is its turn."""

from collections.abc import Mapping
from typing import Any

from django.contrib.auth.models import AbstractBaseUser
from django.db import transaction

from jobs import actors, dispatch, transition
from jobs.commands import rules
from jobs.errors import Invalid, Refused
from jobs.models import Job, Priority
from jobs.states import FINAL, EventKind, JobState
from jobs.timeline import Fact


def edit(
    job_id: int,
    by: AbstractBaseUser,
    *,
    name: str | None = None,
    labels: Mapping[str, str] | None = None,
    priority: Priority | None = None,
) -> None:
    """Change what is given; raises Invalid for a bad name or label, Refused for the priority of an ended job."""
    _check(name, labels)
    with transaction.atomic():
        job = Job.objects.select_for_update().get(pk=job_id)
        columns: dict[str, Any] = {}
        if name is not None:
            columns["name"] = name.strip()
        if labels is not None:
            columns["labels"] = dict(labels)
        if columns:
            Job.objects.filter(pk=job_id).update(**columns)
        if priority is not None and priority != job.priority:
            _reprioritise(job, by, priority)


def _check(name: str | None, labels: Mapping[str, str] | None) -> None:
    found = {
        "name": None if name is None else rules.name(name) or (None if name.strip() else "A name can't be empty."),
        "labels": None if labels is None else rules.labels(labels),
    }
    if errors := {field: wrong for field, wrong in found.items() if wrong is not None}:
        raise Invalid(errors)


def _reprioritise(job: Job, by: AbstractBaseUser, priority: Priority) -> None:
    if JobState(job.state) in FINAL:
        raise Refused(f"Job {job.pk} has ended; its priority can't matter any more.")
    before = Priority(job.priority)
    transition.note(
        job_id=job.pk,
        facts=[
            Fact(
                kind=EventKind.PRIORITY_CHANGED,
                message=f"{by.get_username()} changed its priority from {before.label} to {priority.label}.",
                execution_id=job.current_execution_id,
                details={"from": before.label, "to": priority.label},
            )
        ],
        actor=actors.user(by),
        job={"priority": priority},
    )
    dispatch.request()
