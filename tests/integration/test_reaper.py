"""What is overdue by the database's clock is found, told with its cause, and acted on exactly once."""

import datetime
import json

import pytest
import time_machine
from django.core.management import call_command
from django.utils import timezone

from jobs import reaper
from jobs.commands import cancellation, executions
from jobs.models import Execution, ReaperLease, Worker, WorkerExclusion
from tests import database, factories, invariants
from tests.deadlines import kinds, overdue


def seconds_between(earlier: datetime.datetime, later: datetime.datetime | None) -> float:
    assert later is not None
    return (later - earlier).total_seconds()


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
    wait = seconds_between(job.events.latest("seq").recorded_at, job.not_before)
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


def test_a_review_that_nobody_gives_sends_the_job_back_and_excludes_the_worker_for_ten_minutes(real_commits):
    job = factories.pending_review()
    overdue()
    (finding,) = reaper.sweep().findings
    job.refresh_from_db()
    assert (finding.action, job.state, job.attempts_used) == ("expire_review", "QUEUED", 0)
    assert kinds(job, 2) == ["review_expired", "requeued"]
    exclusion = WorkerExclusion.objects.get()
    assert exclusion.worker.name == Execution.objects.get().worker_name
    left = seconds_between(job.events.latest("seq").recorded_at, exclusion.until)
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
    with time_machine.travel(timezone.now() + datetime.timedelta(minutes=minutes), tick=True):
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
    lease = ReaperLease.objects.get()
    assert (lease.sweeps, lease.summary) == (2, {"findings": 0, "rung": 0, "assigned": 0})
    assert lease.swept_at is not None


def test_the_next_expiry_is_what_the_reaper_sleeps_until(real_commits):
    assert reaper.seconds_to_next_expiry() is None
    factories.running()
    assert 15 < (reaper.seconds_to_next_expiry() or 0) <= 20
    overdue(seconds=5)
    assert (reaper.seconds_to_next_expiry() or 0) <= -5


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
