"""Training data that jobs read."""

from django.conf import settings
from django.db import models
from django.db.models.functions import Now


class Dataset(models.Model):
    """A dataset in storage; named ones are shared, a nameless one belongs to the job it was uploaded for."""

    name = models.CharField(max_length=200, null=True, blank=True, unique=True)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, related_name="datasets")
    filename = models.CharField(max_length=255)
    size = models.BigIntegerField(help_text="Bytes.")
    sha256 = models.CharField(max_length=64)
    storage_key = models.CharField(max_length=300)
    created_at = models.DateTimeField(db_default=Now())

    def __str__(self) -> str:
        return self.name or self.filename


class DatasetUpload(models.Model):
    """An upload under way. Its row goes in the transaction that keeps the dataset; one that stays is collected."""

    folder = models.CharField(max_length=100, unique=True)
    """In storage, this upload's alone."""
    job = models.ForeignKey("jobs.Job", models.CASCADE, null=True, blank=True, related_name="uploads")
    """None for a shared dataset."""
    given_up = models.BooleanField(default=False)
    """Set before its content is removed, so that nobody keeps a dataset without content."""
    touched_at = models.DateTimeField(db_default=Now(), db_index=True)

    def __str__(self) -> str:
        return self.folder
