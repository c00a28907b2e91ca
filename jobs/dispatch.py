"""Waiting jobs meet free workers.

A job and a worker are claimed in one transaction; then the execution's id is put onto that worker's own RQ queue. The
message is a doorbell: where it is lost, the next sweep rings again.
"""

import logging
from dataclasses import dataclass
from functools import cache
from itertools import takewhile

import redis
import redis.exceptions
from django.conf import settings
from django.db import connection, transaction
from redis.backoff import NoBackoff
from redis.retry import Retry
from rq import Queue

from jobs import actors, transition
from jobs.errors import Refused
from jobs.models import Execution, Installation
from jobs.sql import in_seconds
from jobs.states import Command, EventKind, ExecutionState, JobState, edge
from jobs.timeline import Fact

logger = logging.getLogger(__name__)

RINGER = "workers.execution.run"
"""What a worker calls with an execution's id."""

_FREE = "w.mode = 'active' AND w.occupied_by_id IS NULL AND w.expires_at > statement_timestamp()"
_FITS = """
    w.gpus >= j.gpus AND w.gpu_memory_mb >= j.gpu_memory_mb AND w.ram_mb >= j.ram_mb AND w.disk_mb >= j.disk_mb
    AND w.labels @> j.worker_labels
    AND NOT EXISTS (
        SELECT 1 FROM jobs_workerexclusion x
        WHERE x.job_id = j.id AND x.worker_id = w.id AND (x.until IS NULL OR x.until > statement_timestamp()))
"""
_READY = "j.state = 'QUEUED' AND (j.not_before IS NULL OR j.not_before <= statement_timestamp())"
_NOT_PAUSED = "NOT EXISTS (SELECT 1 FROM jobs_installation i WHERE i.queue_paused_at IS NOT NULL)"
_HELD = """
    LEFT JOIN (
        SELECT owner_id, count(*) AS running FROM jobs_job
        WHERE state IN ('ASSIGNED', 'PENDING_REVIEW', 'RUNNING') GROUP BY owner_id
    ) held ON held.owner_id = j.owner_id
"""

_NEXT_JOB = f"""
    SELECT j.id, j.owner_id, j.attempt, nextval(pg_get_serial_sequence('jobs_execution', 'id')),
        (SELECT count(*) FROM jobs_worker w WHERE {_FREE} AND {_FITS}),
        (SELECT count(*) FROM jobs_worker w WHERE w.expires_at > statement_timestamp())
    FROM jobs_job j {_HELD}
    WHERE {_READY} AND {_NOT_PAUSED} AND (%(limit)s::int IS NULL OR coalesce(held.running, 0) < %(limit)s::int)
        AND EXISTS (SELECT 1 FROM jobs_worker w WHERE {_FREE} AND {_FITS})
    ORDER BY j.priority DESC, coalesce(held.running, 0), j.queued_at, j.id
    LIMIT 1 FOR UPDATE OF j SKIP LOCKED
"""  # noqa: S608  made of constants
_CLAIM_WORKER = f"""
    UPDATE jobs_worker SET occupied_by_id = %(execution)s WHERE id = (
        SELECT w.id FROM jobs_worker w, jobs_job j WHERE j.id = %(job)s AND {_FREE} AND {_FITS}
            AND (%(limit)s::int IS NULL OR %(limit)s::int > (
                SELECT count(*) FROM jobs_job h
                WHERE h.owner_id = j.owner_id AND h.state IN ('ASSIGNED', 'PENDING_REVIEW', 'RUNNING')))
        ORDER BY w.gpus, w.gpu_memory_mb, w.ram_mb, w.disk_mb, w.last_seen_at DESC
        LIMIT 1 FOR UPDATE OF w SKIP LOCKED)
    RETURNING id, name, requires_review
"""  # noqa: S608
_ANYTHING_LEFT = f"""
    SELECT EXISTS (
        SELECT 1 FROM jobs_job j {_HELD} WHERE {_READY} AND {_NOT_PAUSED}
            AND (%(limit)s::int IS NULL OR coalesce(held.running, 0) < %(limit)s::int)
            AND EXISTS (SELECT 1 FROM jobs_worker w WHERE {_FREE} AND {_FITS}))
"""  # noqa: S608

_TRIES_BESIDE_OTHERS = 20
_PLACES_OF_OWNER = 7_240_101
"""The kind of advisory lock, one for each owner, under which places up to the owner's limit are given."""


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A job's next execution and the worker that has it."""

    execution_id: int
    worker_name: str
    needs_review: bool


def request() -> None:
    """Dispatch once the present transaction is committed; a failure there is the next sweep's business."""
    transaction.on_commit(run, robust=True)


def run() -> int:
    """Assign jobs until no free worker is left beside one that fits it; returns how many were assigned.

    Dispatchers that work at the same time skip each other's locked rows. One that skipped may have missed what
    another then gave back, so the world is looked at again before this one stops. While Redis is away nothing is
    assigned, since no worker would hear of it.
    """
    assigned = 0
    tries = 0
    while tries < _TRIES_BESIDE_OTHERS and _anything_left() and bell_works():
        if claim := _assign_next():
            assigned += 1
            tries = 0
            if not claim.needs_review:
                ring(claim.execution_id, claim.worker_name)
        else:
            tries += 1
    return assigned


def bell_works() -> bool:
    """Whether Redis answers at once, so that workers can be told what they are given."""
    try:
        return bool(_bell().ping())
    except redis.exceptions.RedisError as error:
        logger.warning("Redis is away; nothing is assigned: %s", error)
        return False


def ring(execution_id: int, worker_name: str) -> bool:
    """Put an execution's id onto its worker's queue; without Redis, leave it to a later sweep and return False."""
    try:
        Queue(queue_name(worker_name), connection=_bell()).enqueue_call(
            RINGER,
            args=(execution_id,),
            timeout=-1,
            result_ttl=0,
            failure_ttl=60,
            description=f"execution {execution_id}",
        )
    except redis.exceptions.RedisError as error:
        logger.warning("Redis did not take execution %s for worker %s: %s", execution_id, worker_name, error)
        return False
    return True


@cache
def _bell() -> redis.Redis:
    """A client that gives up soon: whoever rings is a request, a worker or the reaper, with better things to do."""
    return redis_client(settings.REDIS_TIMEOUT_SECONDS)


def redis_client(seconds: float) -> redis.Redis:
    """A client that waits `seconds` for an answer at the most.

    One retry, without a pause, is for a connection that a restart of Redis cut.
    """
    return redis.Redis.from_url(
        settings.REDIS_URL,
        socket_timeout=seconds,
        socket_connect_timeout=settings.REDIS_TIMEOUT_SECONDS,
        retry=Retry(NoBackoff(), 1),
    )


def queue_name(worker_name: str) -> str:
    """The RQ queue of a worker: its own, and this installation's."""
    return f"rerail-{_installation()}-{worker_name}"


@cache
def _installation() -> str:
    return Installation.objects.get_or_create(pk=1)[0].uuid.hex[:12]


def _assign_next() -> Claim | None:
    try:
        with transaction.atomic():
            return _claim_pair()
    except (Refused, _NobodyFree):
        return None


class _NobodyFree(Exception):
    """Another dispatcher took the worker that was free a moment ago."""


def _claim_pair() -> Claim | None:
    limit = settings.RERAIL.max_running_per_owner
    with connection.cursor() as cursor:
        cursor.execute(_NEXT_JOB, {"limit": limit})
        if (job := cursor.fetchone()) is None:
            return None
        job_id, owner_id, attempt, execution_id, fitting, considered = job
        if limit is not None:
            # Another dispatcher may be giving this owner its last place: who comes second counts again, below.
            cursor.execute("SELECT pg_advisory_xact_lock(%s::int, %s::int)", [_PLACES_OF_OWNER, owner_id])
        cursor.execute(_CLAIM_WORKER, {"execution": execution_id, "job": job_id, "limit": limit})
        if (worker := cursor.fetchone()) is None:
            raise _NobodyFree
    worker_id, worker_name, needs_review = worker
    details = {"worker": worker_name, "fitted": fitting, "considered": considered}
    execution = Execution(
        pk=execution_id, job_id=job_id, number=attempt + 1, worker_id=worker_id, worker_name=worker_name
    )
    _take_assign(execution, needs_review, details)
    return Claim(execution_id=execution_id, worker_name=worker_name, needs_review=needs_review)


def _take_assign(execution: Execution, needs_review: bool, details: dict[str, object]) -> None:
    timing = settings.RERAIL.timing
    target = JobState.PENDING_REVIEW if needs_review else JobState.ASSIGNED
    facts = [
        Fact(
            kind=EventKind.ASSIGNED,
            message=f"Assigned to worker {execution.worker_name}.",
            execution_id=execution.pk,
            details=details,
        )
    ]
    if needs_review:
        facts.append(
            Fact(
                kind=EventKind.REVIEW_REQUESTED,
                message=f"Worker {execution.worker_name} runs it only after an operator's approval.",
                execution_id=execution.pk,
            )
        )
    transition.assign(
        edge(Command.ASSIGN, JobState.QUEUED, target),
        job_id=execution.job_id,
        execution=execution,
        expires_in=in_seconds(timing.review_timeout if needs_review else timing.never_started),
        facts=facts,
        actor=actors.DISPATCHER,
    )


def _anything_left() -> bool:
    with connection.cursor() as cursor:
        cursor.execute(_ANYTHING_LEFT, {"limit": settings.RERAIL.max_running_per_owner})
        return bool(cursor.fetchone()[0])


def ring_assigned(older_than: float) -> int:
    """Ring again for every ASSIGNED execution that has waited `older_than` seconds; returns how many."""
    waiting = Execution.objects.filter(
        state=ExecutionState.ASSIGNED.value, assigned_at__lt=in_seconds(-older_than)
    ).values_list("pk", "worker_name")
    # Where one does not get through, the others would not either, each after its own wait.
    return sum(1 for _ in takewhile(lambda one: ring(*one), waiting))
