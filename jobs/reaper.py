"""Deadlines: leases that ran out, assignments nobody started, reviews nobody gave, queues nobody served.

All are judged by the database's time. Candidates are read without locks; each is then locked and judged again in a
short transaction of its own, so that any number of reapers, paused or killed at any point, do each thing once.
"""

import logging
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import timedelta
from uuid import UUID

from django.conf import settings
from django.db import DatabaseError, connection, transaction
from django.db.models import DurationField, ExpressionWrapper, F, OuterRef, Q, Subquery, Value
from django.db.models.functions import Coalesce, Greatest, Now

from jobs import actors, dispatch, transition
from jobs.commands import datasets
from jobs.commands.endings import Ending, end
from jobs.errors import Refused
from jobs.models import Execution, Heartbeat, Job, ReaperLease, WorkerExclusion
from jobs.sql import in_seconds
from jobs.states import (
    Command,
    EventKind,
    ExecutionState,
    JobState,
    Reason,
    edge,
)
from jobs.timeline import Fact
from jobs.transition import Fence

logger = logging.getLogger(__name__)

BATCH = 500
REVIEW_EXCLUSION = timedelta(minutes=10)


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Something overdue, and what becomes of it: `why` is one sentence."""

    job_id: int
    execution: str | None
    action: str
    why: str


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """What one sweep did."""

    findings: tuple[Finding, ...]
    rung: int
    assigned: int

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


def lead(holder: UUID, host: str, pid: int, seconds: float) -> bool:
    """Become or stay the active reaper for `seconds`; returns False while another one is."""
    ReaperLease.objects.get_or_create(pk=1)
    free = Q(holder=holder) | Q(holder__isnull=True) | Q(expires_at__lt=Now())
    rows = ReaperLease.objects.filter(free, pk=1)
    return bool(rows.update(holder=holder, host=host, pid=pid, expires_at=in_seconds(seconds)))


def retire(holder: UUID) -> None:
    """Stop being the active reaper, so that another one need not wait for the lease to run out."""
    ReaperLease.objects.filter(pk=1, holder=holder).update(holder=None, expires_at=None)


def sweep(*, dry_run: bool = False) -> Sweep:
    """Find what is overdue and act on it; a dry run only tells."""
    findings = tuple(finding for overdue in _KINDS for finding in overdue(dry_run))
    if dry_run:
        return Sweep(findings=findings, rung=0, assigned=0)
    datasets.collect()
    rung = dispatch.ring_assigned(older_than=settings.RERAIL.timing.sweep)
    assigned = dispatch.run()
    done = Sweep(findings=findings, rung=rung, assigned=assigned)
    summary = {"findings": len(findings), "rung": rung, "assigned": assigned}
    ReaperLease.objects.filter(pk=1).update(swept_at=Now(), sweeps=F("sweeps") + 1, summary=summary)
    return done


def seconds_to_next_expiry() -> float | None:
    """Seconds until the earliest lease runs out; None while there is none."""
    earliest = Heartbeat.objects.order_by("expires_at").annotate(left=F("expires_at") - Now()).first()
    return None if earliest is None else float(earliest.left.total_seconds())


def _do(act: Callable[..., bool], *subject: object) -> bool:
    """Act on one finding; one that the database refuses is logged, and keeps nothing else from being done."""
    try:
        return act(*subject)
    except DatabaseError:
        if not connection.is_usable():
            raise
        logger.exception("%s can't be ended", subject[0])
        return False


# --- leases -------------------------------------------------------------------------------------------------------


def _expired_leases(dry_run: bool) -> Iterator[Finding]:
    overdue = Heartbeat.objects.filter(expires_at__lt=Now()).order_by("expires_at")
    if not dispatch.bell_works():
        overdue = overdue.exclude(_UNHEARD)
        if not dry_run:
            _prolong_unheard()
    candidates = Execution.objects.filter(heartbeat__in=overdue.values("pk")[:BATCH]).select_related("heartbeat")
    for execution in candidates.annotate(silent=Now() - F("heartbeat__beat_at")):
        ending = _ending_of(execution)
        finding = Finding(
            job_id=execution.job_id, execution=execution.label, action=ending.command.value, why=ending.message
        )
        if dry_run or _do(_expire, execution, ending):
            yield finding


_UNHEARD = Q(execution__state=ExecutionState.ASSIGNED.value)


def _prolong_unheard() -> None:
    """While Redis is away, no worker learns what it is given: neither worker nor job is to blame for not starting."""
    Heartbeat.objects.filter(_UNHEARD).update(expires_at=in_seconds(settings.RERAIL.timing.never_started))


def _ending_of(execution: Execution) -> Ending:
    silent = execution.silent.total_seconds()  # type: ignore[attr-defined]
    name = execution.worker_name
    if execution.state == ExecutionState.RUNNING:
        return Ending(
            command=Command.LOSE,
            cause=EventKind.LEASE_EXPIRED,
            reason=Reason.LEASE_EXPIRED,
            message=f"Worker {name} has not been heard of for {silent:.0f} s; attempt {execution.label} is lost.",
            details={"silent_seconds": round(silent, 3), "worker": name},
        )
    if execution.state == ExecutionState.PENDING_REVIEW:
        return Ending(
            command=Command.EXPIRE_REVIEW,
            cause=EventKind.REVIEW_EXPIRED,
            reason=Reason.REVIEW_TIMEOUT,
            message=f"Nobody reviewed it for worker {name} within {silent:.0f} s.",
        )
    return Ending(
        command=Command.RELEASE,
        cause=EventKind.RELEASED,
        reason=Reason.NEVER_STARTED,
        message=f"Worker {name} did not start it within {silent:.0f} s.",
    )


def _expire(execution: Execution, ending: Ending) -> bool:
    """Act on an expired lease; False where somebody was faster or it was renewed meanwhile."""
    with transaction.atomic():
        if not _still_overdue(execution):
            return False
        try:
            end(Fence(execution_id=execution.pk), ending, actors.REAPER)
        except Refused:
            return False
        if ending.reason is Reason.REVIEW_TIMEOUT and execution.worker_id is not None:
            WorkerExclusion.objects.update_or_create(
                job_id=execution.job_id,
                worker_id=execution.worker_id,
                defaults={"until": Now() + REVIEW_EXCLUSION, "reason": ending.reason.value},
            )
        return True


def _still_overdue(execution: Execution) -> bool:
    """Lock job, execution and lease, in that order, and judge again."""
    job = Job.objects.select_for_update(skip_locked=True).filter(pk=execution.job_id)
    attempt = Execution.objects.select_for_update().filter(pk=execution.pk, state=execution.state)
    lease = Heartbeat.objects.select_for_update().filter(pk=execution.pk, expires_at__lt=Now())
    return all(rows.values_list("pk").first() for rows in (job, attempt, lease))


# --- queue --------------------------------------------------------------------------------------------------------


def _overstayed_queue(dry_run: bool) -> Iterator[Finding]:
    limit = ExpressionWrapper(F("queue_timeout_seconds") * Value(timedelta(seconds=1)), DurationField())
    queued = Job.objects.filter(state=JobState.QUEUED.value, queue_timeout_seconds__isnull=False)
    # A place is older than the wait for it where the job came back by itself: that began with its last attempt's end,
    # or begins with the end of its backoff.
    last_end = Execution.objects.filter(job=OuterRef("pk"), number=OuterRef("attempt")).values("finished_at")
    since = Greatest("queued_at", Coalesce(Subquery(last_end), "queued_at"), Coalesce("not_before", "queued_at"))
    overdue = queued.filter(queued_at__lt=Now() - limit).alias(since=since).filter(since__lt=Now() - limit)
    for job in overdue.order_by("queued_at")[:BATCH]:
        why = f"No worker took it within its {job.queue_timeout_seconds:g} s in the queue."
        if dry_run or _do(_expire_queue, job, why):
            yield Finding(job_id=job.pk, execution=None, action=Command.EXPIRE_QUEUE.value, why=why)


def _expire_queue(job: Job, why: str) -> bool:
    reason = Reason.QUEUE_TIMEOUT
    try:
        with transaction.atomic():
            transition.take(
                edge(Command.EXPIRE_QUEUE, JobState.QUEUED, JobState.FAILED),
                job_id=job.pk,
                facts=[
                    Fact(kind=EventKind.QUEUE_EXPIRED, message=why, reason=reason),
                    Fact(kind=EventKind.FAILED, message=why, reason=reason),
                ],
                actor=actors.REAPER,
                guard=Q(queued_at=job.queued_at, attempt=job.attempt),
                job={"reason": reason.value, "message": why},
            )
    except Refused:
        return False
    return True


# --- datasets -----------------------------------------------------------------------------------------------------


def _missing_datasets(dry_run: bool) -> Iterator[Finding]:
    overdue = Job.objects.filter(state=JobState.AWAITING_DATASET.value, dataset_deadline__lt=Now())
    why = f"No dataset came for {settings.RERAIL.timing.dataset_timeout:g} s."
    for job_id in overdue.order_by("dataset_deadline").values_list("pk", flat=True)[:BATCH]:
        if dry_run or _do(datasets.expire, job_id):
            yield Finding(job_id=job_id, execution=None, action=Command.EXPIRE_DATASET.value, why=why)


_KINDS: tuple[Callable[[bool], Iterator[Finding]], ...] = (_expired_leases, _overstayed_queue, _missing_datasets)
