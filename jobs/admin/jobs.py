"""Jobs in the admin, with the same commands as the API and the dashboard."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import Truncator

from jobs.admin.base import ReadOnlyAdmin, acting
from jobs.admin.links import artifact_link, dashboard_link
from jobs.commands import cancellation, requeueing
from jobs.models import Job, JobSource, WorkerExclusion
from jobs.selectors.filters import Filter, narrowed

NAME_SHOWN = 48
FOUND = 1000
"""Jobs that a search shows at most, the newest."""


class SourceInline(admin.StackedInline[JobSource, Job]):
    """What a job runs; of its environment only the names, for the values may be secrets."""

    model = JobSource
    verbose_name_plural = "what it runs"
    can_delete = False
    fields = readonly_fields = ("script_text", "args", "environment_names", "requirements")

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return True  # whoever may see the job

    @admin.display(description="script")
    def script_text(self, source: JobSource) -> SafeString:
        return format_html("<pre>{}</pre>", source.script)

    @admin.display(description="names in env")
    def environment_names(self, source: JobSource) -> str:
        return ", ".join(sorted(source.env)) or "–"


@admin.register(Job)
class JobAdmin(ReadOnlyAdmin[Job]):
    """Keyed by job_id; cancel and requeue report each refusal."""

    list_display = (
        "job_id",
        "short_name",
        "state",
        "owner",
        "attempts",
        "priority",
        "reason",
        "created_at",
        "dashboard",
    )
    list_display_links = ("job_id", "short_name")
    list_filter = ("state", "priority", "reason", "created_at")
    list_select_related = ("owner",)
    search_fields = ("name",)
    search_help_text = "A job's number, or a part of its name."
    actions = ("cancel", "requeue")
    inlines = (SourceInline,)
    readonly_fields = ("job_id", "dashboard", "artifact")

    def get_fields(self, request: HttpRequest, obj: Job | None = None) -> list[Any]:
        return ["job_id", "dashboard", "artifact", *(field.name for field in Job._meta.fields if field.name != "id")]

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Job], search_term: str
    ) -> tuple[QuerySet[Job], bool]:
        if not (words := search_term.strip()):
            return queryset, False
        found = narrowed(Job.objects.all(), Filter(q=words), FOUND)
        return queryset.filter(pk__in=found.items), False

    @admin.display(ordering="id")
    def job_id(self, job: Job) -> int:
        return job.pk

    @admin.display(description="attempt")
    def attempts(self, job: Job) -> str:
        return f"{job.attempt} ({job.attempts_used}/{job.max_attempts})"

    @admin.display(description="name")
    def short_name(self, job: Job) -> str:
        return Truncator(job.name).chars(NAME_SHOWN)

    @admin.display
    def dashboard(self, job: Job) -> SafeString:
        return dashboard_link(job.pk)

    @admin.display
    def artifact(self, job: Job) -> SafeString | str:
        return artifact_link(job.pk) if job.latest_checkpoint_id else "no checkpoint yet"

    @admin.action(description="Cancel the selected jobs", permissions=["operate"])
    def cancel(self, request: HttpRequest, rows: QuerySet[Job]) -> None:
        by = acting(request)
        self.apply(request, rows, lambda job: cancellation.cancel(job.pk, by), "Cancelled or asked to stop")

    @admin.action(description="Requeue the selected jobs, from their latest checkpoint", permissions=["operate"])
    def requeue(self, request: HttpRequest, rows: QuerySet[Job]) -> None:
        by = acting(request)
        self.apply(request, rows, lambda job: requeueing.requeue(job.pk, by), "Requeued")


@admin.register(JobSource)
class JobSourceAdmin(ReadOnlyAdmin[JobSource]):
    list_display = ("job", "requirements")
    list_select_related = ("job",)
    fields = readonly_fields = ("job", "script_text", "args", "environment_names", "requirements")
    script_text = SourceInline.script_text
    environment_names = SourceInline.environment_names


@admin.register(WorkerExclusion)
class WorkerExclusionAdmin(ReadOnlyAdmin[WorkerExclusion]):
    list_display = ("job", "worker", "until", "reason")
    list_filter = ("reason",)
    list_select_related = ("job", "worker")
