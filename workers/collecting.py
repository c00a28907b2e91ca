"""Deleting what a new checkpoint made superfluous."""

import logging

from django.db import DatabaseError, InterfaceError

from jobs.commands import retention
from jobs.commands.executions import Lease
from jobs.errors import Stale
from jobs.models import Checkpoint
from jobs.storage import collection
from jobs.storage.objects import StorageFailed, storage

logger = logging.getLogger(__name__)


def collect(lease: Lease) -> None:
    """Let go of checkpoints that retention does not keep, and of what they alone need.

    Not beside a `publish` of the same attempt. Whatever keeps it from being done is left to the next one, or to the
    sweep after the job's end: the checkpoint itself is safe by now.
    """
    try:
        if not retention.overdue(lease.job_id):
            return
        held = Checkpoint.objects.kept().filter(job=lease.job_id)
        names = {checkpoint.pk: collection.named(checkpoint) for checkpoint in held}
        storage().delete_all(retention.expire(lease, names))
    except (StorageFailed, DatabaseError, InterfaceError, Stale) as error:
        logger.warning("Old checkpoints of job %s are not deleted yet: %s", lease.job_id, error)
