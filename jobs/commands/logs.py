"""Storing what a script prints."""

from django.db import transaction
from django.db.models import QuerySet

from jobs.commands.executions import Lease
from jobs.errors import Stale
from jobs.models import Execution, LogChunk
from jobs.states import ExecutionState


def append(lease: Lease, offset: int, data: bytes) -> int:
    """Store output from byte `offset` on; returns the offset up to which everything is stored.

    Repeating bytes that are stored already changes nothing. Raises Stale where the fence does not hold.
    """
    with transaction.atomic():
        # A chunk without bytes would stand where the next one belongs.
        moved = data and _mine(lease).filter(log_bytes=offset).update(log_bytes=offset + len(data))
        if moved:
            LogChunk.objects.bulk_create([LogChunk(execution_id=lease.execution_id, offset=offset, data=data)])
            return offset + len(data)
    stored = _mine(lease).values_list("log_bytes", flat=True).first()
    if stored is None:
        raise Stale(f"Execution {lease.label} is not this process's any more.")
    return stored


def _mine(lease: Lease) -> QuerySet[Execution]:
    return Execution.objects.filter(pk=lease.execution_id, nonce=lease.nonce, state=ExecutionState.RUNNING.value)
