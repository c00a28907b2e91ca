"""Committing checkpoints."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models import F

from jobs import transition
from jobs.commands.executions import Lease
from jobs.errors import Stale
from jobs.models import Checkpoint, Job
from jobs.states import EventKind
from jobs.timeline import Fact


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """A snapshot whose content and manifest lie whole in storage; sizes in bytes."""

    manifest_key: str
    file_count: int
    total_bytes: int
    new_bytes: int
    step: int | None
    final: bool


def commit(lease: Lease, snapshot: Snapshot) -> Checkpoint:
    """Make a stored snapshot the job's latest checkpoint; raises Stale where the fence does not hold."""
    with transaction.atomic():
        # Locked and counted first: the number is part of the event.
        job = Job.objects.select_for_update().filter(pk=lease.job_id).values_list("last_checkpoint_n", flat=True)
        if (last := job.first()) is None:
            raise Stale(f"Job {lease.job_id} was removed.")
        n = last + 1
        checkpoint = Checkpoint(
            job_id=lease.job_id,
            n=n,
            execution_id=lease.execution_id,
            step=snapshot.step,
            file_count=snapshot.file_count,
            total_bytes=snapshot.total_bytes,
            new_bytes=snapshot.new_bytes,
            manifest_key=snapshot.manifest_key,
            final=snapshot.final,
        )
        checkpoint.save(force_insert=True)
        transition.note(
            job_id=lease.job_id,
            facts=[_saved(lease, checkpoint)],
            actor=lease.actor,
            fence=lease.fence,
            job={
                "last_checkpoint_n": F("last_checkpoint_n") + 1,
                "latest_checkpoint": checkpoint,
                "resume_checkpoint": checkpoint,
            },
        )
    return checkpoint


def _saved(lease: Lease, checkpoint: Checkpoint) -> Fact:
    step = f" at step {checkpoint.step}" if checkpoint.step is not None else ""
    files = "1 file" if checkpoint.file_count == 1 else f"{checkpoint.file_count} files"
    return Fact(
        kind=EventKind.CHECKPOINT_SAVED,
        message=f"Saved checkpoint {checkpoint.label}{step}: {files}, {checkpoint.total_bytes} bytes.",
        execution_id=lease.execution_id,
        details={
            "checkpoint": checkpoint.label,
            "n": checkpoint.n,
            "step": checkpoint.step,
            "file_count": checkpoint.file_count,
            "total_bytes": checkpoint.total_bytes,
            "new_bytes": checkpoint.new_bytes,
            "final": checkpoint.final,
        },
    )


def restored(lease: Lease, checkpoint: Checkpoint, *, seconds: float) -> None:
    """Say that the execution goes on from `checkpoint`."""
    step = f", step {checkpoint.step}" if checkpoint.step is not None else ""
    _tell(
        lease,
        EventKind.CHECKPOINT_RESTORED,
        f"Goes on from checkpoint {checkpoint.label}{step}.",
        {"checkpoint": checkpoint.label, "n": checkpoint.n, "step": checkpoint.step, "seconds": round(seconds, 3)},
        execution={"resumed_from": checkpoint, "restore_seconds": seconds},
    )


def rejected(lease: Lease, checkpoint: Checkpoint, why: str) -> None:
    """Say that `checkpoint` can't be used: `why` is a sentence."""
    _tell(
        lease,
        EventKind.CHECKPOINT_REJECTED,
        f"Checkpoint {checkpoint.label} can't be used: {why}",
        {"checkpoint": checkpoint.label, "n": checkpoint.n},
    )


def failed(lease: Lease, why: str) -> None:
    """Say that a snapshot could not be stored: `why` is a sentence."""
    message = f"A checkpoint could not be saved and is tried again: {why}"
    _tell(lease, EventKind.CHECKPOINT_FAILED, message, {})


def _tell(
    lease: Lease,
    kind: EventKind,
    message: str,
    details: Mapping[str, Any],
    execution: Mapping[str, Any] | None = None,
) -> None:
    with transaction.atomic():
        transition.note(
            job_id=lease.job_id,
            facts=[Fact(kind=kind, message=message, execution_id=lease.execution_id, details=details)],
            actor=lease.actor,
            fence=lease.fence,
            execution=execution or {},
        )
