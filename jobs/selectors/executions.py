"""Executions as people see them."""

import re
from dataclasses import dataclass
from datetime import datetime

from django.db.models import QuerySet

from jobs.errors import NotFound
from jobs.models import Execution, Job
from jobs.selectors import access, pages
from jobs.selectors.access import Person
from jobs.selectors.pages import Page

_LABEL = re.compile(r"([0-9]{1,19})\.([0-9]{1,10})")


@dataclass(frozen=True, kw_only=True)
class Recovery:
    """What getting over the loss of the attempt before cost, each part in seconds; null until known."""

    detect_seconds: float | None
    queue_seconds: float | None
    restore_seconds: float | None
    first_step_seconds: float | None


@dataclass(frozen=True, kw_only=True)
class ExecutionView:
    """One attempt, for the API and the pages."""

    id: str
    number: int
    state: str
    phase: str | None
    worker: str
    reason: str | None
    message: str | None
    exit_code: int | None
    assigned_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    resumed_from: str | None
    charged: bool
    lost_work_seconds: float | None
    recovery: Recovery


def parse(label: str) -> tuple[int, int] | None:
    """Job and number in a label such as `1042.3`; None where it is none."""
    match = _LABEL.fullmatch(label)
    return (int(match[1]), int(match[2])) if match else None


def page(job: Job, limit: int, cursor: str | None = None) -> Page[ExecutionView]:
    """The executions of a job, the first one first."""
    found = rows().filter(job=job).order_by("number")
    if after := pages.decode(cursor, int):
        found = found.filter(number__gt=after[0])
    return pages.cut(found[: limit + 1], limit, key=lambda execution: [execution.number]).map(view)


def get(person: Person, label: str) -> Execution:
    """The execution written `label`; raises NotFound, also where `person` may not see its job."""
    execution = None
    if parts := parse(label):
        job_id, number = parts
        visible = access.visible_jobs(person).filter(pk=job_id)
        execution = rows().filter(job__in=visible, number=number).first()
    if execution is None:
        raise NotFound("There is no such execution.")
    return execution


def rows() -> QuerySet[Execution]:
    """Executions with what `view` reads of other tables."""
    return Execution.objects.select_related("resumed_from")


def view(execution: Execution) -> ExecutionView:
    """What people see of an execution."""
    return ExecutionView(
        id=execution.label,
        number=execution.number,
        state=execution.state,
        phase=execution.phase or None,
        worker=execution.worker_name,
        reason=execution.reason or None,
        message=execution.message or None,
        exit_code=execution.exit_code,
        assigned_at=execution.assigned_at,
        started_at=execution.started_at,
        finished_at=execution.finished_at,
        resumed_from=execution.resumed_from.label if execution.resumed_from else None,
        charged=execution.charged,
        lost_work_seconds=execution.lost_work_seconds,
        recovery=Recovery(
            detect_seconds=execution.detect_seconds,
            queue_seconds=execution.queue_seconds,
            restore_seconds=execution.restore_seconds,
            first_step_seconds=execution.first_step_seconds,
        ),
    )
