"""Executions that nobody brings to their start: no charge, but neither worker nor job goes on like that for ever."""

import pytest

from jobs import reaper
from jobs.commands import executions, workers
from jobs.models import Execution, Job, WorkerMode
from tests import factories, invariants
from tests.deadlines import kinds, overdue


def sweep_again_and_again(job: Job, times: int) -> None:
    """Hand the job to a new worker and let it not start there, `times` times."""
    for _ in range(times):
        if not Execution.objects.filter(state="ASSIGNED").exists():
            factories.online(labels=job.worker_labels)
        overdue(job)
        reaper.sweep()
    job.refresh_from_db()


def test_an_assignment_that_nobody_started_is_released_at_no_charge(real_commits):
    job = factories.assigned()
    overdue()
    (finding,) = reaper.sweep().findings
    job.refresh_from_db()
    execution = Execution.objects.get()
    assert finding.action == "release"
    assert (job.state, job.attempts_used, job.unstarted_in_row) == ("QUEUED", 0, 1)
    assert (execution.state, execution.reason, execution.charged) == ("RELEASED", "never_started", False)
    assert kinds(job, 2) == ["released", "requeued"]
    assert factories.worker(factories.boot(execution.worker_name)).occupied_by_id == execution.pk, "its word is missing"
    invariants.check()


def test_three_in_a_row_quarantine_the_worker(real_commits):
    boot = factories.online()
    for count in (1, 2, 3):
        factories.submitted()
        overdue()
        reaper.sweep()
        assert factories.worker(boot).unstarted_in_row == count
        assert factories.worker(boot).mode == (WorkerMode.QUARANTINED if count == 3 else WorkerMode.ACTIVE)
        workers.renew(boot, idle=True)
    assert "3 executions in a row" in factories.worker(boot).mode_reason
    assert factories.worker(boot).occupied_by is None
    invariants.check()


def test_one_that_does_start_begins_the_row_anew(real_commits):
    boot = factories.online()
    job = factories.submitted()
    for starts in (False, False, True, False, False):
        if starts:
            lease = factories.lease(job)
            executions.start(lease)
            executions.release(lease)
        else:
            overdue()
            reaper.sweep()
        Job.objects.update(unstarted_in_row=0)
        workers.renew(boot, idle=True)
    assert (factories.worker(boot).unstarted_in_row, factories.worker(boot).mode) == (2, WorkerMode.ACTIVE)


def test_five_in_a_row_fail_the_job_whoever_had_it(real_commits):
    job = factories.assigned()
    sweep_again_and_again(job, 4)
    assert (job.state, job.unstarted_in_row) == ("QUEUED", 4)
    sweep_again_and_again(job, 1)
    assert (job.state, job.reason, job.attempts_used) == ("FAILED", "never_started", 0)
    assert kinds(job, 2) == ["released", "failed"]
    assert set(Execution.objects.values_list("state", flat=True)) == {"RELEASED"}
    invariants.check()


def test_a_start_begins_the_jobs_row_anew(real_commits):
    job = factories.assigned()
    sweep_again_and_again(job, 4)
    factories.online(labels=job.worker_labels)
    executions.start(factories.lease(job))
    job.refresh_from_db()
    assert job.unstarted_in_row == 0


@pytest.mark.parametrize(("crashes", "state"), [(4, "QUEUED"), (5, "FAILED")])
def test_a_process_that_dies_before_it_starts_counts_like_one_that_never_did(crashes, state, real_commits):
    job = factories.assigned()
    for _ in range(crashes):
        if not Execution.objects.filter(state="ASSIGNED").exists():
            factories.online(labels=job.worker_labels)
        executions.crashed(factories.lease(job).execution_id, "w", "It died before it started.")
    job.refresh_from_db()
    assert (job.state, job.attempts_used) == (state, 0)
    assert job.reason == ("never_started" if state == "FAILED" else "")
    invariants.check()


def test_a_worker_whose_processes_die_before_they_start_is_quarantined_not_fed_for_ever(real_commits):
    boot = factories.online()
    job = factories.submitted()
    rounds = 0
    while Execution.objects.filter(state="ASSIGNED").exists() and rounds < 20:
        lease = factories.lease(job)
        executions.crashed(lease.execution_id, boot.name, "It died before it started.")
        workers.freed(boot, lease.execution_id)
        rounds += 1
    assert rounds == 3
    assert factories.worker(boot).mode == WorkerMode.QUARANTINED
    job.refresh_from_db()
    assert job.state == "QUEUED"
