"""What workers say of themselves: coming, staying, being free, leaving."""

import pytest

from jobs.commands import cancellation, executions, workers
from jobs.errors import Refused
from jobs.models import Execution, Worker, WorkerMode
from tests import database, factories, invariants


def written_off() -> None:
    database.execute("UPDATE jobs_worker SET occupied_by_id = NULL")


def test_a_new_start_keeps_what_its_name_is_occupied_by(real_commits):
    job = factories.running()
    lease = factories.lease(job)
    occupation = workers.register(factories.boot(lease.worker_name), still_running=None)
    assert occupation == workers.Occupation(execution_id=lease.execution_id, unstarted=False)
    assert Worker.objects.get(name=lease.worker_name).occupied_by_id == lease.execution_id
    invariants.check()


def test_a_new_start_is_told_that_it_may_still_start_what_was_assigned(real_commits):
    lease = factories.lease(factories.assigned())
    occupation = workers.register(factories.boot(lease.worker_name), still_running=None)
    assert occupation == workers.Occupation(execution_id=lease.execution_id, unstarted=True)
    executions.start(lease)


def test_a_process_that_a_new_start_finds_alive_keeps_the_worker_busy_though_it_was_written_off(real_commits):
    lease = factories.lease(factories.running())
    written_off()
    boot = factories.boot(lease.worker_name)
    workers.register(boot, still_running=lease.execution_id)
    assert factories.submitted().state == "QUEUED"
    executions.succeed(lease)
    workers.freed(boot, lease.execution_id)
    assert not Worker.objects.filter(name=boot.name, occupied_by=lease.execution_id).exists()
    invariants.check()


def test_a_process_of_an_execution_that_was_removed_is_no_obstacle_to_a_new_start(real_commits):
    boot = factories.boot()
    workers.register(boot, still_running=10**9)
    assert factories.worker(boot).occupied_by is None


def test_a_name_that_is_alive_elsewhere_is_refused_and_taken_over_once_it_is_not(real_commits):
    factories.online("w", host="here")
    before = database.rows()
    with pytest.raises(Refused, match="running on here already"):
        workers.register(factories.boot("w", host="there"), still_running=None)
    assert database.rows() == before
    database.execute("UPDATE jobs_worker SET expires_at = now()")
    workers.register(factories.boot("w", host="there"), still_running=None)
    assert Worker.objects.get().host == "there"


@pytest.mark.parametrize(
    ("mode", "after"),
    [
        (WorkerMode.DRAINING, WorkerMode.ACTIVE),
        (WorkerMode.DISABLED, WorkerMode.DISABLED),
        (WorkerMode.QUARANTINED, WorkerMode.QUARANTINED),
    ],
)
def test_what_an_operator_set_outlasts_a_new_start_except_a_drain(mode, after, real_commits):
    factories.online("w")
    workers.set_mode("w", mode)
    factories.online("w")
    assert Worker.objects.get().mode == after


def test_an_idle_worker_is_free_of_what_has_ended_but_not_of_what_it_has_yet_to_start(real_commits):
    boot = factories.online()
    job = factories.submitted()
    workers.renew(boot, idle=True)
    assert factories.worker(boot).occupied_by == job.current_execution
    cancellation.cancel(job.pk, job.owner)
    assert factories.worker(boot).occupied_by is not None, "its word is missing"
    workers.renew(boot, idle=True)
    assert factories.worker(boot).occupied_by is None


def test_a_worker_that_leaves_in_good_order_is_given_nothing_and_hands_back_what_it_did_not_start(real_commits):
    boot = factories.online()
    job = factories.submitted()
    workers.went_offline(boot)
    workers.hand_back(boot)
    job.refresh_from_db()
    assert (job.state, job.attempts_used, job.unstarted_in_row) == ("QUEUED", 0, 0)
    assert (Execution.objects.get().reason, factories.worker(boot).unstarted_in_row) == ("drained", 0)
    assert factories.submitted().state == "QUEUED"
    invariants.check()


def test_a_cancel_is_not_turned_into_a_time_limit(real_commits):
    job = factories.training()
    cancellation.cancel(job.pk, job.owner)
    asked = Execution.objects.get().stop_requested_at
    executions.time_limit_reached(factories.lease(job), 60)
    execution = Execution.objects.get()
    assert (execution.stop_reason, execution.stop_requested_at) == ("cancelled", asked)


def test_a_time_limit_is_noted_as_the_reason_to_stop(real_commits):
    lease = factories.lease(factories.training())
    executions.time_limit_reached(lease, 60)
    execution = Execution.objects.get()
    assert (execution.stop_reason, execution.stop_requested_at is not None) == ("time_limit", True)
