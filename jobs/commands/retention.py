"""Which checkpoints are kept, and letting go of the others.

A row expires and what may be deleted for it is decided in one transaction, in which the job and its checkpoints are
locked. Only that may be deleted then, however late: no kept checkpoint names it, later ones name only what a kept one
names or what their own attempt stored, and an attempt stores nothing while it deletes.
"""

from collections.abc import Collection, Mapping, Sequence

from django.db import transaction
from django.db.models import F
from django.db.models.functions import Now

from jobs import transition
from jobs.commands.executions import Lease
from jobs.models import Checkpoint, Job
from jobs.models.choices import values
from jobs.states import FINAL, HELD

KEPT = 2
"""How many of a job's newest checkpoints are kept."""

Names = Mapping[int, Collection[str] | None]
"""By a checkpoint's primary key, all keys that it needs; None where its manifest can't say."""


def overdue(job_id: int) -> bool:
    """Whether retention would let go of any of the job's checkpoints just now."""
    job = Job.objects.filter(pk=job_id).first()
    return job is not None and bool(_superseded(job, list(Checkpoint.objects.kept().filter(job=job))))


def expire(lease: Lease, names: Names) -> set[str]:
    """Let go of what retention does not keep; returns the keys that the caller alone may, and must, delete now.

    `names` was read before; where a checkpoint is missing in it, nothing happens. Raises Stale where the fence does
    not hold.
    """
    with transaction.atomic():
        transition.hold(job_id=lease.job_id, fence=lease.fence)
        job = Job.objects.get(pk=lease.job_id)
        held = _locked(job)
        if any(checkpoint.pk not in names for checkpoint in held):
            return set()
        gone = _expire(job, held)
        return _deletable(names, gone, [checkpoint for checkpoint in held if checkpoint not in gone])


def expire_idle(job_id: int) -> int:
    """The same for a job that no worker has; returns how many went. What they held is for `collection.sweep`."""
    with transaction.atomic():
        idle = Job.objects.select_for_update().filter(pk=job_id).exclude(state__in=values(HELD))
        job = idle.first()
        return len(_expire(job, _locked(job))) if job is not None else 0


def _locked(job: Job) -> list[Checkpoint]:
    # Whoever pins one holds its row: what is read after this has seen every pin.
    return list(Checkpoint.objects.kept().select_for_update(no_key=True).filter(job=job).order_by("n"))


def _expire(job: Job, held: Sequence[Checkpoint]) -> list[Checkpoint]:
    gone = _superseded(job, held)
    if gone:
        Checkpoint.objects.filter(pk__in=[checkpoint.pk for checkpoint in gone]).update(expired_at=Now())
    return gone


def _superseded(job: Job, held: Sequence[Checkpoint]) -> list[Checkpoint]:
    """Those that are neither among the newest, nor the last final one, nor pinned, nor where the job goes on."""
    by_number = sorted(held, key=lambda checkpoint: checkpoint.n)
    finals = [checkpoint for checkpoint in by_number if checkpoint.final]
    newest = {checkpoint.pk for checkpoint in [*by_number[-KEPT:], *finals[-1:]]}
    kept = {job.latest_checkpoint_id, job.resume_checkpoint_id, *newest}
    gone = [checkpoint for checkpoint in by_number if not checkpoint.pinned and checkpoint.pk not in kept]
    needed = needed_by_forks([checkpoint.pk for checkpoint in gone]) if gone else set()
    return [checkpoint for checkpoint in gone if checkpoint.pk not in needed]


def needed_by_forks(checkpoint_ids: Collection[int]) -> set[int]:
    """Those of these checkpoints that another job, which has not ended, would go on from.

    Holds for as long as the checkpoints' rows are locked.
    """
    forks = Job.objects.filter(forked_from__in=checkpoint_ids, resume_checkpoint=F("forked_from"))
    waiting = forks.exclude(state__in=values(FINAL)).values_list("forked_from", flat=True)
    return {pk for pk in waiting if pk is not None}


def hold_source(checkpoint_id: int) -> Checkpoint | None:
    """Lock a checkpoint that a job is about to go on from; None where retention was faster."""
    return Checkpoint.objects.kept().select_for_update(no_key=True).filter(pk=checkpoint_id).first()


def _deletable(names: Names, gone: Sequence[Checkpoint], kept: Sequence[Checkpoint]) -> set[str]:
    doomed: set[str] = set().union(*(names[checkpoint.pk] or () for checkpoint in gone))
    for checkpoint in kept:
        needed = names[checkpoint.pk]
        if needed is None:
            return set()  # it may need any of them; what is left here is for the sweep
        doomed.difference_update(needed)
    return doomed
