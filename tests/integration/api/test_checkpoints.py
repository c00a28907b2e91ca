"""GET /jobs/{id}/checkpoints, …/{n}/files and /jobs/{id}/artifact, on real storage."""

import io
import shutil
import tarfile
from hashlib import sha256
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


def file_path(job: Job, name: str = "logs/epoch 1.txt") -> str:
    return f"/jobs/{job.pk}/checkpoints/2/files/{name}"


def test_a_file_is_downloaded_whole_with_its_hash_as_its_tag(api: ApiClient, job: Job) -> None:
    response = api.get(file_path(job, "model.bin"))
    assert (response.status_code, content(response)) == (200, FILES["model.bin"])
    assert response["ETag"] == f'"{sha256(FILES["model.bin"]).hexdigest()}"'
    assert (response["Content-Length"], response["Accept-Ranges"]) == ("7000", "bytes")
    assert response["Content-Type"] == "application/octet-stream"
    assert response["Content-Disposition"] == 'attachment; filename="model.bin"'


def test_a_file_in_a_folder_with_a_name_of_any_kind_is_downloaded(api: ApiClient, job: Job) -> None:
    assert content(api.get(file_path(job))) == FILES["logs/epoch 1.txt"]


@pytest.mark.parametrize(
    ("asked", "start", "end"),
    [
        ("bytes=0-0", 0, 1), ("bytes=10-19", 10, 20), ("bytes=6990-", 6990, 7000), ("bytes=-5", 6995, 7000),
        ("bytes=6999-9999", 6999, 7000), ("bytes=-9999", 0, 7000),
    ],
)  # fmt: skip
def test_a_part_of_a_file_is_downloaded(api: ApiClient, job: Job, asked: str, start: int, end: int) -> None:
    response = api.get(file_path(job, "model.bin"), headers={"Range": asked})
    assert (response.status_code, content(response)) == (206, FILES["model.bin"][start:end])
    assert response["Content-Range"] == f"bytes {start}-{end - 1}/7000"
    assert response["Content-Length"] == str(end - start)


@pytest.mark.parametrize("asked", ["bytes=0-1,5-6", "bytes=5-2", "lines=1-2", "bytes=-", "bytes=x-", "bytes=1"])
def test_what_is_no_single_range_is_answered_by_the_whole(api: ApiClient, job: Job, asked: str) -> None:
    response = api.get(file_path(job, "model.bin"), headers={"Range": asked})
    assert (response.status_code, len(content(response))) == (200, 7000)


@pytest.mark.parametrize("asked", ["bytes=7000-", "bytes=9999-99999", "bytes=-0"])
def test_a_range_beyond_the_end_is_refused_with_the_size(api: ApiClient, job: Job, asked: str) -> None:
    response = api.get(file_path(job, "model.bin"), headers={"Range": asked})
    assert (response.status_code, response["Content-Range"]) == (416, "bytes */7000")


def test_a_client_that_has_the_file_is_told_so(api: ApiClient, job: Job) -> None:
    etag = f'"{sha256(FILES["logs/epoch 1.txt"]).hexdigest()}"'
    response = api.get(file_path(job), headers={"If-None-Match": f'"other", W/{etag}'})
    assert (response.status_code, response.content, response["ETag"]) == (304, b"", etag)
    stale = api.get(file_path(job), headers={"Range": "bytes=0-0", "If-Range": '"other"'})
    assert stale.status_code == 200


def test_a_file_that_is_not_there_or_damaged_is_told_so(api: ApiClient, other_api: ApiClient, job: Job) -> None:
    for name in ("no", "logs", "../model.bin", "%2e%2e/x", "a%00b"):
        problem(api.get(file_path(job, name)), 404, "not_found")
    problem(other_api.get(file_path(job)), 404, "not_found")
    for key in Path(default_storage.path(f"jobs/{job.pk}/blobs")).rglob("*"):
        if key.is_file():
            key.write_bytes(b"rubbish")
    problem(api.get(file_path(job)), 409, "damaged")


def test_under_asgi_a_file_comes_piece_by_piece(api: ApiClient, job: Job) -> None:
    headers = {"Authorization": f"Bearer {tokens.issue(api.person)}", "Range": "bytes=10-19"}

    async def download() -> bytes:
        response: Any = await AsyncClient().get(f"/api/v1{file_path(job, 'model.bin')}", headers=headers)
        assert response.status_code == 206
        return b"".join([chunk async for chunk in response.streaming_content])

    assert async_to_sync(download)() == FILES["model.bin"][10:20]
