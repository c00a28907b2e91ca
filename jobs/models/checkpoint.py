"""Committed snapshots of `output/`."""

from django.db import models
from django.db.models.functions import Now


class Checkpoint(models.Model):
    """One whole snapshot, written `1042/7`. Its row is committed after all its content lies in storage."""

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

    class Meta:
        ordering = ("job_id", "n")
        constraints = (models.UniqueConstraint(name="checkpoint_n_unique", fields=("job", "n")),)

    def __str__(self) -> str:
        return self.label

    @property
    def label(self) -> str:
        """How people write it: `1042/7`."""
        return f"{self.job_id}/{self.n}"
