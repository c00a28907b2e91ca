"""Deadlines that pass without waiting: the clock that counts is the database's, and so they are moved there."""

from jobs.models import Job
from tests import database


def overdue(job: Job | None = None, seconds: int = 60) -> None:
    """Let the deadline of a job's execution pass; of every one, when none is named."""
    database.execute(
        "UPDATE jobs_heartbeat h SET expires_at = statement_timestamp() - make_interval(secs => %s)"
        " FROM jobs_execution e WHERE e.id = h.execution_id AND (%s::bigint IS NULL OR e.job_id = %s)",
        seconds,
        job and job.pk,
        job and job.pk,
    )


def kinds(job: Job, last: int) -> list[str]:
    return [*job.events.values_list("kind", flat=True)][-last:]
