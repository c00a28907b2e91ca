"""Why a job waits, in one sentence for people."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from django.conf import settings
from django.db.models import Count
from django.db.models.functions import Now

from jobs.models import Installation, Job, Worker, WorkerExclusion
from jobs.models.choices import values
from jobs.selectors import workers
from jobs.selectors.workers import WorkerState
from jobs.states import HELD, WAITING, JobState

_TAKING = frozenset({WorkerState.IDLE, WorkerState.BUSY})


@dataclass(frozen=True, kw_only=True)
class Situation:
    """What decides whether queued jobs get a worker, read once for many of them."""

    paused: bool = False
    workers: Sequence[Worker] = ()
    excluded: Collection[tuple[int, int]] = frozenset()
    """Pairs of a job and a worker that may not run it."""
    held: Mapping[int, int] = field(default_factory=dict)
    """How many jobs of an owner have a worker; counted only where that is limited."""


def situation(jobs: Sequence[Job]) -> Situation:
    """Read what the sentences of `jobs` need: nothing where none of them is queued."""
    queued = [job for job in jobs if job.state == JobState.QUEUED]
    if not queued:
        return Situation()
    exclusions = WorkerExclusion.objects.filter(job__in=[job.pk for job in queued]).exclude(until__lt=Now())
    return Situation(
        paused=Installation.objects.filter(queue_paused_at__isnull=False).exists(),
        workers=list(workers.rows()),
        excluded=frozenset(exclusions.values_list("job_id", "worker_id")),
        held=_held({job.owner_id for job in queued}),
    )


def _held(owners: Collection[int]) -> Mapping[int, int]:
    if settings.RERAIL.max_running_per_owner is None:
        return {}
    held = Job.objects.filter(owner_id__in=owners, state__in=values(HELD)).order_by().values("owner_id")
    return dict(held.annotate(number=Count("pk")).values_list("owner_id", "number"))


def sentence(job: Job, worker: str | None, now: Situation) -> str | None:
    """Why `job`, a row of `jobs.selectors.jobs.rows` that `worker` may have, waits; None where it does not."""
    if job.state not in WAITING:
        return None
    if job.state == JobState.AWAITING_DATASET:
        return "Its dataset has not been uploaded yet."
    if job.state == JobState.QUEUED:
        return _in_queue(job, now)
    if job.state == JobState.PENDING_REVIEW:
        return f"An operator must approve it for worker {worker}."
    return f"Assigned to worker {worker}, which has not started it yet."


def _in_queue(job: Job, now: Situation) -> str:
    if now.paused:
        return "The queue is paused."
    if job.not_before and getattr(job, "backing_off", False):
        return f"Backing off until {job.not_before:%H:%M:%S} UTC before attempt {job.pk}.{job.attempt + 1}."
    limit = settings.RERAIL.max_running_per_owner
    if limit is not None and now.held.get(job.owner_id, 0) >= limit:
        return f"Its owner has {limit} jobs on workers, as many as one may have at a time."
    return _for_want_of_a_worker(job, now)


def _for_want_of_a_worker(job: Job, now: Situation) -> str:
    states = {worker.pk: workers.state_of(worker) for worker in now.workers}
    online = [worker for worker in now.workers if states[worker.pk] is not WorkerState.OFFLINE]
    if not online:
        return "No worker is online."
    fitting = {states[worker.pk] for worker in online if unfit(worker, job, now) is None}
    if not fitting:
        return "No worker that is online has what it asks for."
    if WorkerState.IDLE in fitting:
        return "It is about to be handed to a worker."
    return "All workers that fit are busy." if fitting & _TAKING else "No worker that fits takes jobs at the moment."


def against(worker: Worker, job: Job, now: Situation) -> str | None:
    """Why a worker does not take `job` now, in a few words; None where nothing speaks against it."""
    state = workers.state_of(worker)
    if state not in _TAKING:
        return state.value.lower()
    if why := unfit(worker, job, now):
        return why
    return f"busy with {worker.occupied_by.label}" if worker.occupied_by else None


def unfit(worker: Worker, job: Job, now: Situation) -> str | None:
    """Why a worker could not run `job` even if it were free; None where it could."""
    for wanted, offered, unit in (
        (job.gpus, worker.gpus, "GPUs"),
        (job.gpu_memory_mb, worker.gpu_memory_mb, "MB of memory per GPU"),
        (job.ram_mb, worker.ram_mb, "MB of memory"),
        (job.disk_mb, worker.disk_mb, "MB of disk"),
    ):
        if wanted > offered:
            return f"it has {offered} of the {wanted} {unit} asked for"
    lacking = sorted(f"{key}={value}" for key, value in job.worker_labels.items() if worker.labels.get(key) != value)
    if lacking:
        return f"it does not carry {', '.join(lacking)}"
    return "it is excluded for this job" if (job.pk, worker.pk) in now.excluded else None
