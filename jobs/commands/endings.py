"""How an attempt's end becomes its job's: shared by workers' reports, reviewers and the reaper's findings."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db.models import F
from django.db.models.functions import Now

from jobs import dispatch, retry, transition
from jobs.errors import Stale
from jobs.models import Execution, Job, Worker, WorkerMode
from jobs.states import (
    UNSTARTED_BEFORE_GIVING_UP,
    UNSTARTED_BEFORE_QUARANTINE,
    Command,
    EventKind,
    ExecutionState,
    JobState,
    Reason,
    edge,
    edges,
)
from jobs.timeline import Fact
from jobs.transition import Fence

_HANDED_BACK = frozenset({Command.RELEASE, Command.REJECT, Command.EXPIRE_REVIEW})
"""Commands that end an attempt without blame: the job is requeued whatever its retry policy."""


@dataclass(frozen=True, kw_only=True)
class Ending:
    """Why an attempt did not succeed: `message` is one sentence, `columns` go to the execution's row."""

    command: Command
    cause: EventKind
    reason: Reason
    message: str
    columns: Mapping[str, Any] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)


def end(fence: Fence, ending: Ending, actor: str) -> JobState:
    """End an active execution without success and send its job where its retry policy says; returns that state.

    Runs inside the caller's transaction. Raises Stale where the execution is not the current one, or the table has no
    such end for it.
    """
    job = _locked_job(fence)
    started = job.state == JobState.RUNNING
    unstarted = _is_unstarted(job, ending)
    if unstarted:
        ending = _given_up(job, ending)
    if not edges(ending.command, JobState(job.state)):
        raise Stale(f"Attempt {job.pk}.{job.attempt} is {job.state.lower()}; that can't be said of it.")
    verdict = _verdict(job, ending, started=started)
    target = _target(job, verdict)
    transition.take(
        edge(ending.command, JobState(job.state), target),
        job_id=job.pk,
        facts=_facts(job, fence, ending, verdict, target),
        actor=actor,
        fence=fence,
        job=_job_columns(job, ending, verdict, target, unstarted=unstarted),
        execution={
            "reason": ending.reason.value,
            "message": ending.message,
            "charged": verdict.charged,
            **ending.columns,
        },
    )
    if unstarted:
        _count_against_worker(fence, f"{job.pk}.{job.attempt}")
    if target is JobState.QUEUED:
        dispatch.request()
    return target


def _locked_job(fence: Fence) -> Any:
    """The job whose current execution is the fenced one, its row locked, with the database's time as `now`."""
    rows = Job.objects.select_for_update().filter(current_execution=fence.execution_id)
    job = rows.annotate(now=Now()).first()
    if job is None:
        raise Stale("That execution is not its job's current one any more.")
    return job


def _is_unstarted(job: Job, ending: Ending) -> bool:
    """Whether a worker had it and did not bring it to its start, by silence or by a crash."""
    failed_to = ending.reason is Reason.NEVER_STARTED or ending.command is Command.LOSE
    return job.state == JobState.ASSIGNED and failed_to


def _given_up(job: Job, ending: Ending) -> Ending:
    unstarted = job.unstarted_in_row + 1
    if unstarted < UNSTARTED_BEFORE_GIVING_UP:
        return ending
    message = f"No worker started it in {unstarted} tries in a row; the last was {job.pk}.{job.attempt}."
    return replace(ending, command=Command.GIVE_UP, reason=Reason.NEVER_STARTED, message=message)


def _count_against_worker(fence: Fence, label: str) -> None:
    workers = Worker.objects.filter(executions=fence.execution_id)
    workers.update(unstarted_in_row=F("unstarted_in_row") + 1)
    reason = f"It did not start {UNSTARTED_BEFORE_QUARANTINE} executions in a row, {label} the last of them."
    workers.filter(unstarted_in_row__gte=UNSTARTED_BEFORE_QUARANTINE, mode=WorkerMode.ACTIVE).update(
        mode=WorkerMode.QUARANTINED, mode_reason=reason
    )


def _verdict(job: Job, ending: Ending, *, started: bool) -> retry.Verdict:
    if ending.command in _HANDED_BACK:
        return retry.Verdict(retry=True, charged=False)
    if ending.command is Command.GIVE_UP:
        return retry.Verdict(retry=False, charged=False)
    timing = settings.RERAIL.timing
    budget = retry.Budget(max_attempts=job.max_attempts, used=job.attempts_used, retry_on=frozenset(job.retry_on))
    return retry.judge(
        budget, ending.reason, started=started, base=timing.retry_backoff, limit=timing.retry_backoff_limit
    )


def _target(job: Job, verdict: retry.Verdict) -> JobState:
    if (verdict.retry or verdict.exhausted) and job.cancel_requested_at:
        return JobState.CANCELLED
    return JobState.QUEUED if verdict.retry else JobState.FAILED


def _job_columns(
    job: Any, ending: Ending, verdict: retry.Verdict, target: JobState, *, unstarted: bool
) -> dict[str, Any]:
    columns: dict[str, Any] = {}
    if verdict.charged:
        columns["attempts_used"] = F("attempts_used") + 1
    if unstarted:
        columns["unstarted_in_row"] = F("unstarted_in_row") + 1
    if target is JobState.QUEUED:
        return columns | {"not_before": _not_before(job, verdict)}
    if target is JobState.CANCELLED:
        return columns | {"reason": Reason.CANCELLED.value, "message": "Cancelled."}
    if verdict.exhausted:
        return columns | {"reason": Reason.ATTEMPTS_EXHAUSTED.value, "message": _every_reason(job, ending)}
    return columns | {"reason": ending.reason.value, "message": ending.message}


def _not_before(job: Any, verdict: retry.Verdict) -> Any:
    return job.now + timedelta(seconds=verdict.delay) if verdict.delay else None


def _facts(job: Any, fence: Fence, ending: Ending, verdict: retry.Verdict, target: JobState) -> list[Fact]:
    def fact(kind: EventKind, message: str, reason: Reason | None = None, **details: Any) -> Fact:
        return Fact(kind=kind, message=message, reason=reason, execution_id=fence.execution_id, details=details)

    cause = fact(ending.cause, ending.message, ending.reason, **ending.details)
    if target is JobState.CANCELLED:
        return [cause, fact(EventKind.CANCELLED, "Cancelled, as requested.", Reason.CANCELLED)]
    if target is JobState.QUEUED:
        facts = [cause, fact(EventKind.REQUEUED, "Back in the queue, in its old place.")]
        if verdict.delay:
            facts.append(_retry_scheduled(fact, job, verdict))
        return facts
    if verdict.exhausted:
        message = _every_reason(job, ending)
        return [
            cause,
            fact(EventKind.ATTEMPTS_EXHAUSTED, message, Reason.ATTEMPTS_EXHAUSTED),
            fact(EventKind.FAILED, message, Reason.ATTEMPTS_EXHAUSTED),
        ]
    failed = fact(EventKind.FAILED, ending.message, ending.reason, **ending.details)
    # A failure that ends the job is told once, as the job's own.
    return [failed] if ending.command is Command.FAIL else [cause, failed]


def _retry_scheduled(fact: Callable[..., Fact], job: Any, verdict: retry.Verdict) -> Fact:
    return fact(
        EventKind.RETRY_SCHEDULED,
        f"Next attempt in {verdict.delay:.1f} s at the earliest.",
        not_before=_not_before(job, verdict).isoformat(),
        attempts_left=job.max_attempts - job.attempts_used - int(verdict.charged),
    )


def _every_reason(job: Job, ending: Ending) -> str:
    """One sentence that names the reason of each charged attempt of this budget, the present one last."""
    charged = Execution.objects.filter(job=job, charged=True).exclude(state=ExecutionState.SUCCEEDED.value)
    earlier = list(charged.order_by("-number").values_list("number", "reason")[: job.attempts_used])
    reasons = [*reversed(earlier), (job.attempt, ending.reason.value)]
    told = ", ".join(f"{job.pk}.{number} {reason}" for number, reason in reasons)
    spent = "Its only attempt is spent" if job.max_attempts == 1 else f"All {job.max_attempts} attempts are spent"
    return f"{spent}: {told}."
