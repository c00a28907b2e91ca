"""GET /jobs/{id}/checkpoints, …/{n}/files and /jobs/{id}/artifact, on real storage."""

import io
import shutil
import tarfile
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.core.files.storage import default_storage
from django.test import AsyncClient
from django.utils import timezone

from jobs.commands import tokens
from jobs.models import Checkpoint, Job
from jobs.states import JobState
from tests import factories
from tests.integration.client import ApiClient, problem, problem_errors
from workers import checkpointer

FIELDS = {
    "n", "id", "execution", "step", "file_count", "total_bytes", "new_bytes", "created_at", "final", "pinned",
}  # fmt: skip
FILES = {"model.bin": b"weights" * 1000, "logs/epoch 1.txt": "Käse\n".encode()}


@pytest.fixture
def job(api: ApiClient, tmp_path: Path):
    """A running job with two checkpoints: of the first file, and of both."""
    made = factories.running(api.person)
    for number, (path, content) in enumerate(FILES.items()):
        (tmp_path / "output" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "output" / path).write_bytes(content)
        checkpointer.publish(factories.lease(made), tmp_path / "output", attempt=1, step=number, final=bool(number))
    yield made
    shutil.rmtree(Path(default_storage.path("jobs")), ignore_errors=True)


def members(archive: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as tar:
        return {member.name: tar.extractfile(member).read() for member in tar if member.isfile()}  # type: ignore[union-attr]


def content(response: Any) -> bytes:
    return b"".join(response.streaming_content)


def test_checkpoints_come_in_order_with_exactly_the_fields_of_the_contract(api: ApiClient, job: Job) -> None:
    first, second = api.get(f"/jobs/{job.pk}/checkpoints").json()["items"]
    assert set(first) == FIELDS
    assert (first["id"], first["n"], first["execution"], first["step"]) == (f"{job.pk}/1", 1, f"{job.pk}.1", 0)
    assert (first["file_count"], first["total_bytes"], first["new_bytes"]) == (1, 7000, 7000)
    assert (second["file_count"], second["new_bytes"], second["final"]) == (2, 6, True)
    page = api.get(f"/jobs/{job.pk}/checkpoints?limit=1").json()
    assert api.get(f"/jobs/{job.pk}/checkpoints?limit=1&cursor={page['next']}").json()["items"] == [second]


def test_a_job_tells_its_latest_checkpoint(api: ApiClient, job: Job) -> None:
    latest = api.get(f"/jobs/{job.pk}").json()["latest_checkpoint"]
    created_at = latest.pop("created_at")
    assert latest == {"id": f"{job.pk}/2", "n": 2, "step": 1, "size": 7006}
    assert created_at.endswith("Z")


def test_the_files_of_a_checkpoint_are_listed(api: ApiClient, job: Job) -> None:
    answer = api.get(f"/jobs/{job.pk}/checkpoints/2/files").json()
    assert {file["path"]: file["size"] for file in answer["items"]} == {"model.bin": 7000, "logs/epoch 1.txt": 6}
    assert all(set(file) == {"path", "size", "sha256", "mode"} for file in answer["items"])
    assert answer["next"] is None


def test_the_latest_checkpoint_is_downloaded_as_an_archive(api: ApiClient, job: Job) -> None:
    response = api.get(f"/jobs/{job.pk}/artifact")
    assert response["Content-Type"] == "application/gzip"
    assert f"job-{job.pk}-checkpoint-2.tar.gz" in response["Content-Disposition"]
    assert members(content(response)) == FILES


def test_an_earlier_checkpoint_is_downloaded_by_its_number(api: ApiClient, job: Job) -> None:
    response = api.get(f"/jobs/{job.pk}/artifact?checkpoint=1")
    assert members(content(response)) == {"model.bin": FILES["model.bin"]}


def test_under_asgi_the_archive_comes_piece_by_piece(api: ApiClient, job: Job) -> None:
    headers = {"Authorization": f"Bearer {tokens.issue(api.person)}"}

    async def download() -> bytes:
        response: Any = await AsyncClient().get(f"/api/v1/jobs/{job.pk}/artifact", headers=headers)
        assert response.is_async
        return b"".join([chunk async for chunk in response.streaming_content])

    assert members(async_to_sync(download)()) == FILES


def test_a_job_without_a_checkpoint_has_no_artifact(api: ApiClient, job: Job) -> None:
    for state in (JobState.QUEUED, JobState.FAILED):
        bare = factories.job_in(state, api.person)
        problem(api.get(f"/jobs/{bare.pk}/artifact"), 404, "no_checkpoint")
    for number in (0, 3, 2**62):
        problem(api.get(f"/jobs/{job.pk}/artifact?checkpoint={number}"), 404, "no_checkpoint")
        problem(api.get(f"/jobs/{job.pk}/checkpoints/{number}/files"), 404, "no_checkpoint")
    problem(api.get(f"/jobs/{job.pk}/checkpoints/{'9' * 40}/files"), 404, "no_checkpoint")
    for given in ("x", "-1", str(2**63)):
        assert set(problem_errors(api.get(f"/jobs/{job.pk}/artifact?checkpoint={given}"))) == {"checkpoint"}


def test_a_checkpoint_whose_manifest_is_gone_is_told_so(api: ApiClient, job: Job) -> None:
    shutil.rmtree(Path(default_storage.path("jobs")))
    for path in ("artifact", "checkpoints/2/files"):
        problem(api.get(f"/jobs/{job.pk}/{path}"), 409, "damaged")


def test_another_s_are_not_found(other_api: ApiClient, job: Job) -> None:
    for path in ("artifact", "checkpoints", "checkpoints/1/files"):
        problem(other_api.get(f"/jobs/{job.pk}/{path}"), 404, "not_found")


def test_a_checkpoint_is_pinned_and_unpinned(api: ApiClient, viewer_api: ApiClient, job: Job) -> None:
    path = f"/jobs/{job.pk}/checkpoints"
    pinned = api.post(f"{path}/1/pin").json()
    assert set(pinned) == FIELDS
    assert (pinned["n"], pinned["pinned"]) == (1, True)
    assert [item["pinned"] for item in api.get(path).json()["items"]] == [True, False]
    assert api.post(f"{path}/1/unpin").json()["pinned"] is False
    assert [item["pinned"] for item in api.get(path).json()["items"]] == [False, False]
    problem(api.post(f"{path}/3/pin"), 404, "no_checkpoint")
    problem(viewer_api.post(f"{path}/1/pin"), 403, "forbidden")


def test_an_expired_checkpoint_can_t_be_had_any_more(api: ApiClient, job: Job) -> None:
    Checkpoint.objects.filter(job=job, n=1).update(expired_at=timezone.now())
    assert [item["n"] for item in api.get(f"/jobs/{job.pk}/checkpoints").json()["items"]] == [2]
    problem(api.get(f"/jobs/{job.pk}/artifact?checkpoint=1"), 404, "no_checkpoint")
    problem(api.post(f"/jobs/{job.pk}/checkpoints/1/pin"), 404, "no_checkpoint")
