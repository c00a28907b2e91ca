"""Processes that run executions."""

from django.db import models
from django.db.models.functions import Now


class WorkerMode(models.TextChoices):
    """What operators allow a worker; whether it is busy or offline follows from its other columns."""

    ACTIVE = "active"
    DRAINING = "draining"
    DISABLED = "disabled"
    QUARANTINED = "quarantined"


class Worker(models.Model):
    """A process that runs one execution at a time, with the capacity it declared."""

    name = models.CharField(max_length=100, unique=True)
    host = models.CharField(max_length=255)
    boot_nonce = models.UUIDField(help_text="Changes with every start of the process.")
    pid = models.PositiveIntegerField()
    mode = models.CharField(max_length=16, choices=WorkerMode.choices, default=WorkerMode.ACTIVE)
    mode_reason = models.TextField(blank=True, default="")
    occupied_by = models.OneToOneField(
        "jobs.Execution", models.SET_NULL, null=True, blank=True, related_name="occupies"
    )
    """Set by assign; cleared only by the worker's word that the process tree is gone, a new boot, or `forget`."""

    gpus = models.PositiveIntegerField(default=0)
    gpu_memory_mb = models.PositiveIntegerField(default=0, help_text="Per card.")
    ram_mb = models.PositiveIntegerField(default=0)
    disk_mb = models.PositiveIntegerField(default=0)
    cpus = models.PositiveIntegerField(default=0)
    labels = models.JSONField(default=dict, blank=True)
    requires_review = models.BooleanField(default=False)
    isolation = models.CharField(max_length=16, default="environment")
    version = models.CharField(max_length=32, default="")
    unstarted_in_row = models.PositiveSmallIntegerField(default=0)
    failures_in_row = models.PositiveSmallIntegerField(default=0)

    started_at = models.DateTimeField(db_default=Now())
    last_seen_at = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField(help_text="Until when it counts as there without another word from it.")

    class Meta:
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name
