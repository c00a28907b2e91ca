"""Events are numbered without holes, in the order of their commits, whoever writes and whatever is undone."""

import random
from functools import partial

from django.db import transaction

from jobs import transition
from jobs.commands import cancellation, edits, executions
from jobs.models import Event, Execution, Job, Priority
from jobs.states import EventKind, Phase, Reason
from jobs.timeline import Fact
from tests import factories, invariants

WRITERS = 8
EACH = 12


class Undone(Exception):
    """What makes a writer roll back."""


def write(job_id: int, writer: int) -> int:
    """Write events in many transactions, of which a third are rolled back; returns how many were kept."""
    luck, kept = random.Random(writer), 0
    for _ in range(EACH):
        count = luck.randint(1, 3)
        try:
            with transaction.atomic():
                facts = [Fact(kind=EventKind.PRIORITY_CHANGED, message=f"By {writer}.") for _ in range(count)]
                transition.note(job_id=job_id, facts=facts, actor=f"writer {writer}")
                if luck.random() < 0.33:
                    raise Undone
        except Undone:
            continue
        kept += count
    return kept


def test_eight_writers_of_whom_some_roll_back_leave_no_hole(crew):
    job = factories.queued()
    kept = crew.together([partial(write, job.pk, writer) for writer in range(WRITERS)])
    assert Event.objects.filter(job=job).count() == job.last_seq + sum(kept)
    invariants.check()


def test_whoever_reads_while_events_are_written_never_sees_a_later_one_before_an_earlier(crew):
    job = factories.queued()
    writing = [crew.start(partial(write, job.pk, writer)) for writer in range(WRITERS)]
    seen: list[int] = []
    while True:
        done = all(errand.done for errand in writing)
        after = seen[-1] if seen else 0
        seen += Event.objects.filter(job=job, seq__gt=after).order_by("seq").values_list("seq", flat=True)
        if done:
            break
    job.refresh_from_db()
    assert seen == list(range(1, job.last_seq + 1))


def test_the_story_of_a_job_that_fails_comes_back_and_succeeds(real_commits):
    job = factories.training()
    executions.fail(factories.lease(job), factories.failure(Reason.DISK_FULL, message="The disk is full."))
    factories.online(labels=job.worker_labels)
    executions.start(factories.lease(job))
    executions.succeed(factories.lease(job))
    told = list(job.events.values_list("kind", "actor", "execution__number", "reason"))
    worker_one, worker_two = (f"worker:{name}" for name in job.executions.values_list("worker_name", flat=True))
    assert told == [
        ("submitted", f"user:{job.owner}", None, ""),
        ("queued", f"user:{job.owner}", None, ""),
        ("assigned", "dispatcher", 1, ""),
        ("started", worker_one, 1, ""),
        ("phase_changed", worker_one, 1, ""),
        ("execution_failed", worker_one, 1, "disk_full"),
        ("requeued", worker_one, 1, ""),
        ("assigned", "dispatcher", 2, ""),
        ("started", worker_two, 2, ""),
        ("succeeded", worker_two, 2, ""),
    ]
    invariants.check()


def test_only_a_retry_that_waits_says_until_when(real_commits):
    job = factories.running(max_attempts=5)
    for attempt in range(3):
        executions.fail(factories.lease(job), factories.failure(Reason.DISK_FULL))
        job.refresh_from_db()
        told = [*job.events.values_list("kind", flat=True)]
        assert told[-3:] == ["execution_failed", "requeued", "retry_scheduled"] if attempt else ["execution_failed"]
        assert (job.not_before is not None) == bool(attempt)
        Job.objects.update(not_before=None)
        factories.online(labels=job.worker_labels)
        executions.start(factories.lease(job))
    scheduled = [event.details for event in job.events.filter(kind="retry_scheduled")]
    assert [details["attempts_left"] for details in scheduled] == [3, 2]
    assert all(details["not_before"] for details in scheduled)
    invariants.check()


def test_exhaustion_names_the_reason_of_every_attempt_of_this_budget(real_commits):
    job = factories.running(max_attempts=2, retry_on=frozenset({"lost", "failed"}))
    executions.crashed(factories.lease(job).execution_id, "w", "It is gone.")
    factories.online(labels=job.worker_labels)
    executions.start(factories.lease(job))
    executions.fail(factories.lease(job), factories.failure(Reason.OUT_OF_MEMORY))
    job.refresh_from_db()
    assert (job.state, job.reason) == ("FAILED", "attempts_exhausted")
    assert job.message == f"All 2 attempts are spent: {job.pk}.1 worker_crashed, {job.pk}.2 out_of_memory."
    assert [*job.events.values_list("kind", flat=True)][-3:] == ["execution_failed", "attempts_exhausted", "failed"]
    invariants.check()


def test_a_failure_that_ends_the_job_is_told_once(real_commits):
    job = factories.failed()
    kinds = [*job.events.values_list("kind", flat=True)]
    assert kinds.count("failed") == 1
    assert "execution_failed" not in kinds


def test_events_that_an_execution_caused_carry_it(real_commits):
    for job in (factories.succeeded(), factories.failed(), factories.cancelled()):
        assert job.events.latest("seq").execution is not None


def test_a_change_that_changes_nothing_is_not_told(real_commits):
    job = factories.running()
    cancellation.cancel(job.pk, job.owner)
    edits.edit(job.pk, job.owner, priority=Priority.HIGH)
    count = Event.objects.count()
    cancellation.cancel(job.pk, job.owner)
    edits.edit(job.pk, job.owner, priority=Priority.HIGH)
    assert Event.objects.count() == count


def test_phases_are_told_and_only_training_counts_as_time_trained(real_commits):
    from tests import database

    lease = factories.lease(factories.running())
    hour_ago = "UPDATE jobs_execution SET phase_since = now() - interval '1 hour'"
    for phase, trained in (
        (Phase.RESTORING, 0),
        (Phase.TRAINING, 0),
        (Phase.PUBLISHING, 3600),
        (Phase.TRAINING, 3600),
        (Phase.PUBLISHING, 7200),
    ):
        database.execute(hour_ago)
        executions.change_phase(lease, phase)
        execution = Execution.objects.get()
        assert execution.phase == phase
        assert abs(execution.training_seconds - trained) < 60
