"""GET /jobs/{id}."""

from django.db.models import F

from jobs.commands import executions, metrics
from jobs.commands.metrics import Progress
from jobs.models import Job
from jobs.states import JobState
from tests import factories
from tests.integration.client import ApiClient, problem

FIELDS = {
    "job_id", "state", "worker_id", "name", "owner", "labels", "priority", "attempt", "attempts_left", "max_attempts",
    "progress", "waiting", "current_execution", "latest_checkpoint", "cancel_requested_at", "created_at", "started_at",
    "finished_at", "reason", "message", "last_seq",
}  # fmt: skip


def test_a_job_has_exactly_the_fields_of_the_contract_in_every_state(api: ApiClient) -> None:
    for state in JobState:
        job = factories.job_in(state, api.person)
        answer = api.get(f"/jobs/{job.pk}").json()
        assert set(answer) == FIELDS
        assert answer["state"] == state
        assert answer["job_id"] == job.pk
        assert answer["last_seq"] == job.last_seq


def test_a_job_names_its_worker_while_it_has_one_and_the_last_one_at_the_end(api: ApiClient) -> None:
    job = factories.running(api.person)
    lease = factories.lease(job)
    seen = api.get(f"/jobs/{job.pk}").json()
    assert (seen["worker_id"], seen["current_execution"]) == (lease.worker_name, lease.label)
    executions.release(lease)
    seen = api.get(f"/jobs/{job.pk}").json()
    assert (seen["state"], seen["worker_id"], seen["current_execution"]) == ("QUEUED", None, None)
    ended = factories.succeeded(api.person)
    seen = api.get(f"/jobs/{ended.pk}").json()
    assert (seen["worker_id"], seen["current_execution"]) == (factories.lease(ended).worker_name, None)


def test_progress_is_the_lease_s_while_it_runs_and_stays_when_it_ends(api: ApiClient) -> None:
    job = factories.running(api.person)
    lease = factories.lease(job)
    path = f"/jobs/{job.pk}"
    assert api.get(path).json()["progress"] == {"step": None, "total": None, "eta_seconds": None}
    metrics.append(lease, 0, 10, [], Progress(step=30, total=100, rate=2.0))
    assert api.get(path).json()["progress"] == {"step": 30, "total": 100, "eta_seconds": 35.0}
    executions.succeed(lease)
    assert api.get(path).json()["progress"] == {"step": 30, "total": 100, "eta_seconds": None}


def test_an_odd_rate_gives_no_estimate_rather_than_an_error(api: ApiClient) -> None:
    job = factories.running(api.person)
    for offset, rate in enumerate([0.0, -1.0, float("inf"), float("nan"), 5e-324]):
        metrics.append(factories.lease(job), offset, offset + 1, [], Progress(step=1, total=10**18, rate=rate))
        assert api.get(f"/jobs/{job.pk}").json()["progress"]["eta_seconds"] in (None, 0.0)


def test_attempts_left_counts_those_charged(api: ApiClient) -> None:
    job = factories.queued(api.person, max_attempts=3)
    Job.objects.filter(pk=job.pk).update(attempts_used=F("attempts_used") + 2)
    assert api.get(f"/jobs/{job.pk}").json()["attempts_left"] == 1


def test_an_ended_job_tells_why(api: ApiClient) -> None:
    seen = api.get(f"/jobs/{factories.failed(api.person).pk}").json()
    assert seen["reason"] == "script_error"
    assert seen["message"].endswith(".")
    assert seen["finished_at"]


def test_nobody_learns_whether_a_job_exists_that_is_not_theirs(api: ApiClient, other_api: ApiClient) -> None:
    foreign = factories.queued(other_api.person)
    there = problem(api.get(f"/jobs/{foreign.pk}"), 404, "not_found")
    absent = problem(api.get("/jobs/987654321"), 404, "not_found")
    assert there["detail"].replace(str(foreign.pk), "N") == absent["detail"].replace("987654321", "N")


def test_operators_and_viewers_see_every_job(api: ApiClient, operator_api: ApiClient, viewer_api: ApiClient) -> None:
    job = factories.queued(api.person)
    for client in (operator_api, viewer_api):
        assert client.get(f"/jobs/{job.pk}").json()["owner"] == "ada"


def test_somebody_without_a_role_sees_nothing(api: ApiClient) -> None:
    job = factories.queued(api.person)
    api.person.groups.clear()
    problem(api.get(f"/jobs/{job.pk}"), 404, "not_found")


def test_a_number_that_no_job_can_have_is_not_found(api: ApiClient) -> None:
    for number in ("0", str(2**63), "9" * 30, "9" * 5000):
        problem(api.get(f"/jobs/{number}"), 404, "not_found")


def test_a_job_takes_a_bounded_number_of_statements(api: ApiClient, statements) -> None:
    job = factories.running(api.person)
    with statements() as seen:
        api.get(f"/jobs/{job.pk}")
    # Warm: the token was noted by no call before, so its use is.
    assert len(seen) == 4
    with statements() as seen:
        api.get(f"/jobs/{job.pk}")
    assert len(seen) == 3
