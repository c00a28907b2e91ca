"""Datasets: uploaded for one job, or named and shared.

Bytes go straight to storage, outside of any transaction. A row of `DatasetUpload` says whose they are until the
transaction that keeps them; whoever dies on the way leaves it behind, and `collect` removes both.
"""

import logging
import re
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Protocol

from django.conf import settings
from django.contrib.auth.models import User
from django.db import DatabaseError, IntegrityError, close_old_connections, connection, transaction
from django.db.models import Q
from django.db.models.expressions import CombinedExpression
from django.db.models.functions import Now

from jobs import actors, dispatch, transition
from jobs.errors import Invalid, Refused, TooLarge
from jobs.models import Dataset, DatasetUpload, Job
from jobs.sql import in_seconds
from jobs.states import Command, EventKind, JobState, Reason, edge
from jobs.storage import datasets, keys
from jobs.storage.datasets import Content
from jobs.storage.objects import StorageFailed
from jobs.timeline import Fact

logger = logging.getLogger(__name__)

UPLOAD = "upload"
"""As a `dataset_ref`: the job waits for a dataset of its own."""
RENEW_SECONDS = 5.0
"""Between two writes of a deadline while bytes flow, at most."""
COLLECTED_AT_ONCE = 100
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")


class Incoming(Protocol):
    """A file on its way in. `filename` and `fields` are known once `chunks` is at its end."""

    filename: str
    fields: dict[str, str]
    declared_size: int | None
    """How many bytes the whole request says to have."""

    def chunks(self) -> Iterator[bytes]: ...


def named(name: str) -> Dataset:
    """The shared dataset of that name; raises Invalid."""
    found = Dataset.objects.filter(name=name).first() if "\0" not in name else None
    if found is None:
        raise Invalid({"dataset_ref": "There is no dataset of that name; to send one for this job, say upload."})
    return found


def deadline() -> CombinedExpression:
    """When an upload that shows no sign of life until then is given up."""
    return in_seconds(settings.RERAIL.timing.dataset_timeout)


def upload(job_id: int, by: User, incoming: Incoming) -> Dataset:
    """Store the dataset that a job waits for and queue the job.

    Raises Refused where the job does not wait for one (any more), TooLarge, StorageFailed, and Invalid for an empty
    file; nothing stays in storage then.
    """
    _refuse_size(incoming)
    begun = _begin(job_id)
    with _abandoned_on_error(begun):
        content = _store(begun, incoming)
        return _attach(begun, content, incoming.filename, by)


def share(by: User, incoming: Incoming) -> Dataset:
    """Store a dataset under the name in the field `name`, for everybody's jobs.

    Raises Invalid for a bad name or an empty file, Refused for a name that is taken, TooLarge and StorageFailed.
    """
    _refuse_size(incoming)
    begun = DatasetUpload.objects.create(folder=_new_folder())
    with _abandoned_on_error(begun):
        content = _store(begun, incoming)
        return _keep_shared(begun, content, incoming, by)


def expire(job_id: int) -> bool:
    """Fail a job whose dataset did not come in time; False where that is not so (any more). For the reaper."""
    seconds = settings.RERAIL.timing.dataset_timeout
    why = f"No dataset came for {seconds:g} s."
    reason = Reason.DATASET_TIMEOUT
    try:
        with transaction.atomic():
            transition.take(
                edge(Command.EXPIRE_DATASET, JobState.AWAITING_DATASET, JobState.FAILED),
                job_id=job_id,
                facts=[
                    Fact(kind=EventKind.DATASET_EXPIRED, message=why, reason=reason),
                    Fact(kind=EventKind.FAILED, message=why, reason=reason),
                ],
                actor=actors.REAPER,
                guard=Q(dataset_deadline__lt=Now()),
                job={"reason": reason.value, "message": why, "dataset_deadline": None},
            )
    except Refused:
        return False
    return True


def collect() -> int:
    """Remove what torn uploads left: those without a sign of life, and those whose job waits no more."""
    silent = Q(touched_at__lt=in_seconds(-settings.RERAIL.timing.dataset_timeout))
    unwanted = Q(job__isnull=False) & ~Q(job__state=JobState.AWAITING_DATASET.value)
    torn = Q(given_up=True) | silent | unwanted
    done = 0
    for pk, folder in DatasetUpload.objects.filter(torn).values_list("pk", "folder")[:COLLECTED_AT_ONCE]:
        # Given up for all to see, then removed from storage, then forgotten: what fails on the way is tried again.
        if DatasetUpload.objects.filter(torn, pk=pk).update(given_up=True) and datasets.remove(folder):
            done += DatasetUpload.objects.filter(pk=pk).delete()[0]
    return done


def _refuse_size(incoming: Incoming) -> None:
    """Refuse at once what says itself that it is too large; a multipart body may be a little larger than its file."""
    most = settings.RERAIL.max_dataset_bytes
    if incoming.declared_size is not None and incoming.declared_size > most + 1024**2:
        raise TooLarge(f"It is larger than {most // 1024**2} MiB, the most that is taken here.")


def _new_folder() -> str:
    return keys.dataset_folder(uuid.uuid4().hex)


def _begin(job_id: int) -> DatasetUpload:
    with transaction.atomic():
        _renew_job(job_id)
        return DatasetUpload.objects.create(job_id=job_id, folder=_new_folder())


def _renew_job(job_id: int) -> None:
    waiting = Job.objects.filter(pk=job_id, state=JobState.AWAITING_DATASET.value)
    if waiting.update(dataset_deadline=deadline()):
        return
    state = Job.objects.filter(pk=job_id).values_list("state", flat=True).first() or "gone"
    raise Refused(f"Job {job_id} does not wait for a dataset ({state.lower()}).")


def _store(begun: DatasetUpload, incoming: Incoming) -> Content:
    _give_connection_back()
    try:
        content = datasets.store(
            begun.folder, _watched(incoming.chunks(), lambda: _renew(begun)), settings.RERAIL.max_dataset_bytes
        )
    except StorageFailed:
        if begun.job_id is not None:
            _renew_job(begun.job_id)  # what the reaper took away in the middle was refused, not failed
        raise
    if not content.size:
        raise Invalid({"file": "The file is empty."})
    return content


def _watched(chunks: Iterable[bytes], renew: Callable[[], None]) -> Iterator[bytes]:
    """The chunks; `renew` is called at times while they come."""
    every = min(RENEW_SECONDS, settings.RERAIL.timing.dataset_timeout / 4)
    due = time.monotonic() + every
    for chunk in chunks:
        if time.monotonic() >= due:
            renew()
            due = time.monotonic() + every
        yield chunk


def _renew(begun: DatasetUpload) -> None:
    with transaction.atomic():
        if begun.job_id is not None:
            _renew_job(begun.job_id)
        DatasetUpload.objects.filter(pk=begun.pk).update(touched_at=Now())
    _give_connection_back()


def _give_connection_back() -> None:
    """A slow sender must not keep a database connection from everybody else."""
    if not connection.in_atomic_block:
        close_old_connections()


def _attach(begun: DatasetUpload, content: Content, filename: str, by: User) -> Dataset:
    job_id = begun.job_id
    assert job_id is not None
    with transaction.atomic():
        # The job's lock first, as everywhere.
        owner_id = Job.objects.select_for_update().values_list("owner_id", flat=True).get(pk=job_id)
        dataset = _kept(begun, content, filename, owner_id=owner_id)
        details = {"filename": filename, "size": content.size, "sha256": content.sha256}
        transition.take(
            edge(Command.ATTACH_DATASET, JobState.AWAITING_DATASET, JobState.QUEUED),
            job_id=job_id,
            facts=[
                Fact(
                    kind=EventKind.DATASET_UPLOADED,
                    message=f"{by.get_username()} uploaded {filename}, {content.size} bytes.",
                    details=details,
                ),
                Fact(kind=EventKind.QUEUED, message="Waiting for a free worker."),
            ],
            actor=actors.user(by),
            job={"dataset": dataset, "dataset_deadline": None, "queued_at": Now()},
        )
        dispatch.request()
    return dataset


def _keep_shared(begun: DatasetUpload, content: Content, incoming: Incoming, by: User) -> Dataset:
    name = incoming.fields.get("name", "")
    if not _NAME.fullmatch(name) or name == UPLOAD:
        wrong = f"A dataset's name has 1 to 200 letters, digits or any of . _ - and is not {UPLOAD}."
        raise Invalid({"name": wrong})
    try:
        with transaction.atomic():
            return _kept(begun, content, incoming.filename, owner_id=by.pk, name=name)
    except IntegrityError as error:
        raise Refused(f"There is a dataset named {name} already; names are given once.") from error


def _kept(begun: DatasetUpload, content: Content, filename: str, *, owner_id: int, name: str | None = None) -> Dataset:
    """The dataset's row in place of its upload's."""
    if not DatasetUpload.objects.filter(pk=begun.pk, given_up=False).delete()[0]:
        raise Refused("The upload was given up meanwhile; send it again.")
    return Dataset.objects.create(
        name=name,
        owner_id=owner_id,
        filename=filename,
        size=content.size,
        sha256=content.sha256,
        storage_key=content.key,
    )


@contextmanager
def _abandoned_on_error(begun: DatasetUpload) -> Iterator[None]:
    folder, pk = begun.folder, begun.pk
    try:
        yield
    except BaseException:
        try:
            # A commit whose answer was lost may have kept it.
            if DatasetUpload.objects.filter(pk=pk).exists() and datasets.remove(folder):
                DatasetUpload.objects.filter(pk=pk).delete()
            elif not Dataset.objects.filter(storage_key=keys.dataset_content(folder)).exists():
                datasets.remove(folder)
        except DatabaseError as error:
            logger.warning("What a torn upload left is collected later: %s", error)
        raise
