"""Errors are problem documents, whoever answers them."""

from io import BytesIO

import pytest
from django.db import OperationalError
from django.test import Client, RequestFactory
from django.urls import resolve

from jobs.commands.tokens import issue
from jobs.selectors import jobs
from tests import factories
from tests.integration.client import ApiClient, problem


@pytest.mark.parametrize(
    "path", ["/api/v1", "/api/v1/", "/api/v1/nothing", "/api/v1/jobs/", "/api/v1/jobs/x", "/api/v1/%00"]
)
def test_an_unknown_address_is_a_problem(api: ApiClient, path: str) -> None:
    for client in (api.client, Client()):
        for method in ("get", "post"):
            problem(getattr(client, method)(path), 404, "not_found")


def test_a_wrong_method_is_a_problem_that_names_the_right_ones(api: ApiClient) -> None:
    response = api.client.put("/api/v1/jobs")
    problem(response, 405, "method_not_allowed")
    assert set(response["Allow"].split(", ")) == {"GET", "POST"}
    problem(api.client.get("/api/v1/jobs/cancel"), 405, "method_not_allowed")


def test_a_foreign_host_is_a_problem(api: ApiClient) -> None:
    problem(api.client.get("/api/v1/jobs", headers={"Host": "evil.example"}), 400, "malformed")


def test_a_bug_is_a_problem_without_a_traceback(member, monkeypatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("secret detail")

    monkeypatch.setattr(jobs, "page", broken)
    response = ApiClient(member, raise_request_exception=False).get("/jobs")
    problem(response, 500, "internal")
    assert b"secret" not in response.content
    assert b"Traceback" not in response.content


def test_a_database_that_is_away_is_a_problem_to_try_again_after(member, monkeypatch) -> None:
    def away(*_: object, **__: object) -> None:
        raise OperationalError("connection to server at 10.0.0.7 failed")

    monkeypatch.setattr(jobs, "page", away)
    response = ApiClient(member).get("/jobs")
    assert "10.0.0.7" not in problem(response, 503, "unavailable")["detail"]
    assert response["Retry-After"]


def test_pages_outside_the_api_keep_their_form(client) -> None:
    assert client.get("/nothing")["Content-Type"].startswith("text/html")


def test_a_body_of_unknown_length_is_held_to_the_limit(member, settings) -> None:
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 1000
    for size, status in ((1000, 422), (1001, 413)):
        request = RequestFactory().generic("POST", "/api/v1/jobs", headers={"Authorization": f"Bearer {issue(member)}"})
        request._stream = BytesIO(b"{}".rjust(size))
        response = resolve("/api/v1/jobs").func(request)
        assert response.status_code == status


def test_many_wrong_fields_do_not_swell_the_answer(api: ApiClient) -> None:
    response = api.post("/jobs", {"x" * 10_000 + str(number): 1 for number in range(500)})
    assert response.status_code == 422
    assert len(response.content) < 20_000


def test_a_refusal_tells_its_sentence(api: ApiClient) -> None:
    job = factories.succeeded(api.person)
    assert "already ended" in problem(api.post(f"/jobs/{job.pk}/cancel"), 409, "wrong_state")["detail"]
