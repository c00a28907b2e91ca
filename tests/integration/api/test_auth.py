"""Who may call, by token and by session."""

import pytest
from django.db.models.functions import Now
from django.test import Client

from jobs.commands import tokens
from jobs.models import Job, Token
from jobs.sql import in_seconds
from tests import factories
from tests.integration.client import ApiClient, problem

SUBMISSION = {"training_script": "print(1)"}


def session(person, **defaults) -> Client:
    client = Client(**defaults)
    client.force_login(person)
    return client


def test_who_does_not_say_who_it_is_is_told_how(db) -> None:
    for client in (Client(), Client(enforce_csrf_checks=True)):
        for response in (client.get("/api/v1/jobs"), client.post("/api/v1/jobs", SUBMISSION, "application/json")):
            problem(response, 401, "unauthenticated")
            assert response["WWW-Authenticate"] == 'Bearer realm="rerail"'


@pytest.mark.parametrize(
    "header",
    [
        "Bearer",
        "Bearer ",
        "Bearer rr_",
        "Bearer rr_nonsense",
        "Bearer x",
        "Basic YWRhOng=",
        "rr_x",
        "Bearer rr_\xff",
        "Bearer rr_\0",
    ],
)
def test_a_header_that_does_not_hold_is_refused_even_beside_a_session(member, header: str) -> None:
    for client in (Client(), session(member)):
        response = client.get("/api/v1/jobs", headers={"Authorization": header})
        problem(response, 401, "unauthenticated")
        assert 'error="invalid_token"' in response["WWW-Authenticate"]


def test_a_revoked_token_opens_nothing(api: ApiClient) -> None:
    assert api.get("/jobs").status_code == 200
    tokens.revoke(Token.objects.get().pk, api.person)
    problem(api.get("/jobs"), 401, "unauthenticated")


def test_an_inactive_user_s_token_opens_nothing(api: ApiClient) -> None:
    api.person.is_active = False
    api.person.save()
    problem(api.get("/jobs"), 401, "unauthenticated")


def test_the_use_of_a_token_is_noted_at_most_once_a_minute(api: ApiClient) -> None:
    api.get("/jobs")
    first = Token.objects.get().last_used_at
    assert first is not None
    api.get("/jobs")
    assert Token.objects.get().last_used_at == first
    Token.objects.update(last_used_at=in_seconds(-61))
    api.get("/jobs")
    assert Token.objects.filter(last_used_at__gt=in_seconds(-30), last_used_at__lte=Now()).exists()


def test_a_session_reads_and_writes_with_its_csrf_token(member) -> None:
    client = session(member, enforce_csrf_checks=True)
    assert client.get("/api/v1/jobs").status_code == 200
    problem(client.post("/api/v1/jobs", SUBMISSION, "application/json"), 403, "forbidden")
    assert not Job.objects.exists()
    client.get("/admin/login/")
    proof = {"X-CSRFToken": client.cookies["csrftoken"].value}
    assert client.post("/api/v1/jobs", SUBMISSION, "application/json", headers=proof).status_code == 201


def test_a_token_needs_no_csrf_proof(member) -> None:
    client = ApiClient(member, enforce_csrf_checks=True)
    assert client.post("/jobs", SUBMISSION).status_code == 201


def test_a_superuser_may_all(db) -> None:
    job = factories.queued()
    root = ApiClient(factories.user(None, "root", is_superuser=True))
    assert root.post(f"/jobs/{job.pk}/cancel").status_code == 202
    assert root.post("/queue/pause").status_code == 200
