"""GET /queue, and holding it."""

from jobs import dispatch
from jobs.models import Job, Priority
from tests import factories
from tests.integration.client import ApiClient, problem, problem_errors


def order(api: ApiClient, limit: int = 50) -> list[int]:
    """Ids, page by page."""
    found: list[int] = []
    cursor: str | None = ""
    while cursor is not None:
        answer = api.get(f"/queue?limit={limit}" + (f"&cursor={cursor}" if cursor else "")).json()
        found += [job["job_id"] for job in answer["items"]]
        cursor = answer["next"]
    return found


def test_the_queue_is_told_in_the_order_in_which_it_is_dispatched(
    operator_api: ApiClient, api: ApiClient, other_api: ApiClient
) -> None:
    factories.running(api.person)
    for owner in (api.person, other_api.person, api.person):
        for priority in (Priority.NORMAL, Priority.LOW, Priority.HIGH):
            factories.submitted(owner, priority=priority)
    told = order(operator_api)
    assert len(told) == 9
    assert order(operator_api, limit=2) == told
    for number in range(9):
        # One worker at a time, and the owner's count made even again, so that only this order decides.
        expected = order(operator_api)[0]
        factories.online(f"next-{number}")
        dispatch.run()
        assert Job.objects.get(pk=expected).state == "ASSIGNED"


def test_each_job_tells_why_each_worker_does_not_take_it(api: ApiClient, operator_api: ApiClient) -> None:
    busy = factories.lease(factories.running(api.person))
    factories.online("free")
    factories.online("tired")
    operator_api.post("/workers/tired/drain")
    plain = factories.submitted(api.person)
    picky = factories.submitted(api.person, worker_labels={"zone": "a", "disk": "ssd"})
    answer = {job["job_id"]: job for job in api.get("/queue").json()["items"]}
    told = {verdict["name"]: verdict["why"] for verdict in answer[plain.pk]["workers"]}
    assert told == {busy.worker_name: f"busy with {busy.label}", "free": None, "tired": "draining"}
    told = {verdict["name"]: verdict["why"] for verdict in answer[picky.pk]["workers"]}
    assert told["free"] == "it does not carry disk=ssd, zone=a"
    assert answer[plain.pk].keys() - {"workers"} == api.get(f"/jobs/{plain.pk}").json().keys()


def test_a_member_sees_its_own_jobs_in_the_queue(api: ApiClient, other_api: ApiClient, viewer_api: ApiClient) -> None:
    mine, foreign = factories.queued(api.person), factories.queued(other_api.person)
    assert order(api) == [mine.pk]
    assert order(viewer_api) == [mine.pk, foreign.pk]


def test_an_operator_holds_the_queue_and_lets_it_go_on(api: ApiClient, operator_api: ApiClient) -> None:
    job = factories.submitted(api.person)
    for _ in range(2):
        assert operator_api.post("/queue/pause").json() == {"paused": True}
    assert api.get("/queue").json()["paused"] is True
    factories.online("w1")
    assert dispatch.run() == 0
    assert operator_api.post("/queue/resume").json() == {"paused": False}
    assert dispatch.run() == 1
    assert Job.objects.get(pk=job.pk).state == "ASSIGNED"


def test_resuming_dispatches(real_commits) -> None:
    operator = ApiClient(factories.user("operator"))
    operator.post("/queue/pause")
    factories.online("w1")
    job = factories.submitted()
    assert job.state == "QUEUED"
    operator.post("/queue/resume")
    job.refresh_from_db()
    assert job.state == "ASSIGNED"


def test_others_may_not(api: ApiClient, viewer_api: ApiClient) -> None:
    for client in (api, viewer_api):
        for act in ("pause", "resume"):
            problem(client.post(f"/queue/{act}"), 403, "forbidden")


def test_a_bad_cursor_is_refused(api: ApiClient) -> None:
    for cursor in ("WzFd", "WzEsMSwieCIsMV0", "WzEsMSwiMjAyNi0wMS0wMSIsMV0"):
        assert set(problem_errors(api.get(f"/queue?cursor={cursor}"))) == {"cursor"}


def test_the_queue_takes_as_many_statements_for_many_jobs_as_for_few(api: ApiClient, statements) -> None:
    api.get("/queue")
    counts = []
    for _ in range(2):
        factories.queued(api.person)
        factories.online()
        with statements() as seen:
            api.get("/queue")
        counts.append(len(seen))
    assert counts[0] == counts[1] <= 9
