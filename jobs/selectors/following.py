"""What someone who follows a job wants to know next: where it stands, and its events after a number."""

from collections.abc import Sequence
from dataclasses import dataclass

from jobs.models import Execution, Job, MetricPoint
from jobs.selectors import events, logs
from jobs.selectors.events import EventView, Filter
from jobs.states import FINAL, JobState

BATCH = 500
TAIL_BYTES = 8 * 1024


@dataclass(frozen=True, kw_only=True)
class Look:
    """A job at one moment. `events` are those after the number that was asked for, at most BATCH of them."""

    job_id: int
    state: JobState
    message: str
    last_seq: int
    phase: str
    step: int | None
    total: int | None
    events: Sequence[EventView]

    @property
    def ended(self) -> bool:
        return self.state in FINAL


def look(job_id: int, after: int) -> Look | None:
    """The job now; None where there is none.

    The job is read before its events: so whoever holds every event up to `last_seq` has all that led to `state`.
    """
    job = Job.objects.filter(pk=job_id).select_related("current_execution__heartbeat").first()
    if job is None:
        return None
    execution = job.current_execution
    lease = getattr(execution, "heartbeat", None)
    return Look(
        job_id=job.pk,
        state=JobState(job.state),
        message=job.message,
        last_seq=job.last_seq,
        phase=execution.phase if execution else "",
        step=lease.step if lease else None,
        total=lease.total if lease else None,
        events=events.page(job, Filter(after=after), BATCH).items,
    )


def last_output(job_id: int, lines: int) -> tuple[str, list[str]]:
    """The latest execution that printed anything (empty if none did), and the last lines of it."""
    printed = Execution.objects.filter(job_id=job_id, log_bytes__gt=0).order_by("-number").first()
    if printed is None:
        return "", []
    tail = logs.read(printed, max(0, printed.log_bytes - TAIL_BYTES)).data
    return printed.label, tail.decode("utf-8", "replace").splitlines()[-lines:]


def last_value(job_id: int, key: str) -> float | None:
    """The latest value of a series in the latest execution that reported it."""
    points = MetricPoint.objects.filter(execution__job_id=job_id, key=key)
    return points.order_by("-execution__number", "-step", "-id").values_list("value", flat=True).first()
