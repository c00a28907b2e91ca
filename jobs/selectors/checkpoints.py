"""Checkpoints as people see them."""

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Q, QuerySet

from jobs.errors import NotFound
from jobs.models import Checkpoint, Job
from jobs.selectors import pages
from jobs.selectors.pages import Page


class NoCheckpoint(NotFound):
    """The job has no checkpoint, or none of that number."""


@dataclass(frozen=True, kw_only=True)
class LatestCheckpoint:
    """What a job tells of its latest checkpoint; `size` in bytes."""

    id: str
    n: int
    step: int | None
    size: int
    created_at: datetime


@dataclass(frozen=True, kw_only=True)
class CheckpointView:
    """A checkpoint, for the API and the pages."""

    n: int
    id: str
    execution: str
    step: int | None
    file_count: int
    total_bytes: int
    new_bytes: int
    created_at: datetime
    final: bool
    pinned: bool


def page(job: Job, limit: int, cursor: str | None = None) -> Page[CheckpointView]:
    """The checkpoints of a job, in the order in which they were saved."""
    found = _of(job).order_by("n")
    if after := pages.decode(cursor, int):
        found = found.filter(n__gt=after[0])
    return pages.cut(found[: limit + 1], limit, key=lambda checkpoint: [checkpoint.n]).map(view)


def get(job: Job, n: int | None = None) -> Checkpoint:
    """Checkpoint `n` of a job, or its latest; raises NoCheckpoint."""
    wanted = Q(pk__in=[job.latest_checkpoint_id]) if n is None else Q(n=n)
    checkpoint = _of(job).filter(wanted).first()
    if checkpoint is None:
        raise NoCheckpoint(f"Job {job.pk} has no checkpoint {'yet' if n is None else n}.")
    return checkpoint


def _of(job: Job) -> QuerySet[Checkpoint]:
    return Checkpoint.objects.kept().filter(job=job).select_related("execution")


def view(checkpoint: Checkpoint) -> CheckpointView:
    """What people see of a checkpoint."""
    return CheckpointView(
        n=checkpoint.n,
        id=checkpoint.label,
        execution=checkpoint.execution.label,
        step=checkpoint.step,
        file_count=checkpoint.file_count,
        total_bytes=checkpoint.total_bytes,
        new_bytes=checkpoint.new_bytes,
        created_at=checkpoint.created_at,
        final=checkpoint.final,
        pinned=checkpoint.pinned,
    )


def latest(checkpoint: Checkpoint | None) -> LatestCheckpoint | None:
    """What a job tells of `checkpoint`, its latest."""
    if checkpoint is None:
        return None
    return LatestCheckpoint(
        id=checkpoint.label,
        n=checkpoint.n,
        step=checkpoint.step,
        size=checkpoint.total_bytes,
        created_at=checkpoint.created_at,
    )
