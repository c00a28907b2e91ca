"""What workers say of themselves, and what operators say of workers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Now

from jobs import dispatch
from jobs.errors import Refused
from jobs.models import Execution, Worker, WorkerMode
from jobs.models.choices import values
from jobs.sql import in_seconds
from jobs.states import ACTIVE


@dataclass(frozen=True, kw_only=True)
class Boot:
    """One start of a worker process and what it declares."""

    name: str
    nonce: UUID
    host: str
    pid: int
    gpus: int = 0
    gpu_memory_mb: int = 0
    ram_mb: int = 0
    disk_mb: int = 0
    cpus: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)
    requires_review: bool = False
    isolation: str = "environment"
    version: str = ""


def register(boot: Boot, *, still_running: int | None) -> int | None:
    """Enter a worker that has just started, or its new start; returns the execution that it is still occupied by.

    `still_running` is the execution whose process the new boot found alive on its machine. Whatever else the worker
    was occupied by is gone: the new boot proves it. The caller has made sure that no other instance of that name
    lives; a mode that an operator set outlasts restarts, except that a drain ends with the process.
    """
    columns = {
        "host": boot.host,
        "boot_nonce": boot.nonce,
        "pid": boot.pid,
        "gpus": boot.gpus,
        "gpu_memory_mb": boot.gpu_memory_mb,
        "ram_mb": boot.ram_mb,
        "disk_mb": boot.disk_mb,
        "cpus": boot.cpus,
        "labels": dict(boot.labels),
        "requires_review": boot.requires_review,
        "isolation": boot.isolation,
        "version": boot.version,
        "started_at": Now(),
        "last_seen_at": Now(),
        "expires_at": in_seconds(settings.RERAIL.timing.lease),
    }
    with transaction.atomic():
        Worker.objects.bulk_create([Worker(name=boot.name, **columns)], ignore_conflicts=True)
        worker = Worker.objects.select_for_update().get(name=boot.name)
        Worker.objects.filter(pk=worker.pk).update(**columns)
        Worker.objects.filter(pk=worker.pk, mode=WorkerMode.DRAINING).update(mode=WorkerMode.ACTIVE, mode_reason="")
        dispatch.request()
        return worker.occupied_by_id if still_running is None else still_running


def renew(boot: Boot, *, idle: bool) -> bool:
    """Renew the worker's row by one statement; returns False where another boot has taken the name over.

    An `idle` worker has no process of any execution: it thereby also says that what occupied it is gone, unless that
    is an assignment that it has yet to start.
    """
    rows = Worker.objects.filter(name=boot.name, boot_nonce=boot.nonce)
    renewed = rows.update(last_seen_at=Now(), expires_at=in_seconds(settings.RERAIL.timing.lease))
    if renewed and idle:
        _free(rows.filter(occupied_by__isnull=False))
    return bool(renewed)


def freed(boot: Boot, execution_id: int) -> None:
    """Say that the process tree of `execution_id` is gone; the worker may be given something else at once."""
    with transaction.atomic():
        _free(Worker.objects.filter(name=boot.name, boot_nonce=boot.nonce, occupied_by=execution_id))


def _free(rows: QuerySet[Worker]) -> None:
    active = Execution.objects.filter(state__in=values(ACTIVE)).values("pk")
    with transaction.atomic():
        if rows.exclude(occupied_by__in=active).update(occupied_by=None):
            dispatch.request()


def went_offline(boot: Boot) -> None:
    """Say that this boot ends in good order: its row expires at once, so that nothing is assigned to it."""
    Worker.objects.filter(name=boot.name, boot_nonce=boot.nonce).update(expires_at=Now())


def set_mode(name: str, mode: WorkerMode, reason: str = "") -> None:
    """Let a worker take work, or not; raises Refused where there is no worker of that name."""
    with transaction.atomic():
        if not Worker.objects.filter(name=name).update(mode=mode, mode_reason=reason, unstarted_in_row=0):
            raise Refused(f"There is no worker {name}.")
        dispatch.request()
