"""Deleting what no checkpoint needs."""

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from jobs.models import Checkpoint, Job
from jobs.models.choices import values
from jobs.states import HELD
from jobs.storage import keys, manifests
from jobs.storage.manifests import CheckpointRejected
from jobs.storage.objects import StorageFailed, storage

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Swept:
    """What a sweep deleted; sizes in bytes."""

    objects: int = 0
    total_bytes: int = 0
    leftovers: int = 0


def discard(new_keys: Iterable[str]) -> None:
    """Delete what an execution stored for a checkpoint that was never committed; failures are left to the sweep.

    Only for keys that the caller's own store call reported as new: anything else may be another checkpoint's.
    """
    try:
        storage().delete_all(new_keys)
    except StorageFailed as error:
        logger.warning("What a refused checkpoint stored is left to the next sweep: %s", error)


def sweep(job_id: int) -> Swept:
    """Delete what ended attempts of a job left in storage and none of its checkpoints needs.

    May run at any time, also beside the present attempt: it stores under its own number, and names of an older
    attempt only what a committed checkpoint named before. Deletes nothing while a manifest can't be read. Raises
    StorageFailed.
    """
    through = _last_ended_attempt(job_id)
    needed = _needed(job_id)
    if through is None or needed is None:
        return Swept()
    leftovers = sum(storage().remove_leftovers(folder) for folder in _folders(job_id, through))
    doomed = {
        key: size
        for key, size in storage().keys(keys.job_folder(job_id))
        if key not in needed and (keys.attempt_of(key) or through + 1) <= through
    }
    storage().delete_all(doomed)
    return Swept(objects=len(doomed), total_bytes=sum(doomed.values()), leftovers=leftovers)


def _last_ended_attempt(job_id: int) -> int | None:
    job = Job.objects.filter(pk=job_id).values("state", "attempt").first()
    if job is None:
        return None
    return int(job["attempt"]) - (job["state"] in values(HELD))


def _needed(job_id: int) -> set[str] | None:
    """Every key that the job's checkpoints name; None where one of them can't say."""
    needed: set[str] = set()
    for checkpoint in Checkpoint.objects.kept().filter(job_id=job_id):
        if (its_own := named(checkpoint)) is None:
            return None
        needed |= its_own
    return needed


def named(checkpoint: Checkpoint) -> set[str] | None:
    """Every key that a checkpoint needs; None where its manifest can't say. Raises StorageFailed."""
    try:
        return manifests.load(checkpoint).blob_keys() | {checkpoint.manifest_key}
    except CheckpointRejected as error:
        logger.warning("What checkpoint %s needs is unknown: %s", checkpoint.label, error)
        return None


def _folders(job_id: int, through: int) -> Iterator[str]:
    for attempt in range(1, through + 1):
        yield keys.blob_folder(job_id, attempt)
        yield keys.manifest_folder(job_id, attempt)
