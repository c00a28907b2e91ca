"""POST /jobs/{id}/cancel and DELETE /jobs/{id}."""

import pytest

from jobs.models import Job
from jobs.states import FINAL, WAITING, JobState
from tests import factories, invariants
from tests.integration.client import ApiClient, problem, problem_errors


@pytest.mark.parametrize("method", ["cancel", "delete"])
@pytest.mark.parametrize("state", sorted(WAITING))
def test_a_waiting_job_is_cancelled_at_once(api: ApiClient, state: JobState, method: str) -> None:
    path = f"/jobs/{factories.job_in(state, api.person).pk}"
    response = api.post(f"{path}/cancel") if method == "cancel" else api.delete(path)
    assert response.status_code == 202
    assert response.json()["state"] == "CANCELLED"
    invariants.check()


def test_a_running_job_is_asked_to_stop_and_asking_again_is_harmless(api: ApiClient) -> None:
    path = f"/jobs/{factories.running(api.person).pk}/cancel"
    first = api.post(path).json()
    assert first["state"] == "RUNNING"
    assert first["cancel_requested_at"]
    assert api.post(path).json() == first


@pytest.mark.parametrize("state", sorted(FINAL))
def test_an_ended_job_is_not_cancelled(api: ApiClient, state: JobState) -> None:
    job = factories.job_in(state, api.person)
    problem(api.post(f"/jobs/{job.pk}/cancel"), 409, "wrong_state")
    problem(api.delete(f"/jobs/{job.pk}"), 409, "wrong_state")


def test_a_purge_is_refused_and_cancels_nothing(api: ApiClient) -> None:
    job = factories.queued(api.person)
    assert set(problem_errors(api.delete(f"/jobs/{job.pk}?purge=true"))) == {"purge"}
    assert Job.objects.get(pk=job.pk).state == "QUEUED"


def test_only_who_may_act_on_a_job_cancels_it(
    api: ApiClient, other_api: ApiClient, viewer_api: ApiClient, operator_api: ApiClient
) -> None:
    path = f"/jobs/{factories.queued(api.person).pk}/cancel"
    problem(other_api.post(path), 404, "not_found")
    problem(viewer_api.post(path), 403, "forbidden")
    assert operator_api.post(path).status_code == 202
