"""The sentence that says why a job waits."""

from dataclasses import replace
from datetime import timedelta

from django.db.models.functions import Now

from jobs.commands import queue, workers
from jobs.models import Job, Worker, WorkerExclusion
from jobs.states import JobState
from tests import factories
from tests.integration.client import ApiClient


def waiting(api: ApiClient, job: Job) -> str:
    return str(api.get(f"/jobs/{job.pk}").json()["waiting"])


def test_only_waiting_jobs_have_a_sentence(api: ApiClient) -> None:
    waits = {JobState.AWAITING_DATASET, JobState.QUEUED, JobState.ASSIGNED, JobState.PENDING_REVIEW}
    for state in JobState:
        told = api.get(f"/jobs/{factories.job_in(state, api.person).pk}").json()["waiting"]
        assert (told is not None) == (state in waits)
        assert told is None or told.endswith(".")


def test_a_queued_job_tells_what_it_wants_for(api: ApiClient, operator_api: ApiClient) -> None:
    job = factories.submitted(api.person)
    assert waiting(api, job) == "No worker is online."
    mine = factories.online("w1")
    assert waiting(api, job) == "It is about to be handed to a worker."
    workers.drain("w1", operator_api.person)
    assert waiting(api, job) == "No worker that fits takes jobs at the moment."
    workers.resume("w1")
    picky = factories.queued(api.person)
    assert waiting(api, picky) == "No worker that is online has what it asks for."
    queue.pause()
    assert waiting(api, job) == "The queue is paused."
    queue.resume()
    workers.went_offline(mine)
    assert waiting(api, job) == "No worker is online."


def test_a_worker_that_is_excluded_does_not_fit(api: ApiClient) -> None:
    factories.online("w1")
    job = factories.submitted(api.person)
    excluded = WorkerExclusion.objects.create(job=job, worker=Worker.objects.get(), reason="rejected")
    assert waiting(api, job) == "No worker that is online has what it asks for."
    WorkerExclusion.objects.filter(pk=excluded.pk).update(until=Now() - timedelta(seconds=1))
    assert waiting(api, job) == "It is about to be handed to a worker."


def test_a_queued_job_tells_that_all_are_busy(api: ApiClient) -> None:
    factories.running(api.person)
    assert waiting(api, factories.submitted(api.person)) == "All workers that fit are busy."


def test_a_job_that_backs_off_tells_until_when(api: ApiClient) -> None:
    job = factories.queued(api.person)
    Job.objects.filter(pk=job.pk).update(not_before=Now() + timedelta(seconds=60))
    assert waiting(api, job).startswith("Backing off until ")
    Job.objects.filter(pk=job.pk).update(not_before=Now() - timedelta(seconds=60))
    assert waiting(api, job) == "No worker is online."


def test_an_assigned_job_names_its_worker(api: ApiClient) -> None:
    job = factories.assigned(api.person)
    assert factories.lease(job).worker_name in waiting(api, job)


def test_an_owner_s_limit_is_told(api: ApiClient, settings) -> None:
    factories.running(api.person)
    job = factories.submitted(api.person)
    settings.RERAIL = replace(settings.RERAIL, max_running_per_owner=1)
    assert "1 job" in waiting(api, job)
