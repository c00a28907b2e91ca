"""What a worker is to run, read once before it starts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from django.conf import settings

from jobs.commands.executions import Lease
from jobs.models import Checkpoint, Dataset, Execution
from jobs.models.choices import values
from jobs.states import UNSTARTED


@dataclass(frozen=True, kw_only=True)
class Order:
    """One execution's work; `env` may hold secrets of its owner."""

    lease: Lease
    owner_id: int
    attempt: int
    script: str
    args: Sequence[str]
    env: Mapping[str, str]
    requirements: str
    time_limit_seconds: float | None
    checkpoint_seconds: float
    resume_from: Checkpoint | None
    latest_checkpoint: Checkpoint | None
    dataset: Dataset | None


def read(execution_id: int, nonce: UUID) -> Order | None:
    """The order behind an execution that waits to be started; None where it does not (any more)."""
    waiting = Execution.objects.filter(pk=execution_id, state__in=values(UNSTARTED))
    execution = waiting.select_related(
        "job__source", "job__dataset", "job__resume_checkpoint", "job__latest_checkpoint"
    ).first()
    if execution is None:
        return None
    job = execution.job
    return Order(
        lease=Lease(
            execution_id=execution.pk,
            nonce=nonce,
            job_id=job.pk,
            label=execution.label,
            worker_name=execution.worker_name,
        ),
        owner_id=job.owner_id,
        attempt=execution.number,
        script=job.source.script,
        args=job.source.args,
        env=job.source.env,
        requirements=job.source.requirements,
        time_limit_seconds=job.time_limit_seconds,
        checkpoint_seconds=job.checkpoint_seconds or settings.RERAIL.timing.checkpoint,
        resume_from=job.resume_checkpoint,
        latest_checkpoint=job.latest_checkpoint,
        dataset=job.dataset,
    )
