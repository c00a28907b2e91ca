"""GET /executions/{id}/metrics."""

import math

import pytest

from jobs.commands import metrics
from jobs.commands.metrics import Progress
from tests import factories
from tests.integration.client import ApiClient, problem_errors


@pytest.fixture
def lease(api: ApiClient):
    return factories.lease(factories.running(api.person))


def store(lease, *points) -> None:
    metrics.append(lease, 0, 1, points, Progress(step=None, total=None, rate=None))


def test_a_short_series_is_answered_whole(api: ApiClient, lease) -> None:
    store(lease, *[factories.point(step, "loss", 1 / step) for step in range(1, 6)], factories.point(1, "accuracy"))
    answer = api.get(f"/executions/{lease.label}/metrics").json()
    assert answer["keys"] == ["accuracy", "loss"]
    assert [(step, value) for step, value, _ in answer["series"]["loss"]] == [(s, 1 / s) for s in range(1, 6)]
    assert all(isinstance(time, str) for _, _, time in answer["series"]["loss"])


def test_a_long_series_keeps_every_stretch_s_least_and_greatest(api: ApiClient, lease) -> None:
    values = {step: math.sin(step / 50) for step in range(1000)} | {333: 99.0, 666: -99.0}
    store(lease, *[factories.point(step, "loss", value) for step, value in values.items()])
    answer = api.get(f"/executions/{lease.label}/metrics?points=20").json()["series"]["loss"]
    assert 20 < len(answer) <= 40
    assert [point[:2] for point in answer] == sorted([step, values[step]] for step, *_ in answer)
    assert {99.0, -99.0} <= {value for _, value, _ in answer}


def test_only_the_keys_asked_for_are_answered_but_all_are_named(api: ApiClient, lease) -> None:
    store(lease, *[factories.point(1, key) for key in ("a", "b", "c")])
    answer = api.get(f"/executions/{lease.label}/metrics?key=a&key=c&key=unknown").json()
    assert answer["keys"] == ["a", "b", "c"]
    assert set(answer["series"]) == {"a", "c"}


def test_what_is_no_finite_number_is_null(api: ApiClient, lease) -> None:
    store(lease, *[factories.point(n, "loss", value) for n, value in enumerate([math.nan, math.inf, -math.inf, 1.0])])
    answer = api.get(f"/executions/{lease.label}/metrics").json()["series"]["loss"]
    assert [value for _, value, _ in answer] == [None, None, None, 1.0]


def test_an_execution_without_metrics_has_no_keys(api: ApiClient, lease) -> None:
    assert api.get(f"/executions/{lease.label}/metrics").json() == {"keys": [], "series": {}}


@pytest.mark.parametrize("query", ["points=0", "points=5001", "points=x", "key=%00"])
def test_a_bad_query_is_refused_by_its_name(api: ApiClient, lease, query: str) -> None:
    assert set(problem_errors(api.get(f"/executions/{lease.label}/metrics?{query}"))) == {query.split("=")[0]}
