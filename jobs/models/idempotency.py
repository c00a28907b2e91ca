"""Answers that a repeated request gets again."""

from django.conf import settings
from django.db import models
from django.db.models.functions import Now


class IdempotencyKey(models.Model):
    """A request that somebody may repeat for a day without its being done twice."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+", db_index=False)
    key = models.CharField(max_length=255)
    fingerprint = models.CharField(max_length=64, help_text="SHA-256 of what was sent, in hex.")
    answer = models.JSONField(null=True)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = (models.UniqueConstraint(name="idempotency_key_unique", fields=("user", "key")),)
        indexes = (models.Index(fields=("created_at",), name="idempotency_key_age"),)

    def __str__(self) -> str:
        return self.key
