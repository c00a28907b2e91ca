"""Which job goes to which worker, and that none is given twice nor left beside one that it fits."""

import dataclasses
import datetime
import threading
from functools import partial

import pytest
from django.db import transaction
from django.utils import timezone

from jobs import dispatch
from jobs.commands import executions, workers
from jobs.models import Execution, Installation, Job, Priority, Worker, WorkerExclusion, WorkerMode
from tests import database, factories, invariants


def order_of_assignment(*jobs: Job) -> list[int]:
    """Which of `jobs` a single worker is given, one after another."""
    boot, order = factories.online(), []
    for _ in jobs:
        (execution,) = Execution.objects.filter(state="ASSIGNED", worker_name=boot.name)
        order.append(execution.job_id)
        lease = factories.lease(execution.job)
        executions.start(lease)
        executions.succeed(lease)
        workers.freed(boot, execution.pk)
    return order


def is_idle(boot) -> bool:
    return factories.worker(boot).occupied_by is None


def test_higher_priority_goes_first_then_who_was_queued_earlier(real_commits):
    owner = factories.user()
    low, first, second, high = (
        factories.submitted(owner, priority=priority)
        for priority in (Priority.LOW, Priority.NORMAL, Priority.NORMAL, Priority.HIGH)
    )
    assert order_of_assignment(low, first, second, high) == [high.pk, first.pk, second.pk, low.pk]


def test_an_owner_with_fewer_running_goes_before_one_who_queued_earlier(real_commits):
    greedy, modest = factories.user(), factories.user()
    factories.running(greedy)
    earlier, later = factories.submitted(greedy), factories.submitted(modest)
    assert order_of_assignment(earlier, later) == [later.pk, earlier.pk]


def test_priority_counts_more_than_fairness(real_commits):
    greedy, modest = factories.user(), factories.user()
    factories.running(greedy)
    high, normal = factories.submitted(greedy, priority=Priority.HIGH), factories.submitted(modest)
    assert order_of_assignment(high, normal) == [high.pk, normal.pk]


def test_an_automatic_requeue_keeps_its_place(real_commits):
    owner = factories.user()
    lost = factories.running(owner)
    later = factories.submitted(owner, worker_labels=lost.worker_labels)
    Worker.objects.update(mode=WorkerMode.DRAINING)
    executions.crashed(factories.lease(lost).execution_id, "w", "It is gone.")
    fresh = factories.online(labels=lost.worker_labels)
    lost.refresh_from_db()
    later.refresh_from_db()
    assert (lost.state, later.state) == ("ASSIGNED", "QUEUED")
    assert not is_idle(fresh)


def test_the_smallest_worker_that_fits_is_taken(real_commits):
    big, small = factories.online("big", gpus=4, ram_mb=64_000), factories.online("small", gpus=1, ram_mb=8_000)
    factories.submitted()
    assert (is_idle(big), is_idle(small)) == (True, False)


def test_a_worker_without_a_label_that_the_job_asks_for_gets_nothing(real_commits):
    plain, other = factories.online(labels={"zone": "b"}), factories.online(labels={"zone": "a", "disk": "ssd"})
    factories.submitted(worker_labels={"zone": "a"})
    assert (is_idle(plain), is_idle(other)) == (True, False)


@pytest.mark.parametrize("mode", [WorkerMode.DRAINING, WorkerMode.DISABLED, WorkerMode.QUARANTINED])
def test_a_worker_that_is_not_active_gets_nothing_until_it_is_again(mode, real_commits):
    boot = factories.online()
    workers.set_mode(boot.name, mode)
    factories.submitted()
    assert is_idle(boot)
    workers.set_mode(boot.name, WorkerMode.ACTIVE)
    assert not is_idle(boot)


def test_a_worker_that_has_not_been_heard_of_gets_nothing_until_it_is_again(real_commits):
    boot = factories.online()
    database.execute("UPDATE jobs_worker SET expires_at = now() - interval '1 ms'")
    factories.submitted()
    assert is_idle(boot)
    workers.renew(boot, idle=True)
    dispatch.run()
    assert not is_idle(boot)


def test_a_worker_whose_last_execution_has_ended_but_not_its_processes_gets_nothing(real_commits):
    boot = factories.online()
    job = factories.submitted()
    lease = factories.lease(job)
    executions.start(lease)
    executions.succeed(lease)
    waiting = factories.submitted()
    assert waiting.state == "QUEUED"
    workers.freed(boot, lease.execution_id)
    waiting.refresh_from_db()
    assert waiting.state == "ASSIGNED"
    invariants.check()


@pytest.mark.parametrize(
    ("until", "given"),
    [(None, False), (datetime.timedelta(minutes=10), False), (datetime.timedelta(minutes=-1), True)],
)
def test_a_worker_that_is_excluded_for_a_job_gets_another_instead(until, given, real_commits):
    job = factories.submitted()
    boot = factories.boot()
    Installation.objects.update(queue_paused_at=timezone.now())
    workers.register(boot, still_running=None)
    WorkerExclusion.objects.create(
        job=job, worker=factories.worker(boot), reason="rejected", until=until and timezone.now() + until
    )
    Installation.objects.update(queue_paused_at=None)
    dispatch.run()
    assert (not is_idle(boot)) == given
    if not given:
        assert factories.submitted().state == "ASSIGNED"


def test_a_paused_queue_assigns_nothing_and_goes_on_afterwards(real_commits):
    Installation.objects.update(queue_paused_at=timezone.now())
    boot = factories.online()
    factories.submitted()
    assert is_idle(boot)
    assert dispatch.run() == 0
    Installation.objects.update(queue_paused_at=None)
    assert dispatch.run() == 1


def test_a_job_in_backoff_waits_for_its_end(real_commits):
    job = factories.submitted()
    database.execute("UPDATE jobs_job SET not_before = now() + interval '1 minute'")
    boot = factories.online()
    assert is_idle(boot)
    database.execute("UPDATE jobs_job SET not_before = now()")
    dispatch.run()
    job.refresh_from_db()
    assert (job.state, job.not_before) == ("ASSIGNED", None)


def test_an_assignment_says_how_many_workers_fitted_and_were_considered(real_commits):
    job = factories.submitted(worker_labels={"a": "b"})
    Installation.objects.update(queue_paused_at=timezone.now())
    for labels in ({}, {"a": "b"}, {"a": "b", "c": "d"}):
        factories.online(labels=labels)
    Installation.objects.update(queue_paused_at=None)
    dispatch.run()
    details = job.events.get(kind="assigned").details
    assert details == {"worker": factories.lease(job).worker_name, "fitted": 2, "considered": 3}


def test_a_worker_that_wants_a_review_is_not_rung_and_the_job_says_so(real_commits, redis):
    job = factories.pending_review()
    assert redis.keys("rq:queue:*") == []
    assert [*job.events.values_list("kind", flat=True)][-2:] == ["assigned", "review_requested"]


def test_eight_dispatchers_at_once_give_every_worker_one_job_and_leave_none_idle(crew):
    for round_ in range(5):
        Installation.objects.update(queue_paused_at=timezone.now())
        owners = [factories.user() for _ in range(3)]
        boots = [factories.online(f"w{round_}-{n}", labels={"round": str(round_)}) for n in range(10)]
        for n in range(8 if round_ % 2 else 14):
            factories.submitted(owners[n % 3], worker_labels={"round": str(round_)})
        Installation.objects.update(queue_paused_at=None)

        assigned = crew.together([dispatch.run] * 8)

        expected = 8 if round_ % 2 else 10
        assert sum(assigned) == expected
        names = [boot.name for boot in boots]
        assert Execution.objects.filter(worker_name__in=names).count() == expected
        assert Worker.objects.filter(name__in=names, occupied_by=None).count() == 10 - expected
        invariants.check()


@pytest.mark.parametrize("limit", [1, 3])
def test_no_owner_has_more_running_than_it_may_however_many_dispatch(limit, crew, settings):
    settings.RERAIL = dataclasses.replace(settings.RERAIL, max_running_per_owner=limit)
    for round_ in range(5):
        Installation.objects.update(queue_paused_at=timezone.now())
        owners = [factories.user(), factories.user()]
        for n in range(8):
            factories.online(labels={"round": str(round_)})
            factories.submitted(owners[n % 2], worker_labels={"round": str(round_)})
        Installation.objects.update(queue_paused_at=None)
        crew.together([dispatch.run] * 8)
        for owner in owners:
            assert Job.objects.filter(owner=owner, state="ASSIGNED").count() == limit
    invariants.check()


def test_a_worker_locked_for_a_moment_is_neither_waited_for_nor_left_idle_beside_its_job(crew):
    boot = factories.boot()
    Installation.objects.update(queue_paused_at=timezone.now())
    workers.register(boot, still_running=None)
    factories.submitted()
    Installation.objects.update(queue_paused_at=None)
    with transaction.atomic():
        Worker.objects.select_for_update().get(name=boot.name)
        assert crew.start(dispatch.run).result() == 0
    assert dispatch.run() == 1


def test_a_dispatcher_that_found_its_worker_locked_looks_again(crew, monkeypatch):
    Installation.objects.update(queue_paused_at=timezone.now())
    boot = factories.online()
    factories.submitted()
    Installation.objects.update(queue_paused_at=None)
    really, failed, unlocked = dispatch._assign_next, threading.Event(), threading.Event()

    def watched():
        claim = really()
        if claim is None and not failed.is_set():
            failed.set()
            assert unlocked.wait(30)
        return claim

    monkeypatch.setattr(dispatch, "_assign_next", watched)
    with transaction.atomic():
        Worker.objects.select_for_update().get(name=boot.name)
        dispatching = crew.start(dispatch.run)
        assert failed.wait(30)
    unlocked.set()
    assert dispatching.result() == 1
    invariants.check()


def test_submissions_and_workers_that_come_at_the_same_time_meet(crew):
    owners = [factories.user() for _ in range(4)]
    boots = [factories.boot() for _ in range(4)]
    crew.together(
        [partial(factories.submitted, owner) for owner in owners]
        + [partial(workers.register, boot, still_running=None) for boot in boots]
    )
    assert Job.objects.filter(state="ASSIGNED").count() == 4
    assert not Worker.objects.filter(occupied_by=None).exists()
    invariants.check()
