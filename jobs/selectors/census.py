"""How much of everything there is, counted at a cost that has a bound."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from django.db.models import F
from django.db.models.functions import Now

from jobs.models import Job, Priority
from jobs.selectors import queue, workers
from jobs.selectors.workers import WorkerState
from jobs.states import FINAL, JobState

COUNTED = 100_000
"""Where counting a state stops."""


@dataclass(frozen=True, kw_only=True)
class Census:
    """Jobs that have not ended and workers, by state; the queue's oldest job in seconds."""

    jobs: Mapping[str, int]
    workers: Mapping[str, int]
    oldest_queued_seconds: float
    queue_paused: bool


def take() -> Census:
    """Count; ended jobs are left out, since their number has no bound."""
    states = Counter(workers.state_of(worker).value for worker in workers.rows())
    return Census(
        jobs={state.value: _count(state) for state in JobState if state not in FINAL},
        workers={state.value: states[state.value] for state in WorkerState},
        oldest_queued_seconds=_oldest(),
        queue_paused=queue.is_paused(),
    )


def _count(state: JobState) -> int:
    return Job.objects.filter(state=state.value)[:COUNTED].count()


def _oldest() -> float:
    """Seconds that the job longest in the queue has waited, found at the front of each priority's stretch."""
    queued = Job.objects.filter(state=JobState.QUEUED.value).annotate(age=Now() - F("queued_at"))
    fronts = [queued.filter(priority=priority).order_by("queued_at", "pk").first() for priority in Priority]
    return max((front.age.total_seconds() for front in fronts if front), default=0.0)
