"""Cancelling and requeueing many jobs at once: each in a transaction of its own, as if asked for one by one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from django.contrib.auth.models import AbstractBaseUser

from jobs.commands import cancellation, requeueing
from jobs.errors import Invalid, Refused
from jobs.models import Job
from jobs.selectors import access

MOST = 500
"""How many jobs one call may name or find."""


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """A job that was left as it is, and why, in one sentence."""

    job_id: int
    detail: str


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a call did: to how many jobs, and to which not."""

    count: int
    refused: Sequence[Refusal]


def cancel(job_ids: Sequence[int], by: AbstractBaseUser) -> Outcome:
    """Cancel each of these jobs, as far as `by` may."""
    return _each(job_ids, by, partial(cancellation.cancel, by=by))


def requeue(job_ids: Sequence[int], by: AbstractBaseUser, from_checkpoint: str) -> Outcome:
    """Requeue each of these jobs from its own `latest` checkpoint or from `none`, as far as `by` may."""
    return _each(job_ids, by, partial(requeueing.requeue, by=by, from_checkpoint=from_checkpoint))


def _each(job_ids: Sequence[int], by: AbstractBaseUser, act: Callable[[int], object]) -> Outcome:
    wanted = list(dict.fromkeys(job_ids))
    visible = access.visible_jobs(by).in_bulk(wanted)
    tried = ((job_id, _try(job_id, visible.get(job_id), by, act)) for job_id in wanted)
    refused = [Refusal(job_id=job_id, detail=why) for job_id, why in tried if why]
    return Outcome(count=len(wanted) - len(refused), refused=refused)


def _try(job_id: int, job: Job | None, by: AbstractBaseUser, act: Callable[[int], object]) -> str | None:
    if job is None:
        return f"There is no job {job_id}."
    if not access.may_act_on(by, job):
        return f"You may look at job {job_id}, but not change it."
    try:
        act(job_id)
    except (Refused, Invalid, Job.DoesNotExist) as refusal:
        return str(refusal)
    return None
