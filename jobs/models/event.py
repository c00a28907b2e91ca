"""Immutable facts."""

from django.db import models
from django.db.models.functions import Now

from jobs.models.choices import enum_field
from jobs.states import EventKind, Reason


class Event(models.Model):
    """One fact of a job's timeline. `seq` counts 1, 2, 3 … within the job, in commit order and without holes."""

    job = models.ForeignKey("jobs.Job", models.CASCADE, related_name="events", db_index=False)
    seq = models.PositiveIntegerField()
    execution = models.ForeignKey(
        "jobs.Execution", models.CASCADE, null=True, blank=True, related_name="events", db_index=False
    )
    kind = enum_field(EventKind)
    message = models.TextField()
    reason = enum_field(Reason, blank=True, default="")
    details = models.JSONField(default=dict, blank=True)
    actor = models.CharField(max_length=160)
    at = models.DateTimeField(help_text="When it happened.")
    recorded_at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ("job_id", "seq")
        constraints = (models.UniqueConstraint(name="event_seq_unique", fields=("job", "seq")),)
        indexes = (models.Index(fields=("execution", "-seq"), name="event_execution_latest"),)

    def __str__(self) -> str:
        return f"{self.job_id}#{self.seq} {self.kind}"
