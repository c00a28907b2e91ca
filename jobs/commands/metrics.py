"""Storing the numbers that a script reports, and how far it is."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Now

from jobs.commands.executions import Lease
from jobs.errors import Stale
from jobs.models import Execution, Heartbeat, MetricPoint
from jobs.states import ExecutionState


@dataclass(frozen=True, kw_only=True)
class Point:
    """One value of one series."""

    key: str
    step: int
    value: float
    at: datetime


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far a script is: `rate` in steps per second."""

    step: int | None
    total: int | None
    rate: float | None


def append(lease: Lease, offset: int, end: int, points: Sequence[Point], progress: Progress) -> int:
    """Store what bytes `offset` to `end` of the metrics file say; returns up to where the file is stored.

    Repeating bytes that are stored already changes nothing. Raises Stale where the fence does not hold.
    """
    with transaction.atomic():
        if _mine(lease).filter(metrics_bytes=offset).update(metrics_bytes=end):
            _advance(lease, progress)
            MetricPoint.objects.bulk_create(
                [
                    MetricPoint(
                        execution_id=lease.execution_id,
                        key=point.key,
                        step=point.step,
                        value=point.value,
                        at=point.at,
                    )
                    for point in points
                ],
                batch_size=2000,
            )
            return end
    stored = _mine(lease).values_list("metrics_bytes", flat=True).first()
    if stored is None:
        raise Stale(f"Execution {lease.label} is not this process's any more.")
    return stored


def _advance(lease: Lease, progress: Progress) -> None:
    columns: dict[str, Any] = {}
    if progress.step is not None:
        columns |= {"step": progress.step, "step_at": Now(), "step_rate": progress.rate}
    if progress.total is not None:
        columns["total"] = progress.total
    if columns:
        Heartbeat.objects.filter(execution_id=lease.execution_id, nonce=lease.nonce).update(**columns)


def _mine(lease: Lease) -> QuerySet[Execution]:
    return Execution.objects.filter(pk=lease.execution_id, nonce=lease.nonce, state=ExecutionState.RUNNING.value)
