"""The schema, the pages that show it, and every input that the schema allows (and more)."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
import schemathesis
from django.conf import settings
from django.contrib.staticfiles import finders
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections
from django.test import Client
from hypothesis import HealthCheck, Phase, given
from hypothesis import settings as hypothesis_settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import content_type_conformance, response_schema_conformance

from jobs.commands import tokens
from jobs.states import JobState
from tests import factories

EXAMPLES = 25
"""Per call; raise it to search longer."""

METHODS_OF_THE_CONTRACT = {
    "/jobs": {"get", "post"},
    "/jobs/{job_id}": {"get", "patch", "delete"},
    "/jobs/{job_id}/cancel": {"post"},
    "/jobs/{job_id}/requeue": {"post"},
    "/jobs/{job_id}/script": {"get"},
    "/jobs/{job_id}/env": {"get"},
    "/jobs/{job_id}/events": {"get"},
    "/jobs/{job_id}/executions": {"get"},
    "/jobs/{job_id}/checkpoints": {"get"},
    "/jobs/{job_id}/checkpoints/{n}/files": {"get"},
    "/jobs/{job_id}/checkpoints/{n}/pin": {"post"},
    "/jobs/{job_id}/checkpoints/{n}/unpin": {"post"},
    "/jobs/{job_id}/artifact": {"get"},
    "/jobs/{job_id}/upload": {"post"},
    "/datasets": {"get", "post"},
    "/datasets/{name}": {"get"},
    "/jobs/cancel": {"post"},
    "/jobs/requeue": {"post"},
    "/executions/{execution_id}": {"get"},
    "/executions/{execution_id}/logs": {"get"},
    "/executions/{execution_id}/metrics": {"get"},
    "/workers": {"get"},
    "/workers/{name}/drain": {"post"},
    "/workers/{name}/resume": {"post"},
    "/workers/{name}/disable": {"post"},
    "/workers/{name}/release-quarantine": {"post"},
    "/queue": {"get"},
    "/queue/pause": {"post"},
    "/queue/resume": {"post"},
}


def document() -> dict[str, Any]:
    answer: dict[str, Any] = Client().get("/api/v1/openapi.json").json()
    return answer


def test_the_schema_names_every_call_of_the_contract() -> None:
    schema = document()
    assert schema["openapi"].startswith("3.1")
    calls = {path.removeprefix("/api/v1"): set(methods) for path, methods in schema["paths"].items()}
    assert calls == METHODS_OF_THE_CONTRACT


def test_every_call_asks_for_a_token_or_a_session_and_may_answer_a_problem() -> None:
    for path, methods in document()["paths"].items():
        for method, operation in methods.items():
            assert operation["security"] == [{"Token": []}, {"Session": []}], (method, path)
            assert "application/problem+json" in operation["responses"]["default"]["content"]


def test_the_pages_need_nothing_from_elsewhere() -> None:
    page = Client().get("/api/v1/docs").content.decode()
    assert "http://" not in page
    assert "https://" not in page
    for name in ("swagger-ui.css", "swagger-ui-bundle.js", "swagger-ui-init.js"):
        assert f"/{settings.STATIC_URL.strip('/')}/ninja/{name}" in page
        assert finders.find(f"ninja/{name}")


@pytest.fixture
def one_connection() -> Iterator[None]:
    """Requests leave the test's connection open, as they do from Django's own test client."""
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    yield
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)


@pytest.fixture
def operations(db: None, redis: Any, one_connection: None) -> list[Any]:
    """Every call, as an operator makes it, with a job in every state to hit."""
    operator = factories.user("operator")
    for state in JobState:
        factories.job_in(state, operator)
    factories.online("w1")
    schema = schemathesis.openapi.from_wsgi("/api/v1/openapi.json", get_wsgi_application())
    schema.config.update(headers={"Authorization": f"Bearer {tokens.issue(operator)}"})
    return [found.ok() for found in schema.get_all_operations() if isinstance(found, Ok)]


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
def test_no_input_breaks_it_and_every_answer_is_as_the_schema_says(operations: list[Any], mode: GenerationMode) -> None:
    assert len(operations) == sum(len(methods) for methods in METHODS_OF_THE_CONTRACT.values())
    for operation in operations:

        @_thorough
        @given(case=operation.as_strategy(generation_mode=mode))
        def call(case: schemathesis.Case[Any]) -> None:
            case.call_and_validate(checks=[not_a_server_error, content_type_conformance, response_schema_conformance])

        # Of a call that takes nothing, nothing can be wrong.
        with suppress(Unsatisfiable):
            call()


_thorough = hypothesis_settings(
    max_examples=EXAMPLES,
    deadline=None,
    database=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
