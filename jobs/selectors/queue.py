"""The queue in dispatch order, and why each worker does not take what is in it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Case, Count, IntegerField, Q, QuerySet, Value, When

from jobs.models import Installation, Job
from jobs.models.choices import values
from jobs.selectors import access, jobs, pages, waiting
from jobs.selectors.access import Person
from jobs.selectors.jobs import JobView
from jobs.selectors.pages import Page, Part
from jobs.selectors.waiting import Situation
from jobs.states import HELD, JobState


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Why a worker does not take a job now; null where nothing speaks against it."""

    name: str
    why: str | None


@dataclass(frozen=True, kw_only=True)
class QueuedJob(JobView):
    """A job in the queue, with what each worker says to it."""

    workers: Sequence[Verdict]


def is_paused() -> bool:
    """Whether nothing is assigned until an operator resumes the queue."""
    return Installation.objects.filter(queue_paused_at__isnull=False).exists()


def page(person: Person, limit: int, cursor: str | None = None) -> Page[QueuedJob]:
    """The queued jobs that `person` may see, in the order in which free workers would take them."""
    queued = _in_order(access.visible_jobs(person))
    if place := pages.decode(cursor, *_PLACE):
        queued = queued.filter(_after(*place))
    # What is sorted are places alone; only the page's jobs are read whole.
    places = queued.values_list("priority", "running", "queued_at", "pk")  # type: ignore[misc]  # annotated
    found = pages.cut(places[: limit + 1], limit, key=lambda place: place)
    still_queued = jobs.rows().filter(pk__in=[place[-1] for place in found.items], state=JobState.QUEUED.value)
    by_id = {job.pk: job for job in still_queued}
    chosen = [by_id[pk] for *_, pk in found.items if pk in by_id]
    now = waiting.situation(chosen)
    return Page(items=[_view(job, now) for job in chosen], next=found.next)


def _in_order(found: QuerySet[Job]) -> QuerySet[Job]:
    """Priority, then owners with fewer jobs on workers, then who has waited longest; as `dispatch` has it."""
    held = Job.objects.filter(state__in=values(HELD)).order_by().values("owner_id").annotate(number=Count("pk"))
    running = [When(owner_id=owner, then=Value(number)) for owner, number in held.values_list("owner_id", "number")]
    found = found.annotate(running=Case(*running, default=Value(0), output_field=IntegerField()))
    return found.filter(state=JobState.QUEUED.value).order_by("-priority", "running", "queued_at", "pk")


_PLACE: tuple[type[Part], ...] = (int, int, datetime, int)


def _after(priority: int, running: int, queued_at: datetime, pk: int) -> Q:
    same = Q(priority=priority)
    as_many = same & Q(running=running)
    return (
        Q(priority__lt=priority)
        | (same & Q(running__gt=running))
        | (as_many & Q(queued_at__gt=queued_at))
        | (as_many & Q(queued_at=queued_at, pk__gt=pk))
    )


def _view(job: Job, now: Situation) -> QueuedJob:
    verdicts = [Verdict(name=worker.name, why=waiting.against(worker, job, now)) for worker in now.workers]
    return QueuedJob(**vars(jobs.view(job, now)), workers=verdicts)
