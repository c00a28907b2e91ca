"""GET /jobs/{id}/executions and GET /executions/{id}."""

import pytest

from jobs.models import Checkpoint, Execution
from tests import factories
from tests.integration.client import ApiClient, problem

FIELDS = {
    "id", "number", "state", "phase", "worker", "reason", "message", "exit_code", "assigned_at", "started_at",
    "finished_at", "resumed_from", "charged", "lost_work_seconds", "recovery",
}  # fmt: skip
RECOVERY = {"detect_seconds", "queue_seconds", "restore_seconds", "first_step_seconds"}


def test_an_execution_has_exactly_the_fields_of_the_contract(api: ApiClient) -> None:
    job = factories.failed(api.person)
    answer = api.get(f"/executions/{job.pk}.1").json()
    assert set(answer) == FIELDS
    assert set(answer["recovery"]) == RECOVERY
    assert answer["id"] == f"{job.pk}.1"
    assert (answer["state"], answer["reason"], answer["exit_code"]) == ("FAILED", "script_error", 3)
    assert answer["charged"] is True
    assert answer["resumed_from"] is None


def test_a_running_execution_tells_its_phase_and_what_it_resumed_from(api: ApiClient) -> None:
    job = factories.training(api.person)
    lease = factories.lease(job)
    saved = Checkpoint.objects.create(
        job=job, n=7, execution_id=lease.execution_id, file_count=1, total_bytes=1, new_bytes=1, manifest_key="none"
    )
    Execution.objects.filter(pk=lease.execution_id).update(resumed_from=saved)
    answer = api.get(f"/executions/{lease.label}").json()
    assert (answer["phase"], answer["worker"], answer["finished_at"]) == ("training", lease.worker_name, None)
    assert answer["resumed_from"] == f"{job.pk}/7"


def test_executions_come_in_order_and_in_pages(api: ApiClient) -> None:
    job = factories.succeeded(api.person)
    last = Execution.objects.get(job=job)
    for number in (2, 3):
        Execution.objects.create(
            job=job, number=number, worker_name="w", state="LOST", finished_at=last.finished_at, reason="lease_expired"
        )
    first = api.get(f"/jobs/{job.pk}/executions?limit=2").json()
    rest = api.get(f"/jobs/{job.pk}/executions?limit=2&cursor={first['next']}").json()
    assert [one["number"] for one in [*first["items"], *rest["items"]]] == [1, 2, 3]
    assert rest["next"] is None


@pytest.mark.parametrize(
    "label", ["1", "x", "1.x", "1.1.1", "0.0", "-1.1", "١.١", "9" * 19 + ".1", "1." + "9" * 10, "%00"]
)
def test_what_is_no_execution_is_not_found(api: ApiClient, label: str) -> None:
    for path in ("", "/logs", "/metrics"):
        problem(api.get(f"/executions/{label}{path}"), 404, "not_found")


def test_another_s_executions_are_not_found(api: ApiClient, other_api: ApiClient) -> None:
    job = factories.running(api.person)
    problem(other_api.get(f"/jobs/{job.pk}/executions"), 404, "not_found")
    for path in ("", "/logs", "/metrics"):
        problem(other_api.get(f"/executions/{job.pk}.1{path}"), 404, "not_found")
