"""Races on real connections: fifty rounds each, one winner, and every promise kept after every round."""

from collections.abc import Callable
from functools import partial
from typing import Any

from django.db.models.functions import Now

from jobs import dispatch, reaper
from jobs.commands import cancellation, executions, requeueing, workers
from jobs.errors import Refused
from jobs.models import Installation, Job, Worker, WorkerMode
from tests import database, factories, invariants

ROUNDS = 50


def play(crew, job: Job, *actions: Callable[[], Any]) -> list[Any]:
    """Let all act at once; whoever loses is refused, and nothing else goes wrong."""
    outcomes: list[Any] = crew.together(actions)
    unexpected = [one for one in outcomes if isinstance(one, Exception) and not isinstance(one, Refused)]
    assert not unexpected
    job.refresh_from_db()
    invariants.check()
    return outcomes


def won(outcome: Any) -> bool:
    return not isinstance(outcome, Exception) and outcome is not False


def overdue() -> None:
    database.execute("UPDATE jobs_heartbeat SET expires_at = now() - interval '1 second'")


def fresh(crew) -> None:
    """Clear the table between rounds: the invariants read all of it."""
    database.empty()


def test_a_cancel_races_the_start(crew):
    for _ in range(ROUNDS):
        job = factories.assigned()
        cancel, start = play(
            crew,
            job,
            partial(cancellation.cancel, job.pk, job.owner),
            partial(executions.start, factories.lease(job)),
        )
        assert won(cancel), "a cancel always counts: at once, or as a request"
        if won(start):
            assert (job.state, bool(job.cancel_requested_at)) == ("RUNNING", True)
        else:
            assert job.state == "CANCELLED"
        fresh(crew)


def test_a_cancel_races_the_finish(crew):
    for _ in range(ROUNDS):
        job = factories.running()
        cancel, finish = play(
            crew,
            job,
            partial(cancellation.cancel, job.pk, job.owner),
            partial(executions.succeed, factories.lease(job)),
        )
        assert won(finish)
        assert job.state == "SUCCEEDED"
        assert won(cancel) == bool(job.cancel_requested_at)
        fresh(crew)


def test_a_cancel_races_the_assignment(crew):
    owner = factories.user()
    for _ in range(ROUNDS):
        Installation.objects.update(queue_paused_at=Now())
        factories.online()
        job = factories.submitted(owner)
        Installation.objects.update(queue_paused_at=None)
        cancel, _ = play(crew, job, partial(cancellation.cancel, job.pk, owner), dispatch.run)
        assert won(cancel)
        assert job.state == "CANCELLED"
        Worker.objects.update(mode="disabled")


def test_a_finish_races_the_reaper(crew):
    for _ in range(ROUNDS):
        job = factories.running()
        overdue()
        finish, sweep = play(crew, job, partial(executions.succeed, factories.lease(job)), reaper.sweep)
        assert won(finish) == (job.state == "SUCCEEDED")
        assert len(sweep.findings) == (not won(finish))
        assert job.state in {"SUCCEEDED", "QUEUED"}
        fresh(crew)


def test_a_beat_races_the_reaper(crew):
    for _ in range(ROUNDS):
        job = factories.running()
        overdue()
        beat, sweep = play(crew, job, partial(executions.beat, factories.lease(job)), reaper.sweep)
        assert won(beat) or sweep.findings
        assert job.state == ("QUEUED" if sweep.findings else "RUNNING")
        fresh(crew)


def test_a_start_races_the_end_of_its_time_to_start(crew):
    for _ in range(ROUNDS):
        job = factories.assigned()
        overdue()
        start, sweep = play(crew, job, partial(executions.start, factories.lease(job)), reaper.sweep)
        assert won(start) != bool(sweep.findings)
        assert job.state == ("RUNNING" if won(start) else "QUEUED")
        fresh(crew)


def test_three_reapers_the_parent_and_the_process_itself_end_an_execution_once(crew):
    for _ in range(ROUNDS):
        job = factories.running()
        lease = factories.lease(job)
        overdue()
        outcomes = play(
            crew,
            job,
            reaper.sweep,
            reaper.sweep,
            reaper.sweep,
            partial(executions.crashed, lease.execution_id, "w", "It is gone."),
            partial(executions.fail, lease, factories.failure()),
        )
        found = sum(len(sweep.findings) for sweep in outcomes[:3])
        assert found + won(outcomes[3]) + won(outcomes[4]) == 1
        assert job.attempts_used == 1
        fresh(crew)


def test_two_processes_race_to_start(crew):
    for _ in range(ROUNDS):
        job = factories.assigned()
        outcomes = play(crew, job, *[partial(executions.start, factories.lease(job)) for _ in range(3)])
        assert sum(map(won, outcomes)) == 1
        assert job.state == "RUNNING"
        fresh(crew)


def test_two_people_race_to_requeue(crew):
    for _ in range(ROUNDS):
        job = factories.failed()
        Worker.objects.update(mode="disabled")
        outcomes = play(crew, job, *[partial(requeueing.requeue, job.pk, job.owner) for _ in range(2)])
        assert sum(map(won, outcomes)) == 1
        assert job.events.filter(kind="requeued").count() == 1
        fresh(crew)


def test_everything_at_once_deadlocks_nowhere(crew):
    for round_ in range(ROUNDS):
        job = factories.running()
        lease, boot = factories.lease(job), factories.online()
        mine = Worker.objects.get(name=lease.worker_name)
        parent = factories.boot(mine.name, nonce=mine.boot_nonce)
        overdue()
        play(
            crew,
            job,
            reaper.sweep,
            dispatch.run,
            partial(executions.beat, lease),
            partial(executions.succeed, lease) if round_ % 2 else partial(executions.release, lease),
            partial(cancellation.cancel, job.pk, job.owner),
            partial(workers.renew, parent, idle=False),
            partial(workers.set_mode, mine.name, WorkerMode.DRAINING),
            partial(workers.renew, boot, idle=True),
            partial(workers.hand_back, boot),
        )
        fresh(crew)
