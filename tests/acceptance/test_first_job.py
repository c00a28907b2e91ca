"""The main job over HTTP: a script is posted to the real stack, runs, and gives back what it made."""

import io
import tarfile
import time
from typing import Any

import httpx
import pytest

from config.environment import BASE_DIR

pytestmark = pytest.mark.acceptance


@pytest.fixture(scope="module")
def api(stack):
    token = stack.command("issue_token", "admin")
    with httpx.Client(
        base_url=f"{stack.url}/api/v1", headers={"Authorization": f"Bearer {token}"}, timeout=30
    ) as client:
        yield client


def submitted(api: httpx.Client, script: str, **wanted: object) -> int:
    answer = api.post("/jobs", json={"training_script": script, **wanted})
    assert answer.status_code == 201, answer.text
    return int(answer.json()["job_id"])


def _job(api: httpx.Client, job_id: int) -> dict[str, Any]:
    job: dict[str, Any] = api.get(f"/jobs/{job_id}").json()
    return job


def ended(api: httpx.Client, job_id: int, within: float = 240) -> dict[str, Any]:
    deadline = time.monotonic() + within
    while (job := _job(api, job_id))["finished_at"] is None:
        assert time.monotonic() < deadline, job
        time.sleep(0.1)
    return job


def test_the_digits_example_trains_and_its_model_can_be_downloaded(api):
    job_id = submitted(api, (BASE_DIR / "examples" / "digits.py").read_text(), name="digits")
    job = ended(api, job_id)
    assert (job["state"], job["attempt"], job["worker_id"]) == ("SUCCEEDED", 1, "w1")
    assert job["progress"]["step"] == job["progress"]["total"] >= 30

    events = api.get(f"/jobs/{job_id}/events").json()["items"]
    assert [event["seq"] for event in events] == list(range(1, job["last_seq"] + 1))
    assert [event["kind"] for event in events if event["kind"] != "phase_changed"] == [
        "submitted", "queued", "assigned", "started", "checkpoint_saved", "succeeded",
    ]  # fmt: skip

    metrics = api.get(f"/executions/{job_id}.1/metrics").json()["series"]
    assert len(metrics["loss"]) >= 30
    assert metrics["accuracy"][-1][1] >= 0.93
    assert "accuracy" in api.get(f"/executions/{job_id}.1/logs").text.lower()

    artifact = api.get(f"/jobs/{job_id}/artifact")
    with tarfile.open(fileobj=io.BytesIO(artifact.content), mode="r:gz") as archive:
        members = {member.name for member in archive}
    listed = {file["path"] for file in api.get(f"/jobs/{job_id}/checkpoints/1/files").json()["items"]}
    assert listed
    assert listed <= members


def test_the_same_dependencies_are_ready_the_second_time(api):
    script = "# /// script\n# dependencies = ['six']\n# ///\nimport six; print(six.__name__)"
    ended(api, submitted(api, script))
    again = submitted(api, script)
    assert ended(api, again)["state"] == "SUCCEEDED"
    assert api.get(f"/executions/{again}.1/logs").content == b"six\n"


def test_a_job_of_the_older_coordinator_s_clients_is_answered_as_there(api):
    answer = api.post("/jobs", json={"training_script": "print('hi')"}).json()
    assert answer["status"] == "queued"
    job = ended(api, answer["job_id"])
    assert job["state"] == "SUCCEEDED"
    assert job["worker_id"] == "w1"
    assert api.get(f"/jobs/{answer['job_id']}/artifact").headers["content-type"] == "application/gzip"


def test_a_script_cannot_reach_the_service(api, stack):
    script = f"""
import os, glob
for path in ({str(stack.data_dir / "admin_password")!r}, {str(stack.data_dir / "secret_key")!r}):
    try:
        open(path).read()
        print("read", path)
    except OSError:
        pass
print([pid for pid in os.listdir("/proc") if pid.isdecimal() and int(pid) > 3])
print(glob.glob("/tmp/rerail-*"))
print([name for name in os.environ if "DATABASE" in name or "REDIS" in name or "SECRET" in name])
"""
    job_id = submitted(api, script)
    assert ended(api, job_id)["state"] == "SUCCEEDED"
    assert api.get(f"/executions/{job_id}.1/logs").text == "[]\n[]\n[]\n"


def test_an_ending_with_code_3_is_told_with_its_code(api):
    job_id = submitted(api, "raise SystemExit(3)")
    job = ended(api, job_id)
    assert (job["state"], job["reason"], job["message"]) == (
        "FAILED", "script_error", "The script exited with code 3.",
    )  # fmt: skip
    assert api.get(f"/executions/{job_id}.1").json()["exit_code"] == 3


def test_the_service_says_when_it_is_ready(stack):
    deadline = time.monotonic() + 60
    while httpx.get(f"{stack.url}/readyz").status_code != 200:
        assert time.monotonic() < deadline, httpx.get(f"{stack.url}/readyz").text
        time.sleep(0.2)
    assert httpx.get(f"{stack.url}/healthz").status_code == 200
