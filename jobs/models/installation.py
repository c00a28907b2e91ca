"""Rows of which there is one."""

import uuid

from django.db import models
from django.db.models import Q


class Installation(models.Model):
    """This installation: an installation is one database."""

    id = models.SmallIntegerField(primary_key=True, default=1)
    uuid = models.UUIDField(default=uuid.uuid4, help_text="Keeps the RQ queues of installations on one Redis apart.")
    queue_paused_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = (models.CheckConstraint(name="installation_single", condition=Q(id=1)),)

    def __str__(self) -> str:
        return str(self.uuid)


class ReaperLease(models.Model):
    """Which reaper is the active one, until when, and how fresh its sweeps are."""

    id = models.SmallIntegerField(primary_key=True, default=1)
    holder = models.UUIDField(null=True, blank=True)
    host = models.CharField(max_length=255, blank=True, default="")
    pid = models.PositiveIntegerField(null=True, blank=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    swept_at = models.DateTimeField(null=True, blank=True, help_text="End of the last sweep.")
    sweeps = models.BigIntegerField(default=0)
    summary = models.JSONField(default=dict, blank=True, help_text="What the last sweep did.")

    class Meta:
        constraints = (models.CheckConstraint(name="reaper_lease_single", condition=Q(id=1)),)

    def __str__(self) -> str:
        return f"reaper {self.pid}@{self.host}"
