"""Tidying up the storage of jobs that have ended."""

import logging
from typing import Any

from django.db.models import QuerySet
from django.db.models.functions import Now

from jobs.commands import retention
from jobs.models import Job
from jobs.storage import collection
from jobs.storage.objects import StorageFailed

logger = logging.getLogger(__name__)

BATCH = 100


def sweep_ended() -> int:
    """Remove what torn uploads and lost attempts of ended jobs left in storage; returns how many jobs were looked at.

    Each is looked at once after its end, and again after an unpin or the end of a fork. While storage is away they wait
    for the next call.
    """
    _unswept().filter(attempt=0).update(swept_at=Now())
    done = 0
    for job in _unswept().order_by("finished_at").values("pk", "finished_at")[:BATCH]:
        try:
            retention.expire_idle(job["pk"])
            collection.sweep(job["pk"])
            _look_again_at_source(job["pk"])
        except StorageFailed as error:
            logger.warning("The storage of job %s is not tidied yet: %s", job["pk"], error)
            return done
        _swept(job)
        done += 1
    return done


def _unswept() -> QuerySet[Job]:
    return Job.objects.filter(finished_at__isnull=False, swept_at__isnull=True)


def _look_again_at_source(job_id: int) -> None:
    """A fork that has ended needs its source no more."""
    sources = Job.objects.filter(checkpoints__forks=job_id, swept_at__isnull=False)
    Job.objects.filter(pk__in=sources.values("pk")).update(swept_at=None)


def _swept(job: Any) -> None:
    # Not where it has run and ended again meanwhile.
    Job.objects.filter(pk=job["pk"], finished_at=job["finished_at"]).update(swept_at=Now())
