"""POST /jobs/{id}/upload, and /datasets."""

import hashlib
from io import BytesIO
from typing import Any

import pytest
from django.core.files.storage import default_storage
from django.test import Client

from jobs.models import Dataset, DatasetUpload, Job
from tests import factories
from tests.integration.client import PREFIX, ApiClient, problem, problem_errors

CONTENT = b"a,b\n1,2\n" * 100_000


@pytest.fixture(autouse=True)
def folder(settings, tmp_path):
    options = {"location": str(tmp_path / "storage")}
    backend = {"BACKEND": "jobs.storage.local.LocalStorage", "OPTIONS": options}
    settings.STORAGES = {**settings.STORAGES, "default": backend}
    return tmp_path / "storage"


def stored_files(folder) -> list[str]:
    return [path.name for path in folder.rglob("*") if path.is_file()]


def awaiting(api: ApiClient) -> Job:
    answer = api.post("/jobs", {"training_script": "pass", "dataset_ref": "upload"})
    assert answer.status_code == 201
    assert answer.json()["status"] == "awaiting_dataset"
    assert answer.json()["waiting"] == "Its dataset has not been uploaded yet."
    return Job.objects.get(pk=answer.json()["job_id"])


def raw(api: ApiClient, job: Job, content: bytes = CONTENT, query: str = "?filename=digits.csv", **more: Any) -> Any:
    path = f"{PREFIX}/jobs/{job.pk}/upload{query}"
    return api.client.post(path, content, content_type="application/octet-stream", **more)


def form(api: ApiClient, path: str, **fields: Any) -> Any:
    return api.client.post(PREFIX + path, fields)


def file(content: bytes = CONTENT, name: str = "digits.csv") -> BytesIO:
    found = BytesIO(content)
    found.name = name
    return found


@pytest.mark.parametrize("way", ["raw", "multipart"])
def test_an_upload_is_stored_whole_and_queues_its_job(api, way) -> None:
    job = awaiting(api)
    answer = raw(api, job) if way == "raw" else form(api, f"/jobs/{job.pk}/upload", note="hi", file=file())
    assert answer.status_code == 201
    told = answer.json()
    assert (told["filename"], told["size"], told["name"]) == ("digits.csv", len(CONTENT), None)
    assert told["sha256"] == hashlib.sha256(CONTENT).hexdigest()
    job.refresh_from_db()
    assert (job.state, job.dataset_deadline) == ("QUEUED", None)
    assert list(job.events.values_list("kind", flat=True)) == ["submitted", "dataset_uploaded", "queued"]
    assert job.dataset is not None
    assert default_storage.open(job.dataset.storage_key).read() == CONTENT
    assert not DatasetUpload.objects.exists()


def test_a_second_upload_is_refused_and_leaves_nothing(api, folder) -> None:
    job = awaiting(api)
    raw(api, job)
    problem(raw(api, job), 409, "wrong_state")
    assert stored_files(folder) == ["content"]


def test_a_job_that_was_cancelled_meanwhile_refuses_its_dataset(api, folder) -> None:
    job = awaiting(api)
    api.post(f"/jobs/{job.pk}/cancel")
    problem(raw(api, job), 409, "wrong_state")
    assert stored_files(folder) == []


@pytest.mark.parametrize("way", ["raw", "multipart"])
def test_a_dataset_over_the_limit_is_too_large_and_can_be_sent_again_smaller(api, settings, way, folder) -> None:
    settings.RERAIL = factories.changed(settings.RERAIL, max_dataset_bytes=500_000)
    job = awaiting(api)
    answer = raw(api, job) if way == "raw" else form(api, f"/jobs/{job.pk}/upload", file=file())
    problem(answer, 413, "too_large")
    assert stored_files(folder) == []
    assert raw(api, job, b"small").status_code == 201


def test_what_says_that_it_is_too_large_is_refused_before_it_is_read(api, settings) -> None:
    settings.RERAIL = factories.changed(settings.RERAIL, max_dataset_bytes=1000)
    answer = raw(api, awaiting(api), b"x", CONTENT_LENGTH="99000000")
    problem(answer, 413, "too_large")


def test_a_body_that_breaks_off_is_malformed_and_the_job_waits_on(api, folder) -> None:
    job = awaiting(api)
    boundary = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n123'
    answer = api.client.post(f"{PREFIX}/jobs/{job.pk}/upload", boundary, content_type="multipart/form-data; boundary=x")
    problem(answer, 400, "malformed")
    answer = api.client.post(f"{PREFIX}/jobs/{job.pk}/upload", b"??", content_type="multipart/form-data")
    problem(answer, 400, "malformed")
    job.refresh_from_db()
    assert job.state == "AWAITING_DATASET"
    assert stored_files(folder) == []


def test_a_form_without_a_file_or_with_two_or_an_empty_one_is_told_so(api) -> None:
    job = awaiting(api)
    path = f"/jobs/{job.pk}/upload"
    assert problem_errors(form(api, path, note="x")) == {"file": "It is required."}
    assert problem_errors(form(api, path, file=[file(), file()])) == {"file": "Send one file at a time."}
    assert problem_errors(form(api, path, file=file(b""))) == {"file": "The file is empty."}
    assert problem_errors(raw(api, job, b"")) == {"file": "The file is empty."}


@pytest.mark.parametrize(
    ("sent", "kept"), [("../../etc/passwd", "passwd"), ("C:\\a\\b.zip", "b.zip"), ("..", "dataset"), ("ü.tar", "ü.tar")]
)
def test_a_file_name_is_only_ever_a_name(api, sent, kept) -> None:
    assert raw(api, awaiting(api), query=f"?filename={sent}").json()["filename"] == kept


def test_another_members_job_takes_no_dataset_of_mine_and_a_viewers_none(api, other_api, viewer_api) -> None:
    job = awaiting(api)
    problem(raw(other_api, job), 404, "not_found")
    problem(raw(viewer_api, job), 403, "forbidden")
    job.refresh_from_db()
    assert job.state == "AWAITING_DATASET"


def test_a_session_uploads_with_its_token_in_the_header_alone(api) -> None:
    job = awaiting(api)
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(api.person)
    browser.get("/jobs/new")
    token = browser.cookies["csrftoken"].value if "csrftoken" in browser.cookies else "a" * 32
    browser.cookies["csrftoken"] = token
    path = f"{PREFIX}/jobs/{job.pk}/upload"
    problem(browser.post(path, {"file": file(), "csrfmiddlewaretoken": token}), 403, "forbidden")
    assert browser.post(path, {"file": file()}, headers={"X-CSRFToken": token}).status_code == 201


def test_a_shared_dataset_is_there_for_everybodys_jobs(api, other_api, viewer_api) -> None:
    answer = form(api, "/datasets", name="digits", file=file())
    assert answer.status_code == 201
    assert (answer.json()["name"], answer.json()["owner"]) == ("digits", "ada")
    assert viewer_api.get("/datasets").json() == {"items": [answer.json()], "next": None}
    assert viewer_api.get("/datasets/digits").json() == answer.json()
    job = other_api.post("/jobs", {"training_script": "pass", "dataset_ref": "digits"})
    assert job.status_code == 201
    assert job.json()["state"] == "QUEUED"
    assert Job.objects.get(pk=job.json()["job_id"]).dataset == Dataset.objects.get(name="digits")


def test_the_name_may_come_after_the_file(api) -> None:
    assert form(api, "/datasets", file=file(), name="late").json()["name"] == "late"


@pytest.mark.parametrize("name", ["", "upload", "a b", "../x", "-x", "x" * 201])
def test_a_bad_name_is_refused_and_nothing_is_kept(api, name, folder) -> None:
    assert set(problem_errors(form(api, "/datasets", name=name, file=file()))) == {"name"}
    assert stored_files(folder) == []


def test_a_name_is_given_once(api, other_api, folder) -> None:
    form(api, "/datasets", name="digits", file=file())
    problem(form(other_api, "/datasets", name="digits", file=file()), 409, "wrong_state")
    assert stored_files(folder) == ["content"]


def test_a_viewer_shares_nothing_and_an_unknown_name_is_not_found(viewer_api) -> None:
    problem(form(viewer_api, "/datasets", name="x", file=file()), 403, "forbidden")
    problem(viewer_api.get("/datasets/none"), 404, "not_found")


def test_shared_datasets_are_listed_in_pages(api) -> None:
    for name in ("b", "a", "c"):
        form(api, "/datasets", name=name, file=file(b"x"))
    first = api.get("/datasets?limit=2").json()
    assert [item["name"] for item in first["items"]] == ["a", "b"]
    rest = api.get("/datasets", data={"cursor": first["next"]}).json()
    assert ([item["name"] for item in rest["items"]], rest["next"]) == (["c"], None)
