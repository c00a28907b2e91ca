"""POST /jobs."""

import json
import shutil
from pathlib import Path

import pytest
from django.core.files.storage import default_storage

from jobs.models import Job, JobSource
from tests import factories
from tests.integration.client import ApiClient, problem, problem_errors
from workers.checkpointer import publish

SCRIPT = "print('hello')"


def test_a_submission_is_answered_with_the_queued_job(api: ApiClient) -> None:
    response = api.post("/jobs", {"training_script": SCRIPT, "name": "digits", "labels": {"team": "vision"}})
    assert response.status_code == 201
    answer = response.json()
    assert answer["state"] == "QUEUED"
    assert answer["status"] == "queued"
    assert isinstance(answer["job_id"], int)
    assert answer["worker_id"] is None
    assert answer["owner"] == "ada"
    assert answer["attempts_left"] == answer["max_attempts"] == 3
    assert answer["labels"] == {"team": "vision"}
    seen = api.get(f"/jobs/{answer['job_id']}").json()
    del answer["status"]
    assert {**seen, "waiting": answer["waiting"]} == answer


def test_everything_that_may_be_asked_for_is_stored(api: ApiClient) -> None:
    body = {
        "training_script": SCRIPT,
        "args": ["--epochs", "3"],
        "env": {"MODE": "fast"},
        "requirements": "numpy",
        "resources": {"labels": {"zone": "a"}},
        "priority": "high",
        "max_attempts": 5,
        "retry_on": ["failed", "lost"],
        "time_limit_seconds": 60,
        "queue_timeout_seconds": 0.5,
        "checkpoint_seconds": 10,
    }
    job = Job.objects.get(pk=api.post("/jobs", body).json()["job_id"])
    assert (job.priority, job.max_attempts, job.worker_labels) == (1, 5, {"zone": "a"})
    assert set(job.retry_on) == {"lost", "failed"}
    assert (job.time_limit_seconds, job.queue_timeout_seconds, job.checkpoint_seconds) == (60, 0.5, 10)
    source = JobSource.objects.get(job=job)
    assert (source.args, source.env, source.requirements) == (["--epochs", "3"], {"MODE": "fast"}, "numpy")


def test_a_script_that_is_no_python_is_accepted_and_left_to_fail_where_its_log_tells_why(api: ApiClient) -> None:
    assert api.post("/jobs", {"training_script": "def :("}).status_code == 201


def test_a_viewer_may_not_submit(viewer_api: ApiClient) -> None:
    problem(viewer_api.post("/jobs", {"training_script": SCRIPT}), 403, "forbidden")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("training_script", ""),
        ("training_script", "  \n"),
        ("training_script", "print('\0')"),
        ("training_script", 5),
        ("training_script", None),
        ("name", "x" * 201),
        ("name", "two\nlines"),
        ("name", "\0"),
        ("args", "--epochs"),
        ("args", ["\0"]),
        ("args", ["x" * 200_000]),
        ("env", {"1A": "x"}),
        ("env", {"A B": "x"}),
        ("env", {"": "x"}),
        ("env", {"RERAIL_JOB_ID": "7"}),
        ("env", {"A": "\0"}),
        ("requirements", "\0"),
        ("labels", {"a=b": "c"}),
        ("labels", {"": "c"}),
        ("labels", {"a": "b\0"}),
        ("labels", {f"k{number}": "" for number in range(51)}),
        ("priority", "urgent"),
        ("priority", 1),
        ("max_attempts", 0),
        ("max_attempts", 101),
        ("max_attempts", True),
        ("max_attempts", "3"),
        ("retry_on", ["always"]),
        ("retry_on", "lost"),
        ("time_limit_seconds", 0),
        ("time_limit_seconds", -1),
        ("queue_timeout_seconds", 1e300),
        ("checkpoint_seconds", "10"),
        ("dataset_ref", "digits"),
        ("source", "x"),
        ("entry_point", "train.py"),
        ("from_checkpoint", "1/1"),
        ("dedupe_key", "x"),
        ("on_duplicate", "return"),
        ("stall_timeout_seconds", 10),
        ("no_such_field", 1),
    ],
)
def test_what_cannot_be_used_is_refused_by_its_name_and_leaves_no_job(
    api: ApiClient, field: str, value: object
) -> None:
    errors = problem_errors(api.post("/jobs", {"training_script": SCRIPT, field: value}))
    assert {name.split(".")[0] for name in errors} == {field}
    assert all(sentence.endswith(".") for sentence in errors.values())
    assert not Job.objects.exists()


@pytest.mark.parametrize("resource", ["gpus", "gpu_memory_mb", "ram_mb", "disk_mb"])
def test_a_resource_that_is_not_matched_yet_is_refused_unless_zero(api: ApiClient, resource: str) -> None:
    asked = api.post("/jobs", {"training_script": SCRIPT, "resources": {resource: 1}})
    assert set(problem_errors(asked)) == {f"resources.{resource}"}
    assert api.post("/jobs", {"training_script": SCRIPT, "resources": {resource: 0}}).status_code == 201


def test_a_job_may_begin_from_a_checkpoint_of_a_job_that_its_owner_may_see(
    api: ApiClient, other_api: ApiClient, tmp_path: Path
) -> None:
    source = factories.running(api.person)
    (tmp_path / "model").write_bytes(b"weights")
    published = publish(factories.lease(source), tmp_path, attempt=1, final=False)
    assert published is not None
    body = {"training_script": SCRIPT, "from_checkpoint": f"{source.pk}/1"}
    answer = api.post("/jobs", body)
    assert answer.status_code == 201
    fork = Job.objects.get(pk=answer.json()["job_id"])
    assert fork.forked_from == fork.resume_checkpoint == published.checkpoint
    assert "from checkpoint" in fork.events.get(seq=1).message
    for given in (f"{source.pk}/2", "1", "x/1", f"{source.pk}/1/1", "0/0"):
        assert set(problem_errors(api.post("/jobs", {**body, "from_checkpoint": given}))) == {"from_checkpoint"}
    assert set(problem_errors(other_api.post("/jobs", body))) == {"from_checkpoint"}
    shutil.rmtree(Path(default_storage.path("jobs")), ignore_errors=True)


def test_all_that_is_wrong_is_told_at_once(api: ApiClient) -> None:
    errors = problem_errors(api.post("/jobs", {"training_script": SCRIPT, "name": "\n", "env": {"RERAIL_X": ""}}))
    assert set(errors) == {"name", "env"}


def test_a_script_over_two_mebibytes_is_too_large(api: ApiClient) -> None:
    limit = 2 * 1024 * 1024
    assert api.post("/jobs", {"training_script": "#" * limit}).status_code == 201
    problem(api.post("/jobs", {"training_script": "#" * (limit + 1)}), 413, "too_large")
    problem(api.post("/jobs", {"training_script": "é" * (limit // 2 + 1)}), 413, "too_large")
    problem(api.post("/jobs", {"training_script": "#" * 5 * 1024 * 1024}), 413, "too_large")


def test_a_body_over_the_limit_is_too_large(api: ApiClient, settings) -> None:
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 1000
    problem(api.post("/jobs", {"training_script": "#" * 1000}), 413, "too_large")


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"[" * 200_000,
        b'{"training_script": NaN}',
        b'{"training_script": "\xff"}',
        json.dumps({"training_script": SCRIPT}).encode("utf-16"),
        b'{"training_script": "\\ud800"}',
        b'{"\\udfff": 1}',
        b'{"max_attempts": ' + b"9" * 5000 + b"}",
    ],
)
def test_what_is_no_json_is_malformed(api: ApiClient, raw: bytes) -> None:
    response = api.send("/jobs", raw)
    if raw:
        problem(response, 400, "malformed")
    else:
        assert problem_errors(response)


@pytest.mark.parametrize("raw", [b"null", b"[]", b"5", b'"text"'])
def test_what_is_no_object_is_invalid(api: ApiClient, raw: bytes) -> None:
    assert set(problem_errors(api.send("/jobs", raw))) == {"body"}


def test_a_number_beyond_a_double_is_invalid(api: ApiClient) -> None:
    response = api.send("/jobs", b'{"training_script": "x", "time_limit_seconds": 1e999}')
    assert set(problem_errors(response)) == {"time_limit_seconds"}


def test_a_multipart_submission_is_told_to_send_json(api: ApiClient) -> None:
    response = api.client.post("/api/v1/jobs", {"training_script": SCRIPT})
    assert set(problem_errors(response)) == {"source"}


def test_submitting_takes_two_statements_beyond_those_of_the_command(api: ApiClient, statements) -> None:
    api.post("/jobs", {"training_script": SCRIPT})
    with statements() as seen:
        api.post("/jobs", {"training_script": SCRIPT})
    # The token, its user's roles; job, source, events.
    assert len(seen) == 2 + 3
