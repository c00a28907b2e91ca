"""What is overdue by the database's clock is found, told with its cause, and acted on exactly once."""

import json

import pytest
import time_machine
from django.core.management import call_command
from django.utils import timezone

from jobs import reaper
from jobs.commands import cancellation, executions, workers
from jobs.models import Execution, Job, Worker, WorkerExclusion, WorkerMode
from tests import database, factories, invariants


def overdue(job: Job | None = None, seconds: int = 60) -> None:
    """Let the deadline of a job's execution pass; of every one, when none is named."""
    database.execute(
        "UPDATE jobs_heartbeat h SET expires_at = statement_timestamp() - make_interval(secs => %s)"
        " FROM jobs_execution e WHERE e.id = h.execution_id AND (%s::bigint IS NULL OR e.job_id = %s)",
        seconds,
        job and job.pk,
        job and job.pk,
    )


def sweep_again_and_again(job: Job, times: int) -> None:
    """Hand the job to a new worker and let it not start there, `times` times."""
    for _ in range(times):
        if not Execution.objects.filter(state="ASSIGNED").exists():
            factories.online(labels=job.worker_labels)
        overdue(job)
        reaper.sweep()
    job.refresh_from_db()


def kinds(job: Job, last: int) -> list[str]:
    return [*job.events.values_list("kind", flat=True)][-last:]


def test_an_expired_lease_is_requeued_and_the_timeline_says_why(real_commits):
    job = factories.running()
    overdue()
    (finding,) = reaper.sweep().findings
    job.refresh_from_db()
    assert (finding.job_id, finding.action, finding.execution) == (job.pk, "lose", f"{job.pk}.1")
    assert "not been heard of" in finding.why
    assert (job.state, job.attempts_used, job.not_before) == ("QUEUED", 1, None)
    assert kinds(job, 2) == ["lease_expired", "requeued"]
    event = job.events.get(kind="lease_expired")
    assert (event.actor, event.reason, event.execution_id) == ("reaper", "lease_expired", Execution.objects.get().pk)
    assert set(event.details) == {"silent_seconds", "worker"}
    invariants.check()


def test_the_second_loss_waits_for_its_backoff_and_says_so(real_commits):
    job = factories.running()
    for attempt in (1, 2):
        overdue()
        reaper.sweep()
        job.refresh_from_db()
        if attempt == 1:
            factories.online(labels=job.worker_labels)
            executions.start(factories.lease(job))
    assert kinds(job, 3) == ["lease_expired", "requeued", "retry_scheduled"]
    wait = (job.not_before - job.events.last().recorded_at).total_seconds()
    assert 3 < wait <= 5
    invariants.check()


def test_the_last_loss_fails_the_job_and_names_every_attempt(real_commits):
    job = factories.running(max_attempts=2)
    for attempt in (1, 2):
        if attempt == 2:
            factories.online(labels=job.worker_labels)
            executions.start(factories.lease(job))
        overdue()
        reaper.sweep()
    job.refresh_from_db()
    assert (job.state, job.reason) == ("FAILED", "attempts_exhausted")
    assert kinds(job, 3) == ["lease_expired", "attempts_exhausted", "failed"]
    assert job.message == f"All 2 attempts are spent: {job.pk}.1 lease_expired, {job.pk}.2 lease_expired."
    invariants.check()


def test_a_job_that_is_to_be_cancelled_is_not_brought_back(real_commits):
    job = factories.running()
    cancellation.cancel(job.pk, job.owner)
    overdue()
    reaper.sweep()
    job.refresh_from_db()
    assert (job.state, Execution.objects.get().state) == ("CANCELLED", "LOST")
    assert kinds(job, 2) == ["lease_expired", "cancelled"]
    invariants.check()


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


def test_a_review_that_nobody_gives_sends_the_job_back_and_excludes_the_worker_for_ten_minutes(real_commits):
    job = factories.pending_review()
    overdue()
    (finding,) = reaper.sweep().findings
    job.refresh_from_db()
    assert (finding.action, job.state, job.attempts_used) == ("expire_review", "QUEUED", 0)
    assert kinds(job, 2) == ["review_expired", "requeued"]
    exclusion = WorkerExclusion.objects.get()
    assert exclusion.worker.name == Execution.objects.get().worker_name
    left = (exclusion.until - job.events.last().recorded_at).total_seconds()
    assert 590 < left < 610
    assert factories.worker(factories.boot(exclusion.worker.name)).unstarted_in_row == 0
    invariants.check()


def test_a_queue_timeout_fails_what_nobody_took(real_commits):
    patient, hasty = factories.queued(), factories.queued(queue_timeout_seconds=60)
    database.execute("UPDATE jobs_job SET queued_at = now() - interval '59 seconds'")
    assert reaper.sweep().findings == ()
    database.execute("UPDATE jobs_job SET queued_at = now() - interval '61 seconds'")
    (finding,) = reaper.sweep().findings
    patient.refresh_from_db()
    hasty.refresh_from_db()
    assert (finding.action, finding.execution, patient.state) == ("expire_queue", None, "QUEUED")
    assert (hasty.state, hasty.reason) == ("FAILED", "queue_timeout")
    assert kinds(hasty, 2) == ["queue_expired", "failed"]
    invariants.check()


def test_a_queue_timeout_counts_from_the_return_to_the_queue_though_the_place_is_older(real_commits):
    job = factories.running(queue_timeout_seconds=60)
    database.execute("UPDATE jobs_job SET queued_at = now() - interval '1 hour'")
    executions.crashed(factories.lease(job).execution_id, "w", "It is gone.")
    assert reaper.sweep().findings == ()
    database.execute("UPDATE jobs_job SET not_before = now() - interval '50 seconds'")
    database.execute("UPDATE jobs_execution SET finished_at = now() - interval '61 seconds'")
    assert reaper.sweep().findings == (), "a backoff is not the queue's fault"
    database.execute("UPDATE jobs_job SET not_before = now() - interval '61 seconds'")
    assert [finding.action for finding in reaper.sweep().findings] == ["expire_queue"]
    invariants.check()


def everything_is_overdue() -> None:
    factories.running()
    factories.assigned()
    factories.pending_review()
    factories.queued(queue_timeout_seconds=60)
    database.execute("UPDATE jobs_job SET queued_at = now() - interval '61 seconds' WHERE state = 'QUEUED'")
    overdue()


def test_a_dry_run_says_what_a_sweep_would_do_and_does_nothing(real_commits):
    everything_is_overdue()
    factories.online()
    database.execute("UPDATE jobs_worker SET expires_at = now()")
    before = database.rows()
    told = reaper.sweep(dry_run=True)
    assert database.rows() == before
    done = reaper.sweep()
    assert {(one.job_id, one.action) for one in told.findings} == {(one.job_id, one.action) for one in done.findings}
    assert len(done.findings) == 4
    assert reaper.sweep(dry_run=True).findings == ()


@pytest.mark.parametrize("minutes", [-10, 10])
def test_a_clock_that_is_wrong_by_ten_minutes_changes_nothing(minutes, real_commits):
    with time_machine.travel(timezone.now() + timezone.timedelta(minutes=minutes), tick=True):
        job, other = factories.running(), factories.assigned()
        executions.beat(factories.lease(job))
        assert reaper.sweep().findings == ()
        overdue()
        executions.beat(factories.lease(job))
        assert [finding.job_id for finding in reaper.sweep().findings] == [other.pk]
        assert reaper.sweep().findings == ()
        factories.queued(queue_timeout_seconds=60)
        assert reaper.sweep().findings == ()
        assert factories.online().name in {w.name for w in Worker.objects.all()}
        assert factories.submitted().state == "ASSIGNED"
    invariants.check()


def test_a_sweep_looks_after_its_own_freshness(real_commits):
    reaper.sweep()
    reaper.sweep()
    lease = reaper.ReaperLease.objects.get()
    assert (lease.sweeps, lease.summary) == (2, {"findings": 0, "rung": 0, "assigned": 0})
    assert lease.swept_at is not None


def test_the_next_expiry_is_what_the_reaper_sleeps_until(real_commits):
    assert reaper.seconds_to_next_expiry() is None
    factories.running()
    assert 15 < reaper.seconds_to_next_expiry() <= 20
    overdue(seconds=5)
    assert reaper.seconds_to_next_expiry() <= -5


def test_its_command_answers_in_json_a_line_for_each_sweep(real_commits, capsys):
    everything_is_overdue()
    call_command("reap_zombies", "--dry-run", "--json")
    call_command("reap_zombies", "--once", "--json")
    dry, wet = map(json.loads, capsys.readouterr().out.splitlines())
    assert (dry["active"], dry["dry_run"], wet["dry_run"]) == (True, True, False)
    assert len(dry["findings"]) == len(wet["findings"]) == 4
    assert set(wet["findings"][0]) == {"job_id", "execution", "action", "why"}


def test_its_command_says_in_words_what_it_did(real_commits, capsys):
    job = factories.running()
    overdue()
    call_command("reap_zombies")
    assert capsys.readouterr().out.startswith(f"{job.pk}.1 was ended by lose: Worker")
    call_command("reap_zombies")
    assert capsys.readouterr().out == "Nothing is overdue.\n"
