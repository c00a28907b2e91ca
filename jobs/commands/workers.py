"""What workers say of themselves, and what operators say of workers."""

import contextlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser
from django.db import transaction
from django.db.models import Case, Exists, OuterRef, PositiveSmallIntegerField, QuerySet, When
from django.db.models.functions import Now

from jobs import actors, dispatch
from jobs.commands.endings import Ending, end
from jobs.errors import Refused
from jobs.models import Execution, Worker, WorkerMode
from jobs.models.choices import values
from jobs.sql import in_seconds
from jobs.states import ACTIVE, UNSTARTED, Command, EventKind, Reason
from jobs.transition import Fence


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


@dataclass(frozen=True, kw_only=True)
class Occupation:
    """What a worker is occupied by; `unstarted` while it may still start it."""

    execution_id: int
    unstarted: bool


def register(boot: Boot, *, still_running: int | None) -> Occupation | None:
    """Enter a worker that has just started, or its new start; returns what it is still occupied by.

    `still_running` is the execution whose process the new boot found alive on its machine. A mode that an operator
    set outlasts restarts, except that a drain ends with the process. Raises Refused while a worker of that name is
    alive on another machine; on this one the caller has made sure that there is none.
    """
    columns: dict[str, Any] = {
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
        if worker.host != boot.host and Worker.objects.filter(pk=worker.pk, expires_at__gt=Now()).exists():
            raise Refused(f"A worker named {boot.name} is running on {worker.host} already; choose another name.")
        if still_running is not None and Execution.objects.filter(pk=still_running).exists():
            columns["occupied_by"] = still_running  # an operator may have written the worker off meanwhile
        Worker.objects.filter(pk=worker.pk).update(**columns)
        Worker.objects.filter(pk=worker.pk, mode=WorkerMode.DRAINING).update(mode=WorkerMode.ACTIVE, mode_reason="")
        dispatch.request()
        occupied_by = worker.occupied_by_id if still_running is None else still_running
        return None if occupied_by is None else _occupation(occupied_by)


def _occupation(execution_id: int) -> Occupation:
    unstarted = Execution.objects.filter(pk=execution_id, state__in=values(UNSTARTED)).exists()
    return Occupation(execution_id=execution_id, unstarted=unstarted)


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
    started = Execution.objects.filter(pk=OuterRef("occupied_by"), started_at__isnull=False)
    in_row = Case(When(Exists(started), then=0), default="unstarted_in_row", output_field=PositiveSmallIntegerField())
    with transaction.atomic():
        if rows.exclude(occupied_by__in=active).update(occupied_by=None, unstarted_in_row=in_row):
            dispatch.request()


def hand_back(boot: Boot) -> None:
    """Release what was assigned to this worker and not started, because the worker is being shut down."""
    unstarted = Execution.objects.filter(
        worker__name=boot.name, worker__boot_nonce=boot.nonce, state__in=values(UNSTARTED)
    )
    ending = Ending(
        command=Command.RELEASE,
        cause=EventKind.RELEASED,
        reason=Reason.DRAINED,
        message=f"Worker {boot.name} is shutting down and had not started it.",
    )
    for execution_id in unstarted.values_list("pk", flat=True):
        with contextlib.suppress(Refused), transaction.atomic():
            end(Fence(execution_id=execution_id), ending, actors.worker(boot.name))


def went_offline(boot: Boot) -> None:
    """Say that this boot ends in good order: its row expires at once, so that nothing is assigned to it."""
    Worker.objects.filter(name=boot.name, boot_nonce=boot.nonce).update(expires_at=Now())


def set_mode(name: str, mode: WorkerMode, reason: str = "") -> None:
    """Let a worker take work, or not; raises Refused where there is no worker of that name."""
    with transaction.atomic():
        if not Worker.objects.filter(name=name).update(mode=mode, mode_reason=reason, unstarted_in_row=0):
            raise Refused(f"There is no worker {name}.")
        dispatch.request()


def drain(name: str, by: AbstractBaseUser) -> None:
    """Give a worker nothing new until it is resumed or starts again; what it runs goes on."""
    _change_mode(
        name, WorkerMode.DRAINING, f"Drained by {by.get_username()}.", {WorkerMode.ACTIVE, WorkerMode.DRAINING}
    )


def disable(name: str, by: AbstractBaseUser) -> None:
    """Give a worker nothing new until it is resumed, over restarts too."""
    _change_mode(name, WorkerMode.DISABLED, f"Disabled by {by.get_username()}.", set(WorkerMode))


def resume(name: str) -> None:
    """Let a drained or disabled worker take work again."""
    _change_mode(name, WorkerMode.ACTIVE, "", {WorkerMode.ACTIVE, WorkerMode.DRAINING, WorkerMode.DISABLED})


def release_quarantine(name: str) -> None:
    """Let a quarantined worker take work again."""
    _change_mode(name, WorkerMode.ACTIVE, "", {WorkerMode.QUARANTINED})


def _change_mode(name: str, mode: WorkerMode, reason: str, sources: Collection[WorkerMode]) -> None:
    """Change a worker's mode if it is one of `sources`; raises Refused where it is another, or there is no worker."""
    with transaction.atomic():
        found = Worker.objects.select_for_update().filter(name=name).values_list("mode", flat=True).first()
        if found is not None and found not in sources:
            raise Refused(f"Worker {name} is {WorkerMode(found).label.lower()}; that can't be done with it now.")
        set_mode(name, mode, reason)
