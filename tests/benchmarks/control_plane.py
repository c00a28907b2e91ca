"""How many executions a second the control plane brings from submission to success, with nothing spawned.

Two driving processes keep 16 no-op executions in flight through submit, assign (with its doorbell), start, succeed and
freed, all events written. Beside it, in the same run, two forking django-rq workers run no-op jobs.
"""

import multiprocessing
import os
import statistics
import time
import uuid
from dataclasses import dataclass
from typing import Any

from tests.benchmarks import noop, plain_rq
from tests.benchmarks.report import Figure

DRIVERS = 2
IN_FLIGHT = 16
ROUNDS = 3
SECONDS = 8.0
RQ_JOBS = 500


@dataclass(frozen=True, kw_only=True)
class _Rate:
    done: int
    seconds: float


def measure() -> list[Figure]:
    """The medians of interleaved rounds, since other work on the machine comes and goes."""
    rounds = [(_control_plane(), _forking_rq()) for _ in range(ROUNDS)]
    return [
        Figure(
            name="control plane, executions/s",
            value=statistics.median(ours for ours, _ in rounds),
            reference=statistics.median(plain for _, plain in rounds),
            against="two forking rq workers, no-op jobs/s",
            least_ratio=1.0,
        )
    ]


def _control_plane() -> float:
    context = multiprocessing.get_context("spawn")
    with context.Pool(DRIVERS) as pool:
        rates = pool.map(_drive, range(DRIVERS))
    return sum(rate.done / rate.seconds for rate in rates)


def _drive(index: int) -> _Rate:
    import django

    django.setup()
    from django.contrib.auth.models import User

    from jobs.commands import executions, submission, workers
    from jobs.models import Execution

    owner, _ = User.objects.get_or_create(username=f"bench-{index}")
    boots = [_boot(f"bench-{index}-{slot}-{os.getpid()}") for slot in range(IN_FLIGHT // DRIVERS)]
    for boot in boots:
        workers.register(boot, still_running=None)
    work = submission.Submission(script="pass")
    by_name = {boot.name: boot for boot in boots}
    for _ in boots:
        submission.submit(owner, work)
    done, begun = 0, time.monotonic()
    while (elapsed := time.monotonic() - begun) < SECONDS:
        for execution in Execution.objects.filter(worker_name__in=by_name, state="ASSIGNED"):
            lease = executions.Lease(
                execution_id=execution.pk,
                nonce=uuid.uuid4(),
                job_id=execution.job_id,
                label=execution.label,
                worker_name=execution.worker_name,
            )
            executions.start(lease)
            executions.succeed(lease)
            workers.freed(by_name[execution.worker_name], execution.pk)
            submission.submit(owner, work)
            done += 1
    for boot in boots:
        workers.went_offline(boot)
    return _Rate(done=done, seconds=elapsed)


def _boot(name: str) -> "workers.Boot":  # type: ignore[name-defined]  # noqa: F821
    from jobs.commands import workers

    return workers.Boot(name=name, nonce=uuid.uuid4(), host="bench", pid=os.getpid())


def _forking_rq() -> float:
    with plain_rq.workers(DRIVERS) as queue:
        _drain(queue, 20)  # both are up
        return _drain(queue, RQ_JOBS)


def _drain(queue: Any, count: int) -> float:
    begun = time.monotonic()
    jobs = [queue.enqueue(noop.nothing, result_ttl=60) for _ in range(count)]
    while len(queue) or any(job.get_status() not in ("finished", "failed") for job in jobs[-DRIVERS:]):
        time.sleep(0.01)
    return count / (time.monotonic() - begun)
