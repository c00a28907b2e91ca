"""Datasets and the rows of which there is one, to look at."""

from django.contrib import admin

from jobs.admin.base import ReadOnlyAdmin
from jobs.models import Dataset, DatasetUpload, IdempotencyKey, Installation, ReaperLease


@admin.register(Dataset)
class DatasetAdmin(ReadOnlyAdmin[Dataset]):
    list_display = ("__str__", "owner", "size", "sha256", "created_at")
    list_select_related = ("owner",)
    search_fields = ("name", "filename")


@admin.register(DatasetUpload)
class DatasetUploadAdmin(ReadOnlyAdmin[DatasetUpload]):
    list_display = ("__str__", "job", "touched_at", "given_up")
    list_select_related = ("job",)


@admin.register(Installation)
class InstallationAdmin(ReadOnlyAdmin[Installation]):
    list_display = ("uuid", "queue_paused_at")


@admin.register(ReaperLease)
class ReaperLeaseAdmin(ReadOnlyAdmin[ReaperLease]):
    list_display = ("__str__", "expires_at", "swept_at", "sweeps", "summary")
    exclude = ("holder",)


@admin.register(IdempotencyKey)
class IdempotencyKeyAdmin(ReadOnlyAdmin[IdempotencyKey]):
    list_display = ("__str__", "created_at")
