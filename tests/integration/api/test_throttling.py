"""Submitting too often, and what Redis's absence means."""

import pytest
from django.core.cache.backends.redis import RedisCache

from jobs import throttling
from tests.integration.client import ApiClient, problem

SUBMISSION = {"training_script": "print(1)"}


def test_a_user_submits_so_often_a_minute_and_is_then_told_to_wait(
    redis, api: ApiClient, other_api: ApiClient, settings, time_machine
) -> None:
    settings.SUBMISSIONS_PER_MINUTE = 2
    time_machine.move_to("2026-11-29T12:00:40.5Z", tick=False)
    assert [api.post("/jobs", SUBMISSION).status_code for _ in range(2)] == [201, 201]
    response = api.post("/jobs", SUBMISSION)
    problem(response, 429, "throttled")
    assert response["Retry-After"] == "20"
    assert other_api.post("/jobs", SUBMISSION).status_code == 201
    time_machine.move_to("2026-11-29T12:01:00.5Z", tick=False)
    assert api.post("/jobs", SUBMISSION).status_code == 201


@pytest.fixture
def no_redis(monkeypatch) -> None:
    monkeypatch.setattr(throttling, "cache", RedisCache("unix:///nowhere/valkey.sock", {}))


def test_without_redis_everybody_may_submit(api: ApiClient, settings, no_redis) -> None:
    settings.SUBMISSIONS_PER_MINUTE = 0
    assert api.post("/jobs", SUBMISSION).status_code == 201
    throttling.forget("submit", "x")


def test_what_is_forgotten_does_not_count(redis) -> None:
    assert throttling.check("sign-in", "ada\0\ud800", 1) is None
    assert throttling.check("sign-in", "ada\0\ud800", 1) is not None
    throttling.forget("sign-in", "ada\0\ud800")
    assert throttling.check("sign-in", "ada\0\ud800", 1) is None
