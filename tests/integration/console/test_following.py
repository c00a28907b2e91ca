"""A follower is told each event once and in order, whatever happens meanwhile."""

from functools import partial

import pytest
from django.db import connection

from jobs.commands import executions
from jobs.console.following import Away, Gone, Polling, follow
from jobs.models import Job
from jobs.selectors import following
from jobs.selectors.following import Look
from jobs.states import JobState, Phase
from tests import factories


def told(news):
    return [event.seq for item in news if isinstance(item, Look) for event in item.events]


def life_of(job):
    """What is still to come for a running job, a step at a time."""
    lease = factories.lease(job)
    return [
        partial(executions.change_phase, lease, Phase.TRAINING),
        partial(executions.change_phase, lease, Phase.PUBLISHING),
        partial(executions.succeed, lease),
    ]


@pytest.mark.django_db
def test_each_event_is_told_once_and_in_order_while_the_job_goes_on(meanwhile):
    job = factories.running()
    meanwhile(*life_of(job))

    news = list(follow(Polling(job.pk)))

    job.refresh_from_db()
    assert told(news) == list(range(1, job.last_seq + 1))
    last = news[-1]
    assert isinstance(last, Look)
    assert last.state is JobState.SUCCEEDED


@pytest.mark.django_db
def test_whoever_names_the_last_number_gets_each_later_event_once(meanwhile):
    job = factories.running()
    seen = job.last_seq
    meanwhile(*life_of(job))

    assert told(follow(Polling(job.pk), after=seen)) == [seen + 1, seen + 2, seen + 3]


@pytest.mark.django_db
def test_following_an_ended_job_ends_at_once(meanwhile):
    job = factories.failed()
    meanwhile()

    assert told(follow(Polling(job.pk))) == list(range(1, job.last_seq + 1))


@pytest.mark.django_db
def test_more_events_than_one_look_holds_are_all_told(monkeypatch, meanwhile):
    monkeypatch.setattr(following, "BATCH", 2)
    job = factories.succeeded()
    meanwhile()

    assert told(follow(Polling(job.pk))) == list(range(1, job.last_seq + 1))


@pytest.mark.django_db
def test_a_number_from_beyond_the_timeline_does_not_wait_for_ever(meanwhile):
    job = factories.succeeded()
    meanwhile()

    assert told(follow(Polling(job.pk), after=job.last_seq + 100)) == []


@pytest.mark.django_db
def test_a_job_that_is_removed_meanwhile_is_gone(meanwhile):
    job = factories.queued()
    meanwhile(Job.objects.filter(pk=job.pk).delete)

    with pytest.raises(Gone, match=f"no job {job.pk}"):
        list(follow(Polling(job.pk)))


@pytest.mark.django_db
def test_the_bar_knows_how_far_the_script_is(meanwhile):
    from jobs.commands import metrics
    from jobs.commands.metrics import Progress

    job = factories.training()
    metrics.append(factories.lease(job), 0, 10, [], Progress(step=7, total=30, rate=None))
    meanwhile(partial(executions.succeed, factories.lease(job)))

    first = next(follow(Polling(job.pk)))

    assert isinstance(first, Look)
    assert (first.step, first.total, first.phase) == (7, 30, "training")


def test_a_killed_connection_costs_no_event_and_none_is_told_twice(crew, meanwhile):
    job = factories.running()
    steps = life_of(job)
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        (backend,) = cursor.fetchone()
    meanwhile(steps[0], partial(crew.together, [partial(_terminate, backend)]), *steps[1:])

    news = list(follow(Polling(job.pk)))

    job.refresh_from_db()
    assert told(news) == list(range(1, job.last_seq + 1))


def test_an_outage_is_told_once_and_waited_for(real_commits, meanwhile, monkeypatch):
    job = factories.running()
    steps = life_of(job)
    host = connection.settings_dict["HOST"]
    move = partial(monkeypatch.setitem, connection.settings_dict, "HOST")

    def away():
        connection.close()
        move("/nonexistent")

    meanwhile(steps[0], away, lambda: None, lambda: None, partial(move, host), *steps[1:])

    news = list(follow(Polling(job.pk)))

    job.refresh_from_db()
    assert told(news) == list(range(1, job.last_seq + 1))
    assert len([item for item in news if isinstance(item, Away)]) == 1


def _terminate(backend):
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s)", [backend])
