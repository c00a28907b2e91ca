"""What a worker says of the execution it runs. Every write here is fenced by execution and process nonce."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import Case, F, FloatField, Value, When
from django.db.models.functions import Coalesce, Extract, Now

from jobs import actors, transition
from jobs.commands import lost_work
from jobs.commands.endings import Ending, end
from jobs.errors import Refused, Stale
from jobs.models import Execution, Heartbeat, Job
from jobs.sql import in_seconds, update_returning
from jobs.states import Command, EventKind, ExecutionState, JobState, Phase, Reason, edge
from jobs.timeline import Fact
from jobs.transition import Fence

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Lease:
    """An execution as its own process knows it."""

    execution_id: int
    nonce: UUID
    job_id: int
    label: str
    worker_name: str

    @property
    def fence(self) -> Fence:
        return Fence(execution_id=self.execution_id, nonce=self.nonce)

    @property
    def actor(self) -> str:
        return actors.worker(self.worker_name)


@dataclass(frozen=True, kw_only=True)
class Failure:
    """Why an attempt failed, as its worker saw it; `message` is one sentence."""

    reason: Reason
    message: str
    exit_code: int | None = None
    signal: int | None = None
    details: Mapping[str, Any] = field(default_factory=dict)


def start(lease: Lease) -> None:
    """Take the execution over for this process; repeating it with the same nonce succeeds silently.

    Raises Stale where the execution is not waiting to be started, or another process started it.
    """
    try:
        with transaction.atomic():
            transition.take(
                edge(Command.START, JobState.ASSIGNED, JobState.RUNNING),
                job_id=lease.job_id,
                facts=[
                    Fact(
                        kind=EventKind.STARTED,
                        message=f"Started on worker {lease.worker_name}.",
                        execution_id=lease.execution_id,
                        details={"worker": lease.worker_name, "phase": Phase.PREPARING.value},
                    )
                ],
                actor=lease.actor,
                fence=lease.fence,
                execution={
                    "nonce": lease.nonce,
                    "started_at": Now(),
                    "phase": Phase.PREPARING.value,
                    "phase_since": Now(),
                },
            )
            Heartbeat.objects.filter(execution_id=lease.execution_id).update(
                nonce=lease.nonce, beat_at=Now(), expires_at=in_seconds(settings.RERAIL.timing.lease)
            )
    except Stale:
        if not _is_mine(lease, [ExecutionState.RUNNING]):
            raise


def change_phase(lease: Lease, phase: Phase) -> None:
    """Say that another phase began; time spent in `training` is kept for the time limit.

    With `training` begins the work that an earlier attempt did in vain: how much is known by then.
    """
    lost = {"lost_work_seconds": lost_work.seconds(lease.execution_id)} if phase is Phase.TRAINING else {}
    in_phase = Extract(Now() - F("phase_since"), "epoch", output_field=FloatField())
    trained = F("training_seconds") + Coalesce(in_phase, Value(0.0))
    with transaction.atomic():
        transition.note(
            job_id=lease.job_id,
            facts=[
                Fact(
                    kind=EventKind.PHASE_CHANGED,
                    message=_PHASE_SENTENCES[phase],
                    execution_id=lease.execution_id,
                    details={"phase": phase.value},
                )
            ],
            actor=lease.actor,
            fence=lease.fence,
            execution={
                "training_seconds": Case(When(phase=Phase.TRAINING.value, then=trained), default="training_seconds"),
                "phase": phase.value,
                "phase_since": Now(),
                **lost,
            },
        )


_PHASE_SENTENCES = {
    Phase.PREPARING: "Preparing the script and its environment.",
    Phase.DOWNLOADING: "Downloading the dataset.",
    Phase.RESTORING: "Restoring the checkpoint.",
    Phase.TRAINING: "Training.",
    Phase.PUBLISHING: "Publishing what it left in output/.",
}


def beat(lease: Lease) -> Reason | None:
    """Renew the lease by one statement; returns why the script must stop, if it must.

    Raises Stale where the execution is no longer this process's.
    """
    rows = update_returning(
        Heartbeat.objects.filter(execution_id=lease.execution_id, nonce=lease.nonce),
        ["stop_reason"],
        beat_at=Now(),
        expires_at=in_seconds(settings.RERAIL.timing.lease),
    )
    if not rows:
        raise Stale(f"Execution {lease.label} is not this process's any more.")
    return Reason(rows[0][0]) if rows[0][0] else None


def time_limit_reached(lease: Lease, seconds: float) -> None:
    """Say that the script has trained for as long as it may and is being stopped."""
    with transaction.atomic():
        transition.note(
            job_id=lease.job_id,
            facts=[
                Fact(
                    kind=EventKind.TIME_LIMIT_REACHED,
                    message=f"It has trained for its {seconds:g} s; the script is asked to save and stop.",
                    reason=Reason.TIME_LIMIT,
                    execution_id=lease.execution_id,
                    details={"time_limit_seconds": seconds},
                )
            ],
            actor=lease.actor,
            fence=lease.fence,
            # Whoever asked first is why it stops: a cancel is not turned into a failure that may be retried.
            execution={
                "stop_requested_at": Coalesce("stop_requested_at", Now()),
                "stop_reason": Case(When(stop_reason="", then=Value(Reason.TIME_LIMIT.value)), default="stop_reason"),
            },
        )


def succeed(lease: Lease) -> None:
    """Say that the script ended well and its output is published."""

    def take() -> None:
        transition.take(
            edge(Command.SUCCEED, JobState.RUNNING, JobState.SUCCEEDED),
            job_id=lease.job_id,
            facts=[
                Fact(
                    kind=EventKind.SUCCEEDED,
                    message=f"Succeeded in attempt {lease.label}.",
                    execution_id=lease.execution_id,
                    details={"exit_code": 0},
                )
            ],
            actor=lease.actor,
            fence=lease.fence,
            job={"reason": "", "message": "", "attempts_used": F("attempts_used") + 1},
            execution={"exit_code": 0, "charged": True},
        )

    _finish(lease, take, ExecutionState.SUCCEEDED, "succeeded")


def fail(lease: Lease, failure: Failure) -> None:
    """Say that the attempt failed; its job is retried by its policy."""
    ending = Ending(
        command=Command.FAIL,
        cause=EventKind.EXECUTION_FAILED,
        reason=failure.reason,
        message=failure.message,
        columns={"exit_code": failure.exit_code, "signal": failure.signal},
        details=_exit_details(failure),
    )
    outcome = f"failed ({failure.reason.value})"
    _finish(lease, lambda: end(lease.fence, ending, lease.actor), ExecutionState.FAILED, outcome)


def _exit_details(failure: Failure) -> dict[str, Any]:
    exits = {"exit_code": failure.exit_code, "signal": failure.signal}
    return {name: value for name, value in exits.items() if value is not None} | dict(failure.details)


def stop(lease: Lease, *, exit_code: int | None = None, signal: int | None = None) -> None:
    """Say that the script was stopped because its job was to be cancelled, and that nothing of it runs any more."""

    def take() -> None:
        transition.take(
            edge(Command.STOP, JobState.RUNNING, JobState.CANCELLED),
            job_id=lease.job_id,
            facts=[
                Fact(
                    kind=EventKind.CANCELLED,
                    message=f"Cancelled; attempt {lease.label} was stopped.",
                    reason=Reason.CANCELLED,
                    execution_id=lease.execution_id,
                )
            ],
            actor=lease.actor,
            fence=lease.fence,
            job={
                "reason": Reason.CANCELLED.value,
                "message": "Cancelled.",
                "attempts_used": F("attempts_used") + 1,
            },
            execution={
                "reason": Reason.CANCELLED.value,
                "message": "Stopped, as requested.",
                "charged": True,
                "exit_code": exit_code,
                "signal": signal,
            },
        )

    _finish(lease, take, ExecutionState.CANCELLED, "cancelled")


def release(lease: Lease) -> None:
    """Hand the execution back because its worker is being shut down; charges no attempt."""
    ending = Ending(
        command=Command.RELEASE,
        cause=EventKind.RELEASED,
        reason=Reason.DRAINED,
        message=f"Worker {lease.worker_name} is shutting down and handed it back.",
    )
    _finish(lease, lambda: end(lease.fence, ending, lease.actor), ExecutionState.RELEASED, "handed back")


def crashed(execution_id: int, worker_name: str, message: str) -> bool:
    """The worker's parent says that its execution process is gone; returns whether that ended an active execution.

    An execution that was ASSIGNED and never started is lost without charge.
    """
    ending = Ending(command=Command.LOSE, cause=EventKind.WORKER_CRASHED, reason=Reason.WORKER_CRASHED, message=message)
    try:
        with transaction.atomic():
            end(Fence(execution_id=execution_id), ending, actors.worker(worker_name))
    except Refused:
        return False
    return True


def _finish(lease: Lease, take: Callable[[], object], state: ExecutionState, outcome: str) -> None:
    """Report an end, in `state`; repeated by the same process it succeeds silently, a late one is refused and recorded.

    Only the same end is a repetition: a success after the reaper ended the execution otherwise is a late result.
    """
    try:
        with transaction.atomic():
            take()
    except Refused:
        if not _is_mine(lease, [state]):
            _record_refusal(lease, outcome)
            raise


def _is_mine(lease: Lease, states: Sequence[ExecutionState]) -> bool:
    return Execution.objects.filter(
        pk=lease.execution_id, nonce=lease.nonce, state__in=[state.value for state in states]
    ).exists()


def _record_refusal(lease: Lease, outcome: str) -> None:
    """Tell once per execution that it came back with a result too late: its own process alone, and after its end."""
    with transaction.atomic():
        if not Job.objects.select_for_update().filter(pk=lease.job_id).values_list("pk").first():
            return  # removed meanwhile
        ended = Execution.objects.filter(pk=lease.execution_id, nonce=lease.nonce, finished_at__isnull=False)
        if not ended.filter(result_refused_at__isnull=True).update(result_refused_at=Now()):
            return
        transition.note(
            job_id=lease.job_id,
            facts=[
                Fact(
                    kind=EventKind.RESULT_REFUSED,
                    message=f"Attempt {lease.label} came back too late and said it {outcome}; nothing was changed.",
                    execution_id=lease.execution_id,
                    details={"outcome": outcome},
                )
            ],
            actor=lease.actor,
        )
