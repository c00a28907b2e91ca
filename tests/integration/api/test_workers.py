"""GET /workers and what operators do with them."""

import pytest

from jobs.commands import workers
from jobs.models import Worker, WorkerMode
from tests import factories
from tests.integration.client import ApiClient, problem

FIELDS = {"name", "host", "state", "occupied_by", "capacity", "requires_review", "last_seen_at", "isolation", "version"}


def states(api: ApiClient) -> dict[str, str]:
    return {worker["name"]: worker["state"] for worker in api.get("/workers").json()["items"]}


def test_a_worker_has_exactly_the_fields_of_the_contract(api: ApiClient) -> None:
    factories.online("w1", gpus=2, gpu_memory_mb=1000, ram_mb=10, disk_mb=20, cpus=4, labels={"zone": "a"})
    (worker,) = api.get("/workers").json()["items"]
    assert set(worker) == FIELDS
    assert worker["capacity"] == {
        "gpus": 2, "gpu_memory_mb": 1000, "ram_mb": 10, "disk_mb": 20, "cpus": 4, "labels": {"zone": "a"},
    }  # fmt: skip


def test_a_worker_s_state_follows_from_what_it_does_and_what_it_may(api: ApiClient) -> None:
    for name in ("idle", "gone", *WorkerMode):
        started = factories.online(str(name))
        if name in list(WorkerMode):
            workers.set_mode(str(name), WorkerMode(name))
        elif name == "gone":
            workers.went_offline(started)
    job = factories.running(api.person)
    busy = factories.lease(job)
    assert states(api) == {
        "active": "IDLE",
        "idle": "IDLE",
        "gone": "OFFLINE",
        "draining": "DRAINING",
        "disabled": "DISABLED",
        "quarantined": "QUARANTINED",
        busy.worker_name: "BUSY",
    }
    answers = {worker["name"]: worker for worker in api.get("/workers").json()["items"]}
    assert answers[busy.worker_name]["occupied_by"] == busy.label
    assert answers["idle"]["occupied_by"] is None


def test_workers_come_by_name_and_in_pages(api: ApiClient) -> None:
    for name in ("b", "ä", "a", "c"):
        factories.online(name)
    names: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        answer = api.get(f"/workers?limit=1&cursor={cursor}" if cursor else "/workers?limit=1").json()
        names += [worker["name"] for worker in answer["items"]]
        cursor = answer["next"]
    assert sorted(names) == sorted(["a", "b", "c", "ä"])


@pytest.mark.parametrize(
    ("act", "before", "after"),
    [
        ("drain", "active", "DRAINING"),
        ("drain", "draining", "DRAINING"),
        ("disable", "active", "DISABLED"),
        ("disable", "quarantined", "DISABLED"),
        ("resume", "draining", "IDLE"),
        ("resume", "disabled", "IDLE"),
        ("resume", "active", "IDLE"),
        ("release-quarantine", "quarantined", "IDLE"),
    ],
)
def test_an_operator_changes_what_a_worker_may(operator_api: ApiClient, act: str, before: str, after: str) -> None:
    factories.online("w1")
    Worker.objects.update(mode=before)
    response = operator_api.post(f"/workers/w1/{act}")
    assert (response.status_code, response.json()["state"]) == (200, after)


@pytest.mark.parametrize(
    ("act", "before"),
    [("drain", "disabled"), ("drain", "quarantined"), ("resume", "quarantined"), ("release-quarantine", "disabled")],
)
def test_what_does_not_fit_a_worker_s_mode_is_refused(operator_api: ApiClient, act: str, before: str) -> None:
    factories.online("w1")
    Worker.objects.update(mode=before)
    problem(operator_api.post(f"/workers/w1/{act}"), 409, "wrong_state")
    assert Worker.objects.get().mode == before


@pytest.mark.parametrize("act", ["drain", "resume", "disable", "release-quarantine"])
def test_others_may_look_but_not_touch(
    api: ApiClient, viewer_api: ApiClient, operator_api: ApiClient, act: str
) -> None:
    factories.online("w1")
    for client in (api, viewer_api):
        assert states(client) == {"w1": "IDLE"}
        problem(client.post(f"/workers/w1/{act}"), 403, "forbidden")
    for name in ("w2", "%00", "a" * 300):
        problem(operator_api.post(f"/workers/{name}/{act}"), 404, "not_found")


def test_somebody_without_a_role_sees_none(api: ApiClient) -> None:
    api.person.groups.clear()
    problem(api.get("/workers"), 403, "forbidden")


def test_workers_take_as_many_statements_for_many_as_for_few(api: ApiClient, statements) -> None:
    counts = []
    for number in range(3):
        factories.running(api.person)
        with statements() as seen:
            api.get("/workers")
        counts.append(len(seen) - (number == 0))
    assert counts == [3, 3, 3]
