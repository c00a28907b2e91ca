"""A process that is not, or no longer, its execution's own can change nothing, and learns so."""

import dataclasses
import uuid
from collections.abc import Callable

import pytest

from jobs import reaper
from jobs.commands import checkpoints, executions, logs, metrics, workers
from jobs.commands.checkpoints import Snapshot
from jobs.commands.executions import Lease
from jobs.commands.metrics import Progress
from jobs.errors import Stale
from jobs.models import Checkpoint, Event, Execution, Heartbeat, Job, LogChunk, MetricPoint
from jobs.states import Phase, Reason
from tests import database, factories, invariants

SNAPSHOT = Snapshot(manifest_key="m", file_count=1, total_bytes=10, new_bytes=10, step=3, final=False)
PROGRESS = Progress(step=3, total=10, rate=1.0)

WRITES: dict[str, Callable[[Lease], object]] = {
    "start": executions.start,
    "beat": executions.beat,
    "phase": lambda lease: executions.change_phase(lease, Phase.TRAINING),
    "log": lambda lease: logs.append(lease, 0, b"hello"),
    "metric": lambda lease: metrics.append(lease, 0, 10, [factories.point(1)], PROGRESS),
    "checkpoint": lambda lease: checkpoints.commit(lease, SNAPSHOT),
    "time limit": lambda lease: executions.time_limit_reached(lease, 60),
    "succeed": executions.succeed,
    "fail": lambda lease: executions.fail(lease, factories.failure()),
    "stop": executions.stop,
    "release": executions.release,
}
ENDS = {"succeed", "fail", "stop", "release"}


def lost(job: Job) -> Lease:
    """Its running execution's lease, which the reaper then takes away; the job waits again."""
    lease = factories.lease(job)
    database.execute("UPDATE jobs_heartbeat SET expires_at = now() - interval '1 second'")
    reaper.sweep()
    job.refresh_from_db()
    assert job.state == "QUEUED"
    return lease


def replaced(job: Job) -> Lease:
    """The same, and another worker runs it by now."""
    lease = lost(job)
    factories.online(labels=job.worker_labels)
    job.refresh_from_db()
    executions.start(factories.lease(job))
    return lease


@pytest.mark.parametrize("write", [name for name in WRITES if name != "start"])
def test_another_process_than_the_one_that_started_changes_nothing(write, real_commits):
    job = factories.running()
    impostor = factories.lease(job, nonce=uuid.uuid4())
    before = database.rows()
    with pytest.raises(Stale):
        WRITES[write](impostor)
    assert database.rows() == before


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("fate", [lost, replaced])
def test_an_execution_that_was_lost_changes_nothing_but_that_its_late_result_is_told(write, fate, real_commits):
    job = factories.running()
    lease = fate(job)
    before = database.rows()
    with pytest.raises(Stale):
        WRITES[write](lease)
    changed = database.changes(before, database.rows())
    assert changed == ({"job": 1, "execution": 1, "event": 1} if write in ENDS else {})
    invariants.check()


@pytest.mark.parametrize("write", ["phase", "log", "metric", "checkpoint", "time limit", "beat"])
@pytest.mark.parametrize("end", ["succeed", "fail"])
def test_an_execution_that_has_ended_changes_nothing_any_more(write, end, real_commits):
    lease = factories.lease(factories.running())
    WRITES[end](lease)
    before = database.rows()
    with pytest.raises(Stale):
        WRITES[write](lease)
    assert database.rows() == before


@pytest.mark.parametrize("write", [name for name in WRITES if name != "start"])
def test_an_execution_that_has_not_started_changes_nothing(write, real_commits):
    lease = factories.lease(factories.assigned())
    before = database.rows()
    with pytest.raises(Stale):
        WRITES[write](lease)
    assert database.rows() == before


@pytest.mark.parametrize("write", WRITES)
def test_a_job_that_was_removed_meanwhile_is_stale_like_any_other(write, real_commits):
    lease = factories.lease(factories.running())
    gone = dataclasses.replace(lease, job_id=lease.job_id + 1000, execution_id=lease.execution_id + 1000)
    with pytest.raises(Stale):
        WRITES[write](gone)


@pytest.mark.parametrize("write", ["start", *sorted(ENDS)])
def test_what_was_said_once_may_be_said_again_by_the_same_process(write, real_commits):
    job = factories.assigned() if write == "start" else factories.running()
    lease = factories.lease(job)
    WRITES[write](lease)
    before = database.rows()
    WRITES[write](lease)
    assert database.rows() == before
    invariants.check()


def test_a_start_is_not_repeated_by_another_process(real_commits):
    job = factories.assigned()
    executions.start(factories.lease(job))
    before = database.rows()
    with pytest.raises(Stale):
        executions.start(factories.lease(job, nonce=uuid.uuid4()))
    assert database.rows() == before


def test_late_results_are_told_once_however_often_they_come(real_commits):
    job = factories.running()
    lease = replaced(job)
    for write in ["succeed", "fail", "succeed"]:
        with pytest.raises(Stale):
            WRITES[write](lease)
    (event,) = Event.objects.filter(kind="result_refused")
    assert event.execution_id == lease.execution_id
    assert event.details == {"outcome": "succeeded"}
    assert Execution.objects.get(pk=lease.execution_id).result_refused_at is not None
    executions.succeed(factories.lease(job))
    invariants.check()


def test_a_late_result_may_follow_the_end_of_the_job(real_commits):
    job = factories.running()
    lease = replaced(job)
    executions.succeed(factories.lease(job))
    with pytest.raises(Stale):
        executions.succeed(lease)
    assert [*job.events.values_list("kind", flat=True)][-2:] == ["succeeded", "result_refused"]
    job.refresh_from_db()
    assert job.state == "SUCCEEDED"
    invariants.check()


def test_a_success_after_its_execution_was_stopped_by_another_is_a_late_result(real_commits):
    lease = factories.lease(factories.running())
    executions.fail(lease, factories.failure(Reason.TIME_LIMIT))
    with pytest.raises(Stale):
        executions.succeed(lease)
    assert Event.objects.filter(kind="result_refused").count() == 1


def test_a_stale_checkpoint_does_not_become_what_the_job_resumes_from(real_commits):
    job = factories.running()
    kept = checkpoints.commit(factories.lease(job), SNAPSHOT)
    lease = replaced(job)
    with pytest.raises(Stale):
        checkpoints.commit(lease, SNAPSHOT)
    job.refresh_from_db()
    assert (job.latest_checkpoint_id, job.last_checkpoint_n) == (kept.pk, 1)
    assert Checkpoint.objects.count() == 1


def test_a_renewed_boot_fences_the_one_before(real_commits):
    first = factories.online("w")
    second = factories.online("w")
    assert workers.renew(first, idle=True) is False
    assert workers.renew(second, idle=True) is True


def test_an_old_boot_does_not_free_what_the_new_one_has(real_commits):
    first = factories.online("w")
    factories.online("w")
    job = factories.submitted()
    lease = factories.lease(job)
    executions.start(lease)
    executions.succeed(lease)
    workers.freed(first, lease.execution_id)
    assert factories.worker(first).occupied_by_id == lease.execution_id


def test_logs_and_metrics_sent_twice_are_stored_once(real_commits):
    lease = factories.lease(factories.running())
    assert logs.append(lease, 0, b"hello ") == 6
    assert logs.append(lease, 0, b"hello ") == 6
    assert logs.append(lease, 9, b"beyond") == 6, "a hole is not stored"
    assert logs.append(lease, 6, b"world") == 11
    assert b"".join(bytes(chunk.data) for chunk in LogChunk.objects.all()) == b"hello world"
    assert metrics.append(lease, 0, 10, [factories.point(1)], PROGRESS) == 10
    assert metrics.append(lease, 0, 10, [factories.point(1)], PROGRESS) == 10
    assert MetricPoint.objects.count() == 1
    assert Heartbeat.objects.get().step == 3


def test_nothing_said_is_nothing_stored(real_commits):
    lease = factories.lease(factories.running())
    assert logs.append(lease, 0, b"") == 0
    assert logs.append(lease, 0, b"x") == 1
    assert LogChunk.objects.count() == 1


def test_progress_outlives_the_lease_on_the_execution(real_commits):
    lease = factories.lease(factories.running())
    metrics.append(lease, 0, 10, [], PROGRESS)
    executions.succeed(lease)
    execution = Execution.objects.get(pk=lease.execution_id)
    assert (execution.step, execution.total) == (3, 10)


@pytest.mark.parametrize("text", ["NUL \0 byte", "lone surrogate \udcff"])
def test_an_end_is_told_whatever_characters_its_message_has(text, real_commits):
    job = factories.running()
    executions.fail(factories.lease(job), factories.failure(message=text, details={"last_lines": text}))
    job.refresh_from_db()
    assert job.state == "FAILED"
    assert job.message.startswith(text[:3])
    invariants.check()
