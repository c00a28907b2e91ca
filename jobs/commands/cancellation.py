"""Cancelling jobs."""

from typing import Any

from django.contrib.auth.models import AbstractBaseUser
from django.db import transaction
from django.db.models.functions import Now

from jobs import actors, dispatch, transition
from jobs.errors import Refused
from jobs.models import Execution, Heartbeat, Job
from jobs.states import FINAL, Command, EventKind, JobState, Reason, edge
from jobs.timeline import Fact
from jobs.transition import Fence


def cancel(job_id: int, by: AbstractBaseUser) -> JobState:
    """Cancel a waiting job at once, or ask a running one to stop; returns the job's state afterwards.

    Asking again for a running job that is already being stopped changes nothing. Raises Refused for an ended job.
    """
    with transaction.atomic():
        job = Job.objects.select_for_update().get(pk=job_id)
        state = JobState(job.state)
        if state in FINAL:
            raise Refused(f"Job {job_id} has already ended ({state.value.lower()}); there is nothing to cancel.")
        if state is not JobState.RUNNING:
            _cancel_waiting(job, state, by)
            dispatch.request()
            return JobState.CANCELLED
        if job.cancel_requested_at is None:
            _request_stop(job, by)
        return JobState.RUNNING


def _cancel_waiting(job: Job, state: JobState, by: AbstractBaseUser) -> None:
    execution_id = job.current_execution_id
    message = f"Cancelled by {by.get_username()} before it started."
    transition.take(
        edge(Command.CANCEL, state, JobState.CANCELLED),
        job_id=job.pk,
        facts=[Fact(kind=EventKind.CANCELLED, message=message, reason=Reason.CANCELLED, execution_id=execution_id)],
        actor=actors.user(by),
        fence=Fence(execution_id=execution_id) if execution_id else None,
        job=_ended("Cancelled."),
        execution=_ended(message),
    )


def _ended(message: str) -> dict[str, Any]:
    return {"reason": Reason.CANCELLED.value, "message": message}


def _request_stop(job: Job, by: AbstractBaseUser) -> None:
    execution_id = job.current_execution_id
    transition.take(
        edge(Command.CANCEL, JobState.RUNNING, JobState.RUNNING),
        job_id=job.pk,
        facts=[
            Fact(
                kind=EventKind.CANCEL_REQUESTED,
                message=f"{by.get_username()} asked to cancel it; the script is asked to save and stop.",
                execution_id=execution_id,
            )
        ],
        actor=actors.user(by),
        job={"cancel_requested_at": Now()},
    )
    assert execution_id is not None, "a running job has a current execution"
    Execution.objects.filter(pk=execution_id).update(stop_requested_at=Now(), stop_reason=Reason.CANCELLED.value)
    Heartbeat.objects.filter(execution_id=execution_id).update(stop_reason=Reason.CANCELLED.value)
