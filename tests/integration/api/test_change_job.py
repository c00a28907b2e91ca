"""PATCH /jobs/{id}."""

import pytest

from jobs.models import Event, Job
from tests import factories
from tests.integration.client import ApiClient, problem, problem_errors


def test_name_labels_and_priority_change_and_the_rest_stays(api: ApiClient) -> None:
    job = factories.queued(api.person, name="old", labels={"a": "1"})
    answer = api.patch(f"/jobs/{job.pk}", {"name": "new"}).json()
    assert (answer["name"], answer["labels"], answer["priority"]) == ("new", {"a": "1"}, "normal")
    answer = api.patch(f"/jobs/{job.pk}", {"labels": {}, "priority": "high"}).json()
    assert (answer["name"], answer["labels"], answer["priority"]) == ("new", {}, "high")
    assert Event.objects.filter(job=job, kind="priority_changed").count() == 1


def test_nothing_given_changes_nothing(api: ApiClient) -> None:
    job = factories.queued(api.person)
    before = api.get(f"/jobs/{job.pk}").json()
    assert api.patch(f"/jobs/{job.pk}", {}).json() == before


def test_the_priority_of_an_ended_job_is_not_changed(api: ApiClient) -> None:
    job = factories.succeeded(api.person)
    problem(api.patch(f"/jobs/{job.pk}", {"priority": "low"}), 409, "wrong_state")
    assert api.patch(f"/jobs/{job.pk}", {"name": "kept"}).json()["name"] == "kept"


@pytest.mark.parametrize(
    "change",
    [
        {"name": ""},
        {"name": " "},
        {"name": None},
        {"name": "\0"},
        {"labels": {"=": ""}},
        {"priority": 1},
        {"state": "FAILED"},
    ],
)
def test_a_bad_change_is_refused_and_changes_nothing(api: ApiClient, change: dict[str, object]) -> None:
    job = factories.queued(api.person, name="old")
    errors = problem_errors(api.patch(f"/jobs/{job.pk}", {"priority": "high", **change}))
    assert set(errors) == set(change)
    stored = Job.objects.get(pk=job.pk)
    assert (stored.name, stored.priority) == ("old", 0)


def test_only_who_may_act_on_a_job_changes_it(
    api: ApiClient, other_api: ApiClient, viewer_api: ApiClient, operator_api: ApiClient
) -> None:
    path = f"/jobs/{factories.queued(api.person).pk}"
    problem(other_api.patch(path, {"name": "x"}), 404, "not_found")
    problem(viewer_api.patch(path, {"name": "x"}), 403, "forbidden")
    assert operator_api.patch(path, {"name": "x"}).status_code == 200
