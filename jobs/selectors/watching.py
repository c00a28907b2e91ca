"""What the dashboard's pages read beyond the API's calls: newest first, and cheap to ask again every two seconds."""

from collections.abc import Sequence
from dataclasses import dataclass

from jobs.errors import NotFound
from jobs.models import Event, Execution, Job
from jobs.selectors import access, events, executions, filters, jobs
from jobs.selectors.access import Person
from jobs.selectors.events import EventView
from jobs.selectors.executions import ExecutionView
from jobs.selectors.filters import Filter
from jobs.selectors.jobs import JobView

NEWER_COUNTED = 99
ATTEMPTS_SHOWN = 30


@dataclass(frozen=True, kw_only=True)
class Pulse:
    """What changes whenever something about a job does, read by one statement."""

    last_seq: int
    attempt: int
    log_bytes: int
    step: int | None


@dataclass(frozen=True, kw_only=True)
class Watched:
    """A job as its page needs it: the row, what people see of it, and its latest execution with the lease."""

    job: Job
    view: JobView
    latest: Execution | None


def pulse(person: Person, job_id: int) -> Pulse:
    """Whether a job's page is still true; raises NotFound, also where `person` may not see it."""
    visible = access.visible_jobs(person).filter(pk=job_id).values("pk")
    columns = ("last_seq", "attempt", "latest__log_bytes", "latest__step", "latest__heartbeat__step")
    found = jobs.rows().filter(pk__in=visible).values_list(*columns).first()
    if found is None:
        raise NotFound(f"There is no job {job_id}.")
    last_seq, attempt, log_bytes, ended_at, step = found
    return Pulse(last_seq=last_seq, attempt=attempt, log_bytes=log_bytes or 0, step=ended_at if step is None else step)


def job(person: Person, job_id: int) -> Watched:
    """A job for its page; raises NotFound, also where `person` may not see it."""
    row = jobs.rows().filter(pk__in=access.visible_jobs(person).filter(pk=job_id).values("pk")).first()
    if row is None:
        raise NotFound(f"There is no job {job_id}.")
    return Watched(job=row, view=jobs.views([row])[0], latest=getattr(row, "latest", None))


def listed(person: Person, ids: Sequence[int]) -> list[JobView]:
    """Those of the jobs `ids` that a person may see, newest first."""
    visible = access.visible_jobs(person).filter(pk__in=ids).values("pk")
    return jobs.views(list(jobs.rows().filter(pk__in=visible).order_by("-pk")))


def newer(person: Person, wanted: Filter, than: int) -> int:
    """How many jobs came after job `than` that `wanted` lets through; counted up to NEWER_COUNTED."""
    since = access.visible_jobs(person).filter(pk__gt=than)
    return len(filters.narrowed(since, wanted, NEWER_COUNTED).items)


def attempts(job: Job) -> list[ExecutionView]:
    """The latest executions of a job, newest first."""
    found = executions.rows().filter(job=job).order_by("-number")[:ATTEMPTS_SHOWN]
    return [executions.view(execution) for execution in found]


def recent_events(job: Job, limit: int, before: int | None = None) -> list[EventView]:
    """The last `limit` events of a job, or the last before number `before`; in their order."""
    found = Event.objects.filter(job=job).select_related("execution").order_by("-seq")
    if before is not None:
        found = found.filter(seq__lt=before)
    return [events.view(event) for event in reversed(found[:limit])]
