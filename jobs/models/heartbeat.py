"""The lease of an active execution."""

from django.db import models
from django.db.models.functions import Now

from jobs.models.choices import enum_field
from jobs.states import Reason


class Heartbeat(models.Model):
    """Exists only while its execution is active, and says until when.

    Before `start` the deadline is that of starting (or of the review), afterwards that of the lease. The row carries
    all that a beat must check, and no index on a column that a beat changes: so a beat is one HOT update.
    """

    execution = models.OneToOneField("jobs.Execution", models.CASCADE, primary_key=True, related_name="heartbeat")
    nonce = models.UUIDField(null=True)
    beat_at = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField()
    held_until = models.DateTimeField(null=True)
    """Set by the reaper when it held this expired lease once (promise 7)."""
    stop_reason = enum_field(Reason, blank=True, default="")
    """Why the worker must stop its script; empty while it need not."""
    step = models.BigIntegerField(null=True)
    total = models.BigIntegerField(null=True)
    step_at = models.DateTimeField(null=True)
    step_rate = models.FloatField(null=True, help_text="Steps per second, smoothed.")

    def __str__(self) -> str:
        return f"lease of {self.execution_id}"
