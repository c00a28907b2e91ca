"""Executions and what they leave behind, to look at."""

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString

from jobs.admin.base import ReadOnlyAdmin
from jobs.admin.links import dashboard_link
from jobs.models import Checkpoint, Event, Execution, Heartbeat, LogChunk, MetricPoint

LOG_SHOWN_BYTES = 64 * 1024


@admin.register(Execution)
class ExecutionAdmin(ReadOnlyAdmin[Execution]):
    list_display = ("label", "state", "phase", "worker_name", "reason", "charged", "assigned_at", "started_at",
                    "finished_at", "dashboard")  # fmt: skip
    list_filter = ("state", "phase", "reason", "charged")
    search_fields = ("=worker_name",)
    search_help_text = "A worker's whole name."
    exclude = ("nonce",)
    readonly_fields = ("label", "dashboard")

    @admin.display
    def dashboard(self, execution: Execution) -> SafeString:
        return dashboard_link(execution.job_id)


@admin.register(Event)
class EventAdmin(ReadOnlyAdmin[Event]):
    list_display = ("job", "seq", "kind", "execution", "message", "reason", "actor", "at")
    list_filter = ("kind", "reason")
    list_select_related = ("job", "execution")


@admin.register(Heartbeat)
class HeartbeatAdmin(ReadOnlyAdmin[Heartbeat]):
    list_display = ("execution", "beat_at", "expires_at", "held_until", "stop_reason", "step", "total")
    list_filter = ("stop_reason",)
    list_select_related = ("execution",)
    exclude = ("nonce",)


@admin.register(Checkpoint)
class CheckpointAdmin(ReadOnlyAdmin[Checkpoint]):
    list_display = ("label", "execution", "step", "file_count", "total_bytes", "new_bytes", "final", "pinned",
                    "created_at", "expired_at")  # fmt: skip
    list_filter = ("final", "pinned")
    list_select_related = ("execution",)


@admin.register(LogChunk)
class LogChunkAdmin(ReadOnlyAdmin[LogChunk]):
    list_display = ("execution", "offset")
    list_select_related = ("execution",)
    fields = readonly_fields = ("execution", "offset", "text")

    def get_queryset(self, request: HttpRequest) -> QuerySet[LogChunk]:
        return super().get_queryset(request).defer("data")

    @admin.display
    def text(self, chunk: LogChunk) -> SafeString:
        return format_html("<pre>{}</pre>", bytes(chunk.data[:LOG_SHOWN_BYTES]).decode(errors="replace"))


@admin.register(MetricPoint)
class MetricPointAdmin(ReadOnlyAdmin[MetricPoint]):
    list_display = ("execution", "key", "step", "value", "at")
    list_select_related = ("execution",)
