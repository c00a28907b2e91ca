"""Jobs as people see them, one by one and in pages."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from django.db.models import BooleanField, ExpressionWrapper, F, FilteredRelation, Q, QuerySet
from django.db.models.functions import Now

from jobs.errors import Forbidden, NotFound
from jobs.models import Execution, Heartbeat, Job, JobSource, Priority
from jobs.selectors import access, checkpoints, pages, waiting
from jobs.selectors.access import Person
from jobs.selectors.checkpoints import LatestCheckpoint
from jobs.selectors.filters import Filter, narrowed
from jobs.selectors.pages import Page
from jobs.selectors.waiting import Situation
from jobs.states import JobState


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far the current attempt is, or the latest one was."""

    step: int | None = None
    total: int | None = None
    eta_seconds: float | None = None


@dataclass(frozen=True, kw_only=True)
class JobView:
    """A job, for the API and the pages."""

    job_id: int
    state: str
    worker_id: str | None
    name: str
    owner: str
    labels: Mapping[str, str]
    priority: str
    attempt: int
    attempts_left: int
    max_attempts: int
    progress: Progress
    waiting: str | None
    current_execution: str | None
    latest_checkpoint: LatestCheckpoint | None
    cancel_requested_at: datetime | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    reason: str | None
    message: str | None
    last_seq: int


@dataclass(frozen=True, kw_only=True)
class Submitted(JobView):
    """The answer to a submission; `status` is the state in lower case, as the older coordinator answered."""

    status: str


def page(person: Person, wanted: Filter, limit: int, cursor: str | None = None) -> Page[JobView]:
    """The jobs that `person` may see and `wanted` lets through, newest first.

    A page looks at no more than a bounded number of jobs: with a filter that rarely matches, it may hold fewer than
    `limit` (even none) and still have a next one.
    """
    found = narrowed(access.visible_jobs(person), wanted, limit, pages.decode(cursor, int))
    by_id = {job.pk: job for job in rows().filter(pk__in=found.items)}
    jobs = [by_id[pk] for pk in found.items if pk in by_id]
    return Page(items=views(jobs), next=found.next)


def get(person: Person, job_id: int) -> JobView:
    """One job; raises NotFound, also where `person` may not see it."""
    job = rows().filter(pk__in=access.visible_jobs(person).filter(pk=job_id).values("pk")).first()
    if job is None:
        raise NotFound(f"There is no job {job_id}.")
    return views([job])[0]


def find(person: Person, job_id: int) -> Job:
    """The row of a job alone; raises NotFound, also where `person` may not see it."""
    job = access.visible_jobs(person).filter(pk=job_id).first()
    if job is None:
        raise NotFound(f"There is no job {job_id}.")
    return job


def find_to_change(person: Person, job_id: int) -> Job:
    """The row of a job that `person` may act on; raises NotFound, or Forbidden for one that it may only see."""
    job = find(person, job_id)
    if not access.may_act_on(person, job):
        raise Forbidden(f"You may look at job {job_id}, but not change it.")
    return job


def source(job: Job) -> JobSource:
    """What was submitted; the values of its environment are for the script alone."""
    return JobSource.objects.get(job=job)


def rows() -> QuerySet[Job]:
    """Jobs with all that `view` reads: the owner, the latest execution with its lease, the latest checkpoint."""
    found = Job.objects.annotate(
        latest=FilteredRelation("executions", condition=Q(executions__number=F("attempt"))),
        backing_off=ExpressionWrapper(Q(not_before__gt=Now()), output_field=BooleanField()),
    )
    return found.select_related("owner", "latest__heartbeat", "latest_checkpoint")  # type: ignore[misc]  # filtered


def views(jobs: Sequence[Job]) -> list[JobView]:
    """What people see of jobs that `rows` gave."""
    now = waiting.situation(jobs)
    return [view(job, now) for job in jobs]


def view(job: Job, now: Situation) -> JobView:
    """What people see of one job that `rows` gave, or that was just submitted."""
    latest: Execution | None = getattr(job, "latest", None)
    current = latest if job.current_execution_id else None
    shown = latest if job.finished_at else current
    worker = shown.worker_name if shown else None
    return JobView(
        job_id=job.pk,
        state=job.state,
        worker_id=worker,
        name=job.name,
        owner=job.owner.get_username(),
        labels=job.labels,
        priority=Priority(job.priority).label,
        attempt=job.attempt,
        attempts_left=max(job.max_attempts - job.attempts_used, 0),
        max_attempts=job.max_attempts,
        progress=_progress(latest),
        waiting=waiting.sentence(job, worker, now),
        current_execution=current.label if current else None,
        latest_checkpoint=checkpoints.latest(job.latest_checkpoint),
        cancel_requested_at=job.cancel_requested_at,
        created_at=job.created_at,
        started_at=job.started_at,
        finished_at=job.finished_at,
        reason=job.reason or None,
        message=job.message or None,
        last_seq=job.last_seq,
    )


def submitted(job: Job) -> Submitted:
    """What people see of a job just stored; a worker may have it by now, but it was queued when it was accepted."""
    now = Situation()
    queued = job.state == JobState.QUEUED
    said = "Waiting for a free worker." if queued else waiting.sentence(job, None, now)
    stored = vars(view(job, now)) | {"waiting": said}
    return Submitted(**stored, status=job.state.lower())


def ids_to_change(person: Person, wanted: Filter, states: Collection[JobState], limit: int) -> Page[int]:
    """The ids of the jobs that `person` may act on, that `wanted` lets through and that are in one of `states`."""
    chosen = [state for state in wanted.states or states if state in states]
    if not chosen:
        return Page(items=[])
    return narrowed(access.changeable_jobs(person), replace(wanted, states=chosen), limit)


def _progress(latest: Execution | None) -> Progress:
    if latest is None:
        return Progress()
    lease: Heartbeat | None = getattr(latest, "heartbeat", None)
    if lease is None:
        return Progress(step=latest.step, total=latest.total)
    return Progress(step=lease.step, total=lease.total, eta_seconds=_eta(lease))


def _eta(lease: Heartbeat) -> float | None:
    if lease.step is None or lease.total is None or not lease.step_rate or lease.step_rate < 0:
        return None
    left = max(lease.total - lease.step, 0) / lease.step_rate
    return round(left, 1) if math.isfinite(left) else None
