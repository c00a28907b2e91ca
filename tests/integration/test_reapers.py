"""Several reapers, paused and killed ones too: one is active, and whatever happens is done once and whole."""

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from functools import partial

import pytest
from django.conf import settings
from django.db import connection, transaction

from config.environment import BASE_DIR
from jobs import reaper
from jobs.commands import cancellation, executions, requeueing
from jobs.models import Event, Execution, Job, ReaperLease
from tests import database, factories, invariants

SECOND = "statement_timestamp() - interval '1 second'"


def overdue() -> None:
    database.execute(f"UPDATE jobs_heartbeat SET expires_at = {SECOND}")


def wait_until_blocked() -> None:
    """Until somebody waits for a lock."""
    deadline = time.monotonic() + 60
    while not _blocked():
        assert time.monotonic() < deadline, "nobody waits for a lock"
        time.sleep(0.01)


def _blocked() -> bool:
    with connection.cursor() as cursor:
        # Within a transaction, the view stands still otherwise.
        cursor.execute("SELECT pg_stat_clear_snapshot()")
        cursor.execute("SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()")
        return cursor.fetchone() is not None


@pytest.fixture
def reaper_process(real_commits) -> Iterator[subprocess.Popen[str]]:
    """`reap_zombies --loop` as a process of its own, on this test's database."""
    name = settings.DATABASES["default"]["NAME"]
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "config.settings",
        "DATABASE_URL": f"postgresql://rerail@/{name}?host={settings.POSTGRES_SOCKETS}",
        "REDIS_URL": settings.REDIS_URL,
    }
    command = [sys.executable, "manage.py", "reap_zombies", "--loop", "--interval", "0.2", "--json"]
    with subprocess.Popen(command, cwd=BASE_DIR, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def test_one_of_two_is_active_until_it_retires_or_its_lease_runs_out(real_commits):
    one, two = uuid.uuid4(), uuid.uuid4()
    assert reaper.lead(one, "a", 1, seconds=60) is True
    assert reaper.lead(two, "b", 2, seconds=60) is False
    assert reaper.lead(one, "a", 1, seconds=60) is True
    reaper.retire(two)
    assert reaper.lead(two, "b", 2, seconds=60) is False
    reaper.retire(one)
    assert reaper.lead(two, "b", 2, seconds=60) is True
    database.execute(f"UPDATE jobs_reaperlease SET expires_at = {SECOND}")
    assert reaper.lead(one, "a", 1, seconds=60) is True
    assert reaper.lead(two, "b", 2, seconds=60) is False


def test_of_eight_that_want_to_be_active_at_once_one_is(crew):
    for _ in range(20):
        ReaperLease.objects.update(holder=None, expires_at=None)
        holders = [uuid.uuid4() for _ in range(8)]
        led = crew.together([partial(reaper.lead, holder, "a", 1, 60) for holder in holders])
        assert led.count(True) == 1
        assert ReaperLease.objects.get().holder == holders[led.index(True)]


def test_two_that_sweep_at_once_do_each_thing_once(crew):
    jobs = [factories.running() for _ in range(6)] + [factories.assigned() for _ in range(4)]
    overdue()
    sweeps = crew.together([reaper.sweep, reaper.sweep, reaper.sweep])
    found = [finding.job_id for sweep in sweeps for finding in sweep.findings]
    assert sorted(found) == sorted(job.pk for job in jobs)
    assert Event.objects.filter(kind="requeued").count() == len(jobs)
    invariants.check()


def test_a_lease_renewed_after_it_was_read_and_before_it_is_locked_is_spared(crew):
    first, renewed = factories.running(), factories.running()
    overdue()
    database.execute("UPDATE jobs_heartbeat SET expires_at = expires_at - interval '1 minute' WHERE execution_id = %s",
                     factories.lease(first).execution_id)  # fmt: skip
    with transaction.atomic():
        # The sweep has read both when it waits here for the first.
        Execution.objects.select_for_update().get(pk=factories.lease(first).execution_id)
        sweeping = crew.start(reaper.sweep)
        wait_until_blocked()
        crew.start(partial(executions.beat, factories.lease(renewed))).result()
    assert [finding.job_id for finding in sweeping.result().findings] == [first.pk]
    renewed.refresh_from_db()
    assert renewed.state == "RUNNING"
    invariants.check()


def test_a_job_that_somebody_holds_is_left_for_the_next_sweep_and_delays_no_other(crew):
    held, other = factories.running(), factories.running()
    overdue()
    with transaction.atomic():
        Job.objects.select_for_update().get(pk=held.pk)
        assert [finding.job_id for finding in crew.start(reaper.sweep).result().findings] == [other.pk]
    assert [finding.job_id for finding in reaper.sweep().findings] == [held.pk]
    invariants.check()


def test_a_job_that_took_a_new_place_after_it_was_read_is_spared(real_commits):
    job = factories.queued(queue_timeout_seconds=60)
    cancellation.cancel(job.pk, job.owner)
    requeueing.requeue(job.pk, job.owner)
    assert reaper._expire_queue(job, "It read an earlier place.") is False
    job.refresh_from_db()
    assert job.state == "QUEUED"
    invariants.check()


def test_one_that_is_killed_in_the_middle_leaves_nothing_half_done(reaper_process):
    jobs = [factories.running() for _ in range(6)]
    leases = [factories.lease(job) for job in jobs]
    with transaction.atomic():
        # It ends the first three, and waits for the fourth within that one's transaction.
        Execution.objects.select_for_update().get(pk=leases[3].execution_id)
        for index, lease in enumerate(leases):
            database.execute("SET LOCAL lock_timeout = '10s'")
            crewless_overdue(lease.execution_id, 100 - index)
        wait_until_blocked()
        reaper_process.send_signal(signal.SIGKILL)
        reaper_process.wait()
        states = list(Job.objects.order_by("pk").values_list("state", flat=True))
        assert states == ["QUEUED"] * 3 + ["RUNNING"] * 3
    invariants.check()

    assert len(reaper.sweep().findings) == 3
    assert set(Job.objects.values_list("state", flat=True)) == {"QUEUED"}
    assert Event.objects.filter(kind="requeued").count() == 6
    invariants.check()


def crewless_overdue(execution_id: int, seconds: int) -> None:
    """Committed from a connection of its own, beside the transaction that holds a lock."""
    import psycopg

    with psycopg.connect(**connection.get_connection_params() | {"cursor_factory": psycopg.ClientCursor}) as beside:
        beside.execute(
            "UPDATE jobs_heartbeat SET expires_at = statement_timestamp() - make_interval(secs => %s)"
            " WHERE execution_id = %s",
            [seconds, execution_id],
        )


def test_a_paused_one_holds_up_no_other_for_longer_than_its_lease(reaper_process):
    reaper_process.stdout.readline()  # it has swept once: it is active
    reaper_process.send_signal(signal.SIGSTOP)
    job = factories.running()
    overdue()
    mine = uuid.uuid4()
    assert reaper.lead(mine, "b", 2, seconds=60) is False
    database.execute(f"UPDATE jobs_reaperlease SET expires_at = {SECOND}")
    assert reaper.lead(mine, "b", 2, seconds=60) is True
    assert [finding.job_id for finding in reaper.sweep().findings] == [job.pk]
    reaper_process.send_signal(signal.SIGCONT)
    reaper_process.terminate()
    reaper_process.communicate(timeout=60)
    assert ReaperLease.objects.get().holder == mine, "the one that was paused does not retire the other"
    invariants.check()


def test_one_job_that_cannot_be_reaped_holds_up_neither_the_others_nor_dispatch(real_commits, caplog):
    poisoned, other = factories.running(), factories.running()
    factories.online()
    overdue()
    database.execute(f"""
        CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN IF NEW.id = {poisoned.pk} THEN RAISE EXCEPTION 'poisoned' USING ERRCODE = 'check_violation'; END IF;
        RETURN NEW; END $$""")
    database.execute("CREATE TRIGGER refuse BEFORE UPDATE ON jobs_job FOR EACH ROW EXECUTE FUNCTION refuse()")
    try:
        sweep = reaper.sweep()
    finally:
        database.execute("DROP FUNCTION refuse CASCADE")
    assert [finding.job_id for finding in sweep.findings] == [other.pk]
    assert "poisoned" in caplog.text
    assert [finding.job_id for finding in reaper.sweep().findings] == [poisoned.pk]
