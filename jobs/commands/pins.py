"""Keeping checkpoints for longer than retention would."""

from django.db import transaction

from jobs.errors import Refused
from jobs.models import Checkpoint, Job


def pin(checkpoint: Checkpoint) -> None:
    """Keep it until it is unpinned; raises Refused where retention was faster."""
    if not Checkpoint.objects.kept().filter(pk=checkpoint.pk).update(pinned=True):
        raise Refused(f"Checkpoint {checkpoint.label} is gone.")


def unpin(checkpoint: Checkpoint) -> None:
    """Leave it to retention: it goes with the running attempt's next checkpoint, or soon where the job has ended."""
    with transaction.atomic():
        Job.objects.filter(pk=checkpoint.job_id, swept_at__isnull=False).update(swept_at=None)
        if not Checkpoint.objects.kept().filter(pk=checkpoint.pk).update(pinned=False):
            raise Refused(f"Checkpoint {checkpoint.label} is gone.")
