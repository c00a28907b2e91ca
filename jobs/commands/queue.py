"""Holding the whole queue, and letting it go on."""

from django.db import transaction
from django.db.models.functions import Now

from jobs import dispatch
from jobs.models import Installation


def pause() -> None:
    """Assign nothing until `resume`; what runs goes on. Pausing twice is pausing once."""
    Installation.objects.get_or_create(pk=1)
    Installation.objects.filter(pk=1, queue_paused_at__isnull=True).update(queue_paused_at=Now())


def resume() -> None:
    """Assign again."""
    with transaction.atomic():
        Installation.objects.filter(pk=1).update(queue_paused_at=None)
        dispatch.request()
