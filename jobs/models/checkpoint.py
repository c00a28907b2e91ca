"""Committed snapshots of `output/`."""

from django.db import models
from django.db.models.functions import Now


class Checkpoints(models.QuerySet["Checkpoint"]):
    """Checkpoints, and those of them that can be had."""

    def kept(self) -> "Checkpoints":
        return self.filter(expired_at__isnull=True)


class Checkpoint(models.Model):
    """One whole snapshot, written `1042/7`. Its row is committed after all its content lies in storage.

    The row of an expired one stays, so that executions still tell what they resumed from; its content is gone.
    """

    job = models.ForeignKey("jobs.Job", models.CASCADE, related_name="checkpoints", db_index=False)
    n = models.PositiveIntegerField()
    execution = models.ForeignKey(
        "jobs.Execution", models.CASCADE, related_name="checkpoints", help_text="Which attempt wrote it."
    )
    step = models.BigIntegerField(null=True, blank=True)
    file_count = models.PositiveIntegerField()
    total_bytes = models.BigIntegerField()
    new_bytes = models.BigIntegerField(help_text="What this snapshot had to upload.")
    manifest_key = models.CharField(max_length=300)
    final = models.BooleanField(default=False)
    pinned = models.BooleanField(default=False)
    created_at = models.DateTimeField(db_default=Now())
    expired_at = models.DateTimeField(null=True, blank=True, help_text="When retention let its content go.")

    objects = Checkpoints.as_manager()

    class Meta:
        ordering = ("job_id", "n")
        constraints = (models.UniqueConstraint(name="checkpoint_n_unique", fields=("job", "n")),)
        indexes = (
            models.Index(fields=("job", "n"), name="checkpoint_kept", condition=models.Q(expired_at__isnull=True)),
        )

    def __str__(self) -> str:
        return self.label

    @property
    def label(self) -> str:
        """How people write it: `1042/7`."""
        return f"{self.job_id}/{self.n}"
