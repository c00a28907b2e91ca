"""POST /jobs/{id}/requeue."""

import pytest

from jobs.commands import checkpoints, executions
from jobs.commands.checkpoints import Snapshot
from jobs.models import Job
from jobs.states import FINAL, JobState
from tests import factories, invariants
from tests.integration.client import ApiClient, problem, problem_errors

SNAPSHOT = Snapshot(manifest_key="none", file_count=2, total_bytes=30, new_bytes=20, step=5, final=False)


def with_checkpoints(api: ApiClient, number: int) -> Job:
    """An ended job with so many checkpoints."""
    job = factories.running(api.person)
    for _ in range(number):
        checkpoints.commit(factories.lease(job), SNAPSHOT)
    executions.fail(factories.lease(job), factories.failure())
    return job


@pytest.mark.parametrize("state", sorted(FINAL))
def test_an_ended_job_goes_back_to_the_queue_with_a_fresh_budget(api: ApiClient, state: JobState) -> None:
    job = factories.job_in(state, api.person)
    response = api.post(f"/jobs/{job.pk}/requeue")
    assert response.status_code == 202
    answer = response.json()
    assert (answer["state"], answer["attempts_left"], answer["reason"]) == ("QUEUED", 3, None)
    invariants.check()


def test_a_job_that_has_not_ended_is_not_requeued(api: ApiClient) -> None:
    problem(api.post(f"/jobs/{factories.running(api.person).pk}/requeue"), 409, "wrong_state")


def test_it_begins_from_the_checkpoint_asked_for(api: ApiClient) -> None:
    for asked, expected in (("latest", 2), ("none", None), (1, 1), ("1", 1)):
        job = with_checkpoints(api, 2)
        assert api.post(f"/jobs/{job.pk}/requeue", {"from_checkpoint": asked}).status_code == 202
        resumed = Job.objects.get(pk=job.pk).resume_checkpoint
        assert (resumed.n if resumed else None) == expected
    job = with_checkpoints(api, 1)
    assert api.post(f"/jobs/{job.pk}/requeue", {"from_checkpoint": f"{job.pk}/1"}).status_code == 202


@pytest.mark.parametrize(
    "asked", ["", "first", "0", 7, -1, 2**62, "9" * 39, "9" * 41, "1/1/1", "\0", "٣", None, True, 1.5, []]
)
def test_a_checkpoint_that_it_does_not_have_is_refused(api: ApiClient, asked: object) -> None:
    job = with_checkpoints(api, 1)
    errors = problem_errors(api.post(f"/jobs/{job.pk}/requeue", {"from_checkpoint": asked}))
    assert set(errors) == {"from_checkpoint"}
    assert Job.objects.get(pk=job.pk).state == "FAILED"


def test_only_who_may_act_on_a_job_requeues_it(
    api: ApiClient, other_api: ApiClient, viewer_api: ApiClient, operator_api: ApiClient
) -> None:
    path = f"/jobs/{factories.failed(api.person).pk}/requeue"
    problem(other_api.post(path), 404, "not_found")
    problem(viewer_api.post(path), 403, "forbidden")
    assert operator_api.post(path).status_code == 202
