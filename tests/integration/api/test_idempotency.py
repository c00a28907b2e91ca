"""Idempotency-Key."""

import pytest

from jobs.commands import idempotency
from jobs.models import IdempotencyKey, Job
from jobs.sql import in_seconds
from tests import factories, invariants
from tests.integration.client import ApiClient, problem_errors

SUBMISSION = {"training_script": "print(1)"}


def submit(api: ApiClient, key: str, body: object = SUBMISSION):
    return api.post("/jobs", body, headers={"Idempotency-Key": key})


def test_a_repeated_submission_makes_one_job_and_gets_the_first_answer(api: ApiClient) -> None:
    first = submit(api, "k1")
    Job.objects.update(name="changed meanwhile")
    again = submit(api, "k1")
    assert first.status_code == again.status_code == 201
    assert first.json() == again.json()
    assert Job.objects.count() == 1


def test_another_key_or_another_person_makes_another_job(api: ApiClient, other_api: ApiClient) -> None:
    numbers = {submit(client, key).json()["job_id"] for client in (api, other_api) for key in ("k1", "k2")}
    assert len(numbers) == 4


def test_a_key_that_came_with_something_else_is_refused(api: ApiClient) -> None:
    submit(api, "k1")
    errors = problem_errors(submit(api, "k1", {"training_script": "print(2)"}))
    assert set(errors) == {"Idempotency-Key"}
    assert Job.objects.count() == 1


def test_a_refused_submission_leaves_its_key_free(api: ApiClient) -> None:
    problem_errors(submit(api, "k1", {"training_script": "print(1)", "env": {"RERAIL_X": "1"}}))
    assert submit(api, "k1").status_code == 201


def test_a_key_is_forgotten_after_a_day(api: ApiClient) -> None:
    first = submit(api, "k1").json()["job_id"]
    submit(api, "k2")
    IdempotencyKey.objects.update(created_at=in_seconds(-86_401))
    assert submit(api, "k1").json()["job_id"] != first
    assert IdempotencyKey.objects.get().key == "k1"


def test_an_old_key_is_free_again_even_before_it_is_swept(api: ApiClient, monkeypatch) -> None:
    monkeypatch.setattr(idempotency, "_SWEPT_AT_ONCE", 0)
    first = submit(api, "k1").json()["job_id"]
    IdempotencyKey.objects.update(created_at=in_seconds(-86_401))
    second = submit(api, "k1").json()["job_id"]
    assert second != first
    assert submit(api, "k1").json()["job_id"] == second


@pytest.mark.parametrize("key", ["", "two words", "x" * 256, "\xff"])
def test_a_key_that_is_none_is_refused(api: ApiClient, key: str) -> None:
    assert set(problem_errors(submit(api, key))) == {"Idempotency-Key"}


def test_two_that_come_at_once_are_one(crew) -> None:
    member = ApiClient(factories.user("member"))
    clients = [ApiClient(member.person) for _ in range(8)]
    answers = crew.together([lambda client=client: submit(client, "k1") for client in clients])
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.json()["job_id"] for answer in answers}) == 1
    assert Job.objects.count() == 1
    invariants.check()
