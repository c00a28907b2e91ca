"""Workers in the admin: whether each may take work."""

from collections.abc import Callable

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from jobs.admin.base import ReadOnlyAdmin
from jobs.commands import workers
from jobs.errors import Refused
from jobs.models import Worker, WorkerMode


@admin.register(Worker)
class WorkerAdmin(ReadOnlyAdmin[Worker]):
    list_display = ("name", "host", "mode", "mode_reason", "occupied_by", "gpus", "ram_mb", "last_seen_at", "version")
    list_filter = ("mode", "requires_review", "isolation", "host")
    list_select_related = ("occupied_by",)
    search_fields = ("name", "host")
    ordering = ("name",)
    exclude = ("boot_nonce",)
    actions = ("drain", "resume", "disable", "release_quarantine")

    @admin.action(description="Drain: finish what runs, take nothing new", permissions=["operate"])
    def drain(self, request: HttpRequest, rows: QuerySet[Worker]) -> None:
        self.apply(request, rows, _setting(WorkerMode.DRAINING, f"Drained by {request.user}."), "Draining")

    @admin.action(description="Resume: take work again", permissions=["operate"])
    def resume(self, request: HttpRequest, rows: QuerySet[Worker]) -> None:
        self.apply(request, rows, _setting(WorkerMode.ACTIVE), "Resumed")

    @admin.action(description="Disable: take nothing, over restarts too", permissions=["operate"])
    def disable(self, request: HttpRequest, rows: QuerySet[Worker]) -> None:
        self.apply(request, rows, _setting(WorkerMode.DISABLED, f"Disabled by {request.user}."), "Disabled")

    @admin.action(description="Release from quarantine", permissions=["operate"])
    def release_quarantine(self, request: HttpRequest, rows: QuerySet[Worker]) -> None:
        self.apply(request, rows, _release, "Released from quarantine")


def _setting(mode: WorkerMode, reason: str = "") -> Callable[[Worker], None]:
    return lambda worker: workers.set_mode(worker.name, mode, reason)


def _release(worker: Worker) -> None:
    if worker.mode != WorkerMode.QUARANTINED:
        raise Refused(f"Worker {worker.name} is not in quarantine.")
    workers.set_mode(worker.name, WorkerMode.ACTIVE)
