"""Jobs that begin from another job's checkpoint."""

import re

from django.contrib.auth.models import AbstractBaseUser

from jobs.commands import retention
from jobs.errors import Invalid, Refused
from jobs.models import Checkpoint, Job
from jobs.selectors import access

_LABEL = re.compile(r"([1-9][0-9]{0,17})/([1-9][0-9]{0,8})")


def source(person: AbstractBaseUser, label: str | None) -> Checkpoint | None:
    """The checkpoint `label` (such as `1042/7`), locked so that it stays until a job that needs it is stored.

    Raises Invalid where there is none, or none that `person` may see.
    """
    if not label:
        return None
    match = _LABEL.fullmatch(label)
    if match is None:
        raise Invalid({"from_checkpoint": f"{label!r} is not a checkpoint; write it as 1042/7."})
    visible = access.visible_jobs(person).filter(pk=int(match[1])).values("pk")
    found = Checkpoint.objects.kept().filter(job__in=visible, n=int(match[2])).values_list("pk", flat=True).first()
    checkpoint = retention.hold_source(found) if found is not None else None
    if checkpoint is None:
        raise Invalid({"from_checkpoint": f"There is no checkpoint {label} for you."})
    return checkpoint


def source_again(job: Job) -> Checkpoint | None:
    """What an ended fork without a checkpoint of its own begins from again; None for a job that is no fork."""
    if job.forked_from_id is None:
        return None
    checkpoint = retention.hold_source(job.forked_from_id)
    if checkpoint is None:
        raise Refused(f"The checkpoint that job {job.pk} began from is gone; requeue it from none.")
    return checkpoint
