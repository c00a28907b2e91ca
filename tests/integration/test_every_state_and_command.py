"""Every command that the product has, sent to a job in every state: it does what the table says, or nothing at all."""

import uuid
from collections.abc import Callable

import pytest
from django.db.models.functions import Now

from jobs import dispatch, reaper
from jobs.commands import cancellation, datasets, executions, requeueing, workers
from jobs.commands.executions import Lease
from jobs.errors import Refused
from jobs.models import Execution, Heartbeat, Installation, Job
from jobs.states import ACTIVE, FINAL, HELD, Command, JobState, edges
from tests import database, factories, invariants

NO_COMMAND_YET = {Command.APPROVE, Command.REJECT}
"""Reviews come later; until then only the door knows these (see test_the_one_door)."""


def lease_of(job: Job) -> Lease:
    """Of its latest execution; of one that there never was, where it has none."""
    if job.attempt:
        return factories.lease(job)
    return Lease(execution_id=0, nonce=uuid.uuid4(), job_id=job.pk, label=f"{job.pk}.1", worker_name="nobody")


def fitting_worker_comes(job: Job) -> None:
    factories.online(labels=job.worker_labels)
    dispatch.run()


def all_its_deadlines_pass(job: Job) -> None:
    Job.objects.filter(pk=job.pk).update(queue_timeout_seconds=60)
    database.execute("UPDATE jobs_job SET queued_at = queued_at - interval '1 hour' WHERE id = %s", job.pk)
    database.execute("UPDATE jobs_job SET dataset_deadline = now() - interval '1 hour' WHERE id = %s"
                     " AND dataset_deadline IS NOT NULL", job.pk)  # fmt: skip
    database.execute("UPDATE jobs_heartbeat SET expires_at = now() - interval '1 hour' WHERE execution_id IN"
                     " (SELECT id FROM jobs_execution WHERE job_id = %s)", job.pk)  # fmt: skip
    reaper.sweep()


def fifth_deadline_in_a_row_passes(job: Job) -> None:
    Job.objects.filter(pk=job.pk).update(unstarted_in_row=4)
    all_its_deadlines_pass(job)


def parent_gives_up(job: Job) -> None:
    boot = factories.boot(lease_of(job).worker_name)
    row = Execution.objects.filter(job=job).select_related("worker").last()
    if row is not None and row.worker is not None:
        boot = factories.boot(row.worker_name, nonce=row.worker.boot_nonce)
    workers.hand_back(boot)


SENT: dict[Command, Callable[[Job], object]] = {
    Command.ASSIGN: fitting_worker_comes,
    Command.START: lambda job: executions.start(lease_of(job)),
    Command.SUCCEED: lambda job: executions.succeed(lease_of(job)),
    Command.FAIL: lambda job: executions.fail(lease_of(job), factories.failure()),
    Command.STOP: lambda job: executions.stop(lease_of(job)),
    Command.LOSE: lambda job: executions.crashed(lease_of(job).execution_id, "nobody", "It is gone."),
    Command.RELEASE: lambda job: executions.release(lease_of(job)),
    Command.CANCEL: lambda job: cancellation.cancel(job.pk, job.owner),
    Command.REQUEUE: lambda job: requeueing.requeue(job.pk, job.owner),
    Command.EXPIRE_QUEUE: all_its_deadlines_pass,
    Command.EXPIRE_REVIEW: all_its_deadlines_pass,
    Command.GIVE_UP: fifth_deadline_in_a_row_passes,
    Command.ATTACH_DATASET: lambda job: datasets.upload(job.pk, job.owner, factories.Sent(b"1,2")),
    Command.EXPIRE_DATASET: all_its_deadlines_pass,
}
CHOOSES = {Command.ASSIGN, Command.LOSE, Command.EXPIRE_QUEUE, Command.EXPIRE_REVIEW, Command.GIVE_UP,
           Command.EXPIRE_DATASET}  # fmt: skip
"""Commands whose sender looks for what they fit; where nothing does, they are no error."""
BY_PARENT = {(state, Command.RELEASE) for state in (JobState.ASSIGNED, JobState.PENDING_REVIEW)}
"""An execution that was not started has no process yet: its worker's parent hands it back."""
SILENT = {(JobState.SUCCEEDED, Command.SUCCEED), (JobState.FAILED, Command.FAIL), (JobState.CANCELLED, Command.STOP),
          (JobState.RUNNING, Command.START)}  # fmt: skip
"""Said once more by the same process: its first answer may have been lost."""
LATE = {Command.SUCCEED, Command.FAIL, Command.STOP, Command.RELEASE}

PAIRS = [(state, command) for state in JobState for command in SENT]
OTHER_DEADLINE = {
    JobState.AWAITING_DATASET: {Command.EXPIRE_QUEUE, Command.EXPIRE_REVIEW, Command.GIVE_UP},
    JobState.ASSIGNED: {Command.EXPIRE_QUEUE, Command.EXPIRE_REVIEW, Command.EXPIRE_DATASET},
    JobState.PENDING_REVIEW: {Command.EXPIRE_QUEUE, Command.GIVE_UP, Command.EXPIRE_DATASET},
    JobState.RUNNING: {Command.EXPIRE_QUEUE, Command.EXPIRE_REVIEW, Command.GIVE_UP, Command.EXPIRE_DATASET},
    JobState.QUEUED: {Command.EXPIRE_REVIEW, Command.GIVE_UP, Command.EXPIRE_DATASET},
}
"""Pairs in which the deadline that passes is another's, so that another command than the named one is right."""

ALLOWED = [pair for pair in PAIRS if edges(pair[1], pair[0])]
REFUSED = [
    (state, command)
    for state, command in PAIRS
    if not edges(command, state) and command not in OTHER_DEADLINE.get(state, ())
]


def send(state: JobState, command: Command, job: Job) -> None:
    if (state, command) in BY_PARENT:
        parent_gives_up(job)
    else:
        SENT[command](job)


def test_every_command_is_walked_here_or_known_not_to_exist_yet():
    assert set(SENT) | NO_COMMAND_YET | {Command.SUBMIT} == set(Command)


@pytest.mark.parametrize(("state", "command"), ALLOWED)
def test_a_command_takes_one_of_its_edges(state, command, real_commits):
    job = factories.job_in(state)
    execution_id = job.current_execution_id
    if command is not Command.ASSIGN:  # or a requeued job would be assigned in the next moment
        Installation.objects.update(queue_paused_at=Now())
    before = database.rows()

    send(state, command, job)

    job.refresh_from_db()
    ways = {each.target: each for each in edges(command, state)}
    assert job.state in ways
    each = ways[JobState(job.state)]
    if execution_id and each.execution_target:
        execution = Execution.objects.get(pk=execution_id)
        assert execution.state == each.execution_target
        assert Heartbeat.objects.filter(pk=execution_id).exists() == (execution.state in ACTIVE)
    changed = database.changes(before, database.rows())
    assert changed["event"] >= 1
    touched = {"job", "event"}
    if state in HELD or job.state in HELD:
        touched |= {"execution", "heartbeat", "worker"}
    if command is Command.EXPIRE_REVIEW:
        touched |= {"workerexclusion"}
    if command is Command.ATTACH_DATASET:
        touched |= {"dataset"}
    assert set(changed) <= touched
    invariants.check()


@pytest.mark.parametrize(("state", "command"), REFUSED)
def test_what_the_table_does_not_name_changes_nothing(state, command, real_commits):
    job = factories.job_in(state)
    if command is Command.ASSIGN:
        factories.online(labels=job.worker_labels)
    if command in {Command.EXPIRE_QUEUE, Command.EXPIRE_REVIEW, Command.GIVE_UP}:
        all_its_deadlines_pass(job)
    before = database.rows()
    if command in CHOOSES:
        if command is Command.ASSIGN:
            dispatch.run()
        elif command is Command.LOSE:
            assert executions.crashed(lease_of(job).execution_id, "nobody", "It is gone.") is False
        else:
            reaper.sweep()
    elif (state, command) in SILENT:
        send(state, command, job)
    else:
        with pytest.raises(Refused):
            send(state, command, job)
    changed = database.changes(before, database.rows())
    if command in LATE and state in FINAL and (state, command) not in SILENT:
        assert changed == {"job": 1, "execution": 1, "event": 1}, "a late result is told, once"
    else:
        assert changed == {}
    invariants.check()


@pytest.mark.parametrize("command", [Command.FAIL, Command.RELEASE, Command.LOSE])
def test_whatever_would_requeue_a_job_that_is_to_be_cancelled_cancels_it(command, real_commits):
    job = factories.running(retry_on=frozenset({"lost", "failed"}))
    cancellation.cancel(job.pk, job.owner)
    ended_as = {Command.FAIL: "FAILED", Command.RELEASE: "RELEASED", Command.LOSE: "LOST"}[command]

    SENT[command](job)

    job.refresh_from_db()
    assert (job.state, job.reason) == ("CANCELLED", "cancelled")
    assert Execution.objects.get(job=job).state == ended_as
    assert list(job.events.values_list("kind", flat=True))[-1] == "cancelled"
    invariants.check()


def test_the_last_attempt_of_a_job_that_is_to_be_cancelled_ends_it_cancelled_not_exhausted(real_commits):
    job = factories.running(max_attempts=1)
    cancellation.cancel(job.pk, job.owner)
    executions.crashed(factories.lease(job).execution_id, "w", "It is gone.")
    job.refresh_from_db()
    assert (job.state, job.reason) == ("CANCELLED", "cancelled")
    invariants.check()
