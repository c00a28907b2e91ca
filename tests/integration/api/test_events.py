"""GET /jobs/{id}/events."""

from typing import Any

import pytest

from jobs import dispatch
from jobs.commands import executions, workers
from jobs.commands.workers import Boot
from jobs.models import Worker
from tests import factories
from tests.integration.client import ApiClient, problem, problem_errors

FIELDS = {"seq", "job_id", "execution", "kind", "message", "reason", "details", "actor", "at", "recorded_at"}


def seqs(answer: dict[str, Any]) -> list[int]:
    return [event["seq"] for event in answer["items"]]


def test_a_timeline_is_told_in_order_without_holes(api: ApiClient) -> None:
    job = factories.succeeded(api.person)
    answer = api.get(f"/jobs/{job.pk}/events").json()
    assert seqs(answer) == list(range(1, job.last_seq + 1))
    assert answer["next"] is None
    assert all(set(event) == FIELDS and event["job_id"] == job.pk for event in answer["items"])
    kinds = [event["kind"] for event in answer["items"]]
    assert kinds == ["submitted", "queued", "assigned", "started", "succeeded"]
    assert answer["items"][0]["actor"] == "user:ada"
    assert answer["items"][0]["execution"] is None
    assert answer["items"][-1]["execution"] == f"{job.pk}.1"


def test_each_later_event_comes_once_however_often_one_asks(api: ApiClient) -> None:
    job = factories.succeeded(api.person)
    for name in ("after", "cursor"):
        seen: list[int] = []
        last: str | None = "0"
        while last is not None:
            answer = api.get(f"/jobs/{job.pk}/events?limit=2&{name}={last}").json()
            seen += seqs(answer)
            last = answer["next"]
        assert seen == [1, 2, 3, 4, 5]
    assert api.get(f"/jobs/{job.pk}/events?after=5").json() == {"items": [], "next": None}


def test_a_timeline_is_narrowed_by_execution_and_kind(api: ApiClient) -> None:
    job = factories.running(api.person)
    executions.release(factories.lease(job))
    path = f"/jobs/{job.pk}/events"
    assert {event["execution"] for event in api.get(f"{path}?execution={job.pk}.1").json()["items"]} == {f"{job.pk}.1"}
    assert api.get(f"{path}?execution=1").json() == api.get(f"{path}?execution={job.pk}.1").json()
    assert seqs(api.get(f"{path}?execution={job.pk}.2").json()) == []
    answer = api.get(f"{path}?kind=released&kind=submitted").json()
    assert [event["kind"] for event in answer["items"]] == ["submitted", "released"]
    assert answer["items"][1]["reason"] == "drained"


def test_grouped_by_execution_it_tells_the_latest_of_each(api: ApiClient) -> None:
    job = factories.running(api.person)
    for number in range(3):
        if number:
            dispatch.run()
            executions.start(factories.lease(job))
        executions.release(factories.lease(job))
        gone = factories.lease(job)
        workers.freed(_boot(gone.worker_name), gone.execution_id)
    path = f"/jobs/{job.pk}/events?group_by=execution"
    answer = api.get(path).json()
    assert [event["execution"] for event in answer["items"]] == [f"{job.pk}.{n}" for n in (1, 2, 3)]
    whole = api.get(f"/jobs/{job.pk}/events").json()["items"]
    assert answer["items"] == list({event["execution"]: event for event in whole if event["execution"]}.values())
    first = api.get(f"{path}&limit=2").json()
    rest = api.get(f"{path}&limit=2&cursor={first['next']}").json()
    assert [*first["items"], *rest["items"]] == answer["items"]
    started = api.get(f"{path}&kind=started").json()
    assert {event["kind"] for event in started["items"]} == {"started"}
    assert len(started["items"]) == 3


def _boot(name: str) -> Boot:
    nonce = Worker.objects.get(name=name).boot_nonce
    return factories.boot(name, nonce=nonce)


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("after=-1", "after"),
        ("after=x", "after"),
        ("after=99999999999999999999", "after"),
        ("cursor=x", "cursor"),
        ("cursor=%D9%A3", "cursor"),
        ("cursor=99999999999999999999", "cursor"),
        ("group_by=execution&cursor=3", "cursor"),
        ("execution=1.1.1", "execution"),
        ("execution=0.1", "execution"),
        ("execution=%00", "execution"),
        ("execution=99999999999999999999.1", "execution"),
        ("kind=exploded", "kind"),
        ("group_by=kind", "group_by"),
        ("limit=201", "limit"),
    ],
)
def test_a_bad_query_is_refused_by_its_name(api: ApiClient, query: str, field: str) -> None:
    job = factories.queued(api.person)
    assert set(problem_errors(api.get(f"/jobs/{job.pk}/events?{query}"))) == {field}


def test_another_s_timeline_is_not_found(api: ApiClient, other_api: ApiClient) -> None:
    problem(other_api.get(f"/jobs/{factories.queued(api.person).pk}/events"), 404, "not_found")


def test_a_timeline_takes_as_many_statements_for_many_events_as_for_few(api: ApiClient, statements) -> None:
    counts = []
    for job in (factories.queued(api.person), factories.succeeded(api.person)):
        for query in ("", "?group_by=execution"):
            api.get(f"/jobs/{job.pk}/events{query}")
            with statements() as seen:
                api.get(f"/jobs/{job.pk}/events{query}")
            counts.append(len(seen))
    # Token, roles, job, events; grouped: executions besides, and no events where there is none.
    assert counts == [4, 4, 4, 5]
