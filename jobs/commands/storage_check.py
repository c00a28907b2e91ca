"""Comparing what the database knows with what lies in storage."""

from collections.abc import Iterator
from dataclasses import dataclass

from django.db.models import QuerySet

from jobs.models import Checkpoint, Job
from jobs.storage import blobs, collection, keys, manifests
from jobs.storage.manifests import CheckpointRejected
from jobs.storage.objects import storage
from jobs.storage.paths import printable


@dataclass(frozen=True, kw_only=True)
class Difference:
    """Something that is not as it should be: `what` is its kind, `why` one sentence."""

    what: str
    where: str
    why: str
    repaired: bool = False


DAMAGED = "damaged checkpoint"
SUPERFLUOUS = "superfluous"


def compare(*, repair: bool = False) -> Iterator[Difference]:
    """Everything that differs, job by job; all content is read, and verified by hash.

    With `repair`, what no checkpoint needs and no running attempt can have stored is removed; nothing else is touched.
    Safe beside running executions. Raises StorageFailed.
    """
    for job_id in _jobs():
        yield from _damaged(job_id)
        yield from _superfluous(job_id, repair=repair)
    yield from _of_no_job(repair=repair)


def _jobs() -> Iterator[int]:
    ran: QuerySet[Job, int] = Job.objects.filter(attempt__gt=0).order_by("pk").values_list("pk", flat=True)
    yield from ran.iterator()


def _damaged(job_id: int) -> Iterator[Difference]:
    """Checkpoints that a restore would reject; content that several name is read once."""
    verified: dict[str, str | None] = {}
    for checkpoint in Checkpoint.objects.kept().filter(job=job_id).order_by("n"):
        why = _wrong(checkpoint, verified)
        # One that expired while it was read is no longer to be had.
        if why is not None and Checkpoint.objects.kept().filter(pk=checkpoint.pk).exists():
            yield Difference(what=DAMAGED, where=checkpoint.label, why=why)


def _wrong(checkpoint: Checkpoint, verified: dict[str, str | None]) -> str | None:
    try:
        files = list(manifests.load(checkpoint).files)
    except CheckpointRejected as error:
        return str(error)
    for entry in files:
        if entry.key not in verified:
            verified[entry.key] = _unreadable(entry)
        if (why := verified[entry.key]) is not None:
            return f"{printable(entry.path)}: {why}"
    return None


def _unreadable(entry: manifests.Entry) -> str | None:
    try:
        for _ in blobs.content(entry):
            pass
    except CheckpointRejected as error:
        return str(error)
    return None


def _superfluous(job_id: int, *, repair: bool) -> Iterator[Difference]:
    found = collection.sweep(job_id, dry_run=not repair)
    if found.objects:
        why = f"{found.objects} objects of {found.total_bytes} bytes that no checkpoint needs."
        yield Difference(what=SUPERFLUOUS, where=f"job {job_id}", why=why, repaired=repair)
    if found.leftovers:
        why = f"{found.leftovers} torn uploads."
        yield Difference(what=SUPERFLUOUS, where=f"job {job_id}", why=why, repaired=repair)


def _of_no_job(*, repair: bool) -> Iterator[Difference]:
    """What lies there for jobs that do not exist: a job's row is committed before anything is stored for it."""
    last, known = "", True
    found: dict[str, list[str]] = {}
    for key, _ in storage().keys(keys.JOBS):
        name = key.split("/")[1]
        if name != last:
            last, known = name, not name.isdecimal() or Job.objects.filter(pk=int(name)).exists()
        if not known:
            found.setdefault(name, []).append(key)
    for name, orphans in found.items():
        if repair:
            storage().delete_all(orphans)
        why = f"{len(orphans)} objects of a job that does not exist."
        yield Difference(what=SUPERFLUOUS, where=f"job {name}", why=why, repaired=repair)
