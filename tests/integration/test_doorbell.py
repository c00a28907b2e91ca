"""Redis is a doorbell: away, frozen or flushed, it delays what is new and harms nothing."""

import time

import pytest

from jobs import dispatch, reaper
from jobs.commands import cancellation, executions, workers
from jobs.errors import Stale
from jobs.models import Execution, Heartbeat, Job, Worker
from jobs.states import Reason
from tests import database, factories, invariants


def everything_unstarted_is_overdue() -> None:
    database.execute("UPDATE jobs_heartbeat SET expires_at = now() - interval '1 second' WHERE nonce IS NULL")
    database.execute("UPDATE jobs_execution SET assigned_at = now() - interval '1 minute'")


def test_an_assignment_rings_its_own_workers_queue_with_the_executions_id(own_redis):
    job = factories.assigned()
    lease = factories.lease(job)
    assert own_redis.rung(lease.worker_name) == [lease.execution_id]


def test_nothing_is_assigned_while_redis_is_away_and_the_next_sweep_after_its_return_does(own_redis):
    factories.online("w")
    own_redis.stop()
    job = factories.submitted()
    assert job.state == "QUEUED"
    assert reaper.sweep().assigned == 0
    own_redis.start()
    assert reaper.sweep().assigned == 1
    job.refresh_from_db()
    assert own_redis.rung("w") == [job.current_execution_id]
    invariants.check()


def test_a_running_job_beats_checkpoints_is_cancelled_and_ends_without_redis(own_redis):
    one, other = factories.running(), factories.running()
    own_redis.stop()
    assert executions.beat(factories.lease(one)) is None
    executions.succeed(factories.lease(one))
    cancellation.cancel(other.pk, other.owner)
    assert executions.beat(factories.lease(other)) is Reason.CANCELLED
    executions.stop(factories.lease(other))
    assert set(Job.objects.values_list("state", flat=True)) == {"SUCCEEDED", "CANCELLED"}
    invariants.check()


@pytest.mark.parametrize("way", ["stopped", "flushed"])
def test_what_was_assigned_before_is_rung_again_by_the_next_sweep(own_redis, way):
    job = factories.assigned()
    lease = factories.lease(job)
    own_redis.flush()
    if way == "stopped":
        own_redis.stop()
        own_redis.start()
    database.execute("UPDATE jobs_execution SET assigned_at = now() - interval '1 minute'")
    assert reaper.sweep().rung == 1
    assert own_redis.rung(lease.worker_name) == [lease.execution_id]
    executions.start(lease)
    invariants.check()


def test_neither_worker_nor_job_is_blamed_for_what_nobody_could_be_told(own_redis):
    job = factories.assigned()
    own_redis.stop()
    for _ in range(6):
        everything_unstarted_is_overdue()
        assert reaper.sweep(dry_run=True).findings == ()
        assert reaper.sweep().findings == ()
    own_redis.start()
    assert reaper.sweep().findings == (), "it has its whole time again, from here on"
    job.refresh_from_db()
    assert (job.state, job.unstarted_in_row) == ("ASSIGNED", 0)
    assert Worker.objects.get(name=factories.lease(job).worker_name).unstarted_in_row == 0
    executions.start(factories.lease(job))
    invariants.check()


def test_a_lease_that_ran_out_is_found_without_redis_all_the_same(own_redis):
    job = factories.running()
    own_redis.stop()
    database.execute("UPDATE jobs_heartbeat SET expires_at = now() - interval '1 second'")
    assert [finding.action for finding in reaper.sweep().findings] == ["lose"]
    job.refresh_from_db()
    assert job.state == "QUEUED"
    invariants.check()


def test_a_frozen_redis_holds_up_neither_a_request_nor_a_sweep_for_long(own_redis):
    for _ in range(5):
        factories.assigned()
    database.execute("UPDATE jobs_execution SET assigned_at = now() - interval '1 minute'")
    boot = factories.online()
    begun = time.monotonic()
    with own_redis.frozen():
        job = factories.submitted()
        sweep = reaper.sweep()
        workers.renew(boot, idle=True)
    # Each of four looks at the bell may wait twice for 0.3 s; five rings, or ten retries each, would take far longer.
    assert time.monotonic() - begun < 10
    assert (sweep.rung, sweep.assigned) == (0, 0)
    assert job.state == "QUEUED"
    assert Execution.objects.count() == Heartbeat.objects.count() == 5


def test_ringing_twice_is_harmless(own_redis):
    job = factories.assigned()
    lease, twin = factories.lease(job), factories.lease(job)
    dispatch.ring(lease.execution_id, lease.worker_name)
    assert own_redis.rung(lease.worker_name) == [lease.execution_id] * 2
    executions.start(lease)
    before = database.rows()
    with pytest.raises(Stale):
        executions.start(twin)
    assert database.rows() == before
