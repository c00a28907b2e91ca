"""GET /jobs/{id}/script and /env."""

from tests import factories
from tests.integration.client import ApiClient, problem


def test_the_script_is_answered_as_it_was_submitted(api: ApiClient) -> None:
    script = "print('Käse')\r\n"
    response = api.get(f"/jobs/{factories.queued(api.person, script=script).pk}/script")
    assert response.content.decode() == script
    assert response["Content-Type"] == "text/plain; charset=utf-8"


def test_who_prefers_json_gets_all_that_was_submitted_but_the_environment(api: ApiClient) -> None:
    job = factories.queued(api.person, args=["-v"], requirements="numpy", env={"SECRET": "x"})
    answer = api.get(f"/jobs/{job.pk}/script", headers={"Accept": "application/json"}).json()
    assert answer == {"training_script": factories.SCRIPT, "args": ["-v"], "requirements": "numpy"}


def test_only_the_names_of_variables_are_told(api: ApiClient) -> None:
    job = factories.queued(api.person, env={"TOKEN": "hunter2", "MODE": "fast"})
    response = api.get(f"/jobs/{job.pk}/env")
    assert response.json() == {"items": ["MODE", "TOKEN"], "next": None}
    for path in ("", "/script", "/events", "/executions"):
        assert b"hunter2" not in api.get(f"/jobs/{job.pk}{path}").content


def test_another_s_are_not_found(api: ApiClient, other_api: ApiClient) -> None:
    job = factories.queued(api.person)
    for path in ("script", "env"):
        problem(other_api.get(f"/jobs/{job.pk}/{path}"), 404, "not_found")
