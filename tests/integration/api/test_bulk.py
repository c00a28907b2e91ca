"""POST /jobs/cancel and POST /jobs/requeue."""

import pytest

from jobs.commands import bulk
from jobs.models import Job
from tests import factories, invariants
from tests.integration.client import ApiClient, problem_errors


def state(pk: int) -> str:
    return Job.objects.values_list("state", flat=True).get(pk=pk)


def test_many_are_cancelled_by_id_and_the_refused_are_told_with_their_reason(
    api: ApiClient, other_api: ApiClient
) -> None:
    queued, running = factories.queued(api.person), factories.running(api.person)
    ended, foreign = factories.succeeded(api.person), factories.queued(other_api.person)
    ids = [queued.pk, ended.pk, foreign.pk, running.pk, 2**62, queued.pk]
    answer = api.post("/jobs/cancel", {"ids": ids}).json()
    assert answer["count"] == 2
    refused = {refusal["job_id"]: refusal["detail"] for refusal in answer["refused"]}
    assert set(refused) == {ended.pk, foreign.pk, 2**62}
    assert "already ended" in refused[ended.pk]
    assert refused[foreign.pk] == f"There is no job {foreign.pk}."
    assert (state(queued.pk), state(foreign.pk)) == ("CANCELLED", "QUEUED")
    invariants.check()


def test_many_are_cancelled_by_filter_which_passes_over_what_has_ended_or_is_another_s(
    api: ApiClient, other_api: ApiClient
) -> None:
    mine = [factories.queued(api.person, labels={"sweep": "7"}) for _ in range(3)]
    kept = [
        factories.queued(api.person, labels={"sweep": "8"}),
        factories.queued(other_api.person, labels={"sweep": "7"}),
        factories.succeeded(api.person, labels={"sweep": "7"}),
    ]
    answer = api.post("/jobs/cancel", {"filter": {"label": "sweep=7"}}).json()
    assert answer == {"count": 3, "refused": [], "more": False}
    assert {state(job.pk) for job in mine} == {"CANCELLED"}
    assert [state(job.pk) for job in kept] == ["QUEUED", "QUEUED", "SUCCEEDED"]


def test_a_filter_beyond_the_bound_says_that_there_are_more(api: ApiClient, monkeypatch) -> None:
    monkeypatch.setattr(bulk, "MOST", 2)
    for _ in range(3):
        factories.queued(api.person)
    answers = [api.post("/jobs/cancel", {"filter": {"state": "QUEUED"}}).json() for _ in range(2)]
    assert [(answer["count"], answer["more"]) for answer in answers] == [(2, True), (1, False)]


def test_many_are_requeued_by_filter_and_by_id(api: ApiClient) -> None:
    failed, cancelled, queued = (
        factories.failed(api.person),
        factories.cancelled(api.person),
        factories.queued(api.person),
    )
    answer = api.post("/jobs/requeue", {"filter": {"state": ["FAILED", "QUEUED"]}, "from_checkpoint": "none"}).json()
    assert answer == {"count": 1, "refused": [], "more": False}
    answer = api.post("/jobs/requeue", {"ids": [failed.pk, cancelled.pk, queued.pk]}).json()
    assert (answer["count"], len(answer["refused"])) == (1, 2)
    invariants.check()


def test_a_viewer_may_do_neither(api: ApiClient, viewer_api: ApiClient) -> None:
    job = factories.queued(api.person)
    answer = viewer_api.post("/jobs/cancel", {"ids": [job.pk]}).json()
    assert answer["count"] == 0
    assert "not change it" in answer["refused"][0]["detail"]
    assert viewer_api.post("/jobs/cancel", {"filter": {"state": "QUEUED"}}).json()["count"] == 0
    assert viewer_api.post("/jobs/cancel", {"filter": {"state": ["QUEUED", "RUNNING"]}}).json()["count"] == 0
    assert state(job.pk) == "QUEUED"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "ids"),
        ({"ids": [1], "filter": {"q": "x"}}, "ids"),
        ({"filter": {}}, "filter"),
        ({"filter": {"stat": "QUEUED"}}, "filter.stat"),
        ({"filter": {"state": "queued"}}, "filter.state.0"),
        ({"filter": {"q": "\0"}}, "filter.q"),
        ({"filter": {"label": ["\0"]}}, "filter.label.0"),
        ({"ids": ["1"]}, "ids.0"),
        ({"ids": [2**63]}, "ids.0"),
        ({"ids": [1] * 501}, "ids"),
    ],
)
def test_what_names_no_jobs_is_refused(api: ApiClient, body: object, field: str) -> None:
    for path in ("/jobs/cancel", "/jobs/requeue"):
        assert set(problem_errors(api.post(path, body))) == {field}
