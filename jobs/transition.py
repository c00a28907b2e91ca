"""The one door: every change of a job's or an execution's state goes through `take`.

State, guard and fence stand in the WHERE of the UPDATE that makes the change, so two writers that race have one
winner; the event is written in the same transaction or not at all. Locks are taken in one order everywhere: job,
execution, worker, heartbeat.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import F, Q
from django.db.models.functions import Coalesce, Now

from jobs import timeline
from jobs.errors import Refused, Stale
from jobs.models import Execution, Heartbeat, Job, JobSource
from jobs.models.choices import values
from jobs.sql import storable, update_returning
from jobs.states import ACTIVE, FINAL, HELD, Edge, ExecutionState, JobState
from jobs.timeline import Fact

_NOTHING: Mapping[str, Any] = {}
_TOGETHER = "the event must commit with the state"


@dataclass(frozen=True, kw_only=True)
class Fence:
    """Who writes: an execution and, for its own process, the nonce that `start` stored."""

    execution_id: int
    nonce: UUID | None = None


def open_job(edge: Edge, job: Job, source: JobSource, *, facts: Sequence[Fact], actor: str) -> Job:
    """Insert a new job in the state that `edge` leads to, with what it runs and its first events."""
    job.state = edge.target
    job.last_seq = len(facts)
    if edge.target is JobState.QUEUED:
        job.queued_at = Now()
    job.save(force_insert=True)
    source.job = job
    source.save(force_insert=True)
    timeline.record(job.pk, job.last_seq, facts, actor)
    return job


def take(
    edge: Edge,
    *,
    job_id: int,
    facts: Sequence[Fact],
    actor: str,
    fence: Fence | None = None,
    guard: Q | None = None,
    job: Mapping[str, Any] = _NOTHING,
    execution: Mapping[str, Any] = _NOTHING,
) -> int:
    """Take `edge` and return the job's number of events afterwards.

    `job` and `execution` are further columns that change with it. Raises Refused where the job is in another state or
    `guard` does not hold, Stale where `fence` is not the current execution's. The caller's transaction must be rolled
    back then, and holds both rows otherwise.
    """
    last_seq = _move_job(edge, job_id, len(facts), fence, guard, job)
    if edge.execution_target is not None and fence is not None:
        _move_execution(edge, fence, execution)
    timeline.record(job_id, last_seq, facts, actor)
    return last_seq


def assign(edge: Edge, *, job_id: int, execution: Execution, expires_in: Any, facts: Sequence[Fact], actor: str) -> int:
    """Take an edge of `assign`: the execution is new and its lease begins here."""
    last_seq = _move_job(
        edge, job_id, len(facts), None, None, {"current_execution": execution, "attempt": execution.number}
    )
    execution.state = edge.execution_target or ExecutionState.ASSIGNED
    execution.save(force_insert=True)
    Heartbeat.objects.bulk_create([Heartbeat(execution=execution, expires_at=expires_in)])
    timeline.record(job_id, last_seq, facts, actor)
    return last_seq


def note(
    *,
    job_id: int,
    facts: Sequence[Fact],
    actor: str,
    fence: Fence | None = None,
    job: Mapping[str, Any] = _NOTHING,
    execution: Mapping[str, Any] = _NOTHING,
) -> int:
    """Record facts that change no state, and columns that change with them; with a fence, only while it holds."""
    assert connection.in_atomic_block, _TOGETHER
    rows = Job.objects.filter(pk=job_id)
    if fence is not None:
        rows = rows.filter(current_execution_id=fence.execution_id)
    last_seq = _counted(update_returning(rows, ["last_seq"], last_seq=F("last_seq") + len(facts), **job), fence)
    if fence is not None:
        _touch_execution(fence, [ExecutionState.RUNNING], execution)
    timeline.record(job_id, last_seq, facts, actor)
    return last_seq


def hold(*, job_id: int, fence: Fence) -> None:
    """Lock the job of a running execution, so that it stays the current one until the transaction's end.

    Raises Stale where it is not.
    """
    assert connection.in_atomic_block, "a lock lasts for a transaction"
    rows = Job.objects.select_for_update().filter(pk=job_id, current_execution_id=fence.execution_id)
    if not rows.values_list("pk").first():
        raise Stale(f"Execution {fence.execution_id} is not its job's current one any more.")
    _touch_execution(fence, [ExecutionState.RUNNING], _NOTHING)


def _move_job(
    edge: Edge, job_id: int, events: int, fence: Fence | None, guard: Q | None, changes: Mapping[str, Any]
) -> int:
    assert connection.in_atomic_block, _TOGETHER
    rows = Job.objects.filter(guard or Q(), pk=job_id, state__in=values(edge.sources))
    if fence is not None:
        rows = rows.filter(current_execution_id=fence.execution_id)
    columns = {"state": edge.target.value, "last_seq": F("last_seq") + events, **_implied(edge), **changes}
    return _counted(update_returning(rows, ["last_seq"], **columns), fence)


def _implied(edge: Edge) -> dict[str, Any]:
    """Columns that follow from where an edge leads."""
    if edge.target in FINAL:
        return {"finished_at": Now(), "current_execution": None, "not_before": None, "swept_at": None}
    if edge.target is JobState.RUNNING:
        return {"started_at": Coalesce("started_at", Now()), "unstarted_in_row": 0}
    if edge.target not in HELD:
        return {"finished_at": None, "current_execution": None}
    return {"not_before": None}


def _counted(rows: list[tuple[Any, ...]], fence: Fence | None) -> int:
    if rows:
        return int(rows[0][0])
    if fence is not None:
        raise Stale(f"Execution {fence.execution_id} is not its job's current one any more.")
    raise Refused("The job is in another state by now.")


def _move_execution(edge: Edge, fence: Fence, changes: Mapping[str, Any]) -> None:
    target = edge.execution_target
    assert target is not None
    columns: dict[str, Any] = {"state": target.value, **changes}
    if target not in ACTIVE:
        columns |= {"finished_at": Now(), **_last_progress(fence)}
    if edge.execution_target is ExecutionState.RUNNING:
        # Its nonce is being stored by this very change, so it can't be asked for yet.
        fence = Fence(execution_id=fence.execution_id)
    _touch_execution(fence, [ExecutionState(source) for source in edge.sources], columns)
    if target not in ACTIVE:
        Heartbeat.objects.filter(execution_id=fence.execution_id)._raw_delete(using="default")


def _last_progress(fence: Fence) -> dict[str, Any]:
    """Progress lives on the lease while there is one; the execution keeps where it ended."""
    lease = Heartbeat.objects.filter(execution_id=fence.execution_id)
    return {"step": lease.values("step"), "total": lease.values("total")}


def _touch_execution(fence: Fence, states: Sequence[ExecutionState], columns: Mapping[str, Any]) -> None:
    rows = Execution.objects.filter(pk=fence.execution_id, state__in=values(states))
    if fence.nonce is not None:
        rows = rows.filter(nonce=fence.nonce)
    found = rows.update(**storable(columns)) if columns else rows.exists()
    if not found:
        raise Stale(f"Execution {fence.execution_id} is held by another process, or has ended.")
