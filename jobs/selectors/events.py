"""Timelines as people see them."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db.models import OuterRef, QuerySet, Subquery

from jobs.errors import Invalid
from jobs.models import Event, Execution, Job
from jobs.selectors import executions, pages
from jobs.selectors.pages import Page
from jobs.states import EventKind


@dataclass(frozen=True, kw_only=True)
class EventView:
    """A fact of a job's timeline, for the API, the pages and the sockets."""

    seq: int
    job_id: int
    execution: str | None
    kind: str
    message: str
    reason: str | None
    details: Mapping[str, Any]
    actor: str
    at: datetime
    recorded_at: datetime


@dataclass(frozen=True, kw_only=True)
class Filter:
    """Which events of a job: those after a number, of one execution (its number), of some kinds."""

    after: int = 0
    execution: int | None = None
    kinds: Collection[EventKind] = field(default_factory=frozenset)


def page(job: Job, wanted: Filter, limit: int) -> Page[EventView]:
    """Events in order; `next` is the number of the last one, to be given as `after`."""
    found = _matching(job, wanted).select_related("execution").order_by("seq")[: limit + 1]
    rows = list(found)
    following = str(rows[limit - 1].seq) if len(rows) > limit else None
    return Page(items=[view(event) for event in rows[:limit]], next=following)


def latest_per_execution(job: Job, wanted: Filter, limit: int, cursor: str | None = None) -> Page[EventView]:
    """The latest matching event of each execution, by the executions' numbers."""
    latest = _matching(job, wanted).filter(execution=OuterRef("pk")).order_by("-seq").values("pk")[:1]
    attempts = Execution.objects.filter(job=job).annotate(event_id=Subquery(latest)).filter(event_id__isnull=False)
    if after := pages.decode(cursor, int):
        attempts = attempts.filter(number__gt=after[0])
    rows = pages.cut(attempts.order_by("number")[: limit + 1], limit, key=lambda attempt: [attempt.number])
    chosen = [attempt.event_id for attempt in rows.items]
    events = Event.objects.select_related("execution").in_bulk(chosen)
    return Page(items=[view(events[pk]) for pk in chosen], next=rows.next)


def number_in(cursor: str | None) -> int:
    """The number of an event in a cursor of `page`; raises Invalid."""
    if cursor is None:
        return 0
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) < 19):
        raise Invalid({"cursor": "This is no cursor of a timeline; it is an event's number."})
    return int(cursor)


def execution_number(job: Job, label: str | None) -> int | None:
    """The number in an execution's label (`1042.3`, or `3` alone) of this job; raises Invalid."""
    if label is None:
        return None
    job_id, number = executions.parse(label if "." in label else f"{job.pk}.{label}") or (None, 0)
    if job_id != job.pk:
        raise Invalid({"execution": f"This is not an execution of job {job.pk}; they are written like {job.pk}.1."})
    return number


def _matching(job: Job, wanted: Filter) -> QuerySet[Event]:
    found = Event.objects.filter(job=job, seq__gt=wanted.after)
    if wanted.execution is not None:
        # By its id rather than by a join: the index is on execution and number of the event.
        attempt = Execution.objects.filter(job=job, number=wanted.execution).values("pk")
        found = found.filter(execution=Subquery(attempt))
    return found.filter(kind__in=sorted(wanted.kinds)) if wanted.kinds else found


def view(event: Event) -> EventView:
    """What people see of an event."""
    return EventView(
        seq=event.seq,
        job_id=event.job_id,
        execution=event.execution.label if event.execution else None,
        kind=event.kind,
        message=event.message,
        reason=event.reason or None,
        details=event.details,
        actor=event.actor,
        at=event.at,
        recorded_at=event.recorded_at,
    )
