"""Both storages, and a running execution to publish for."""

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.db.models.functions import Now

from jobs.commands import executions
from jobs.commands.executions import Lease
from jobs.models import Execution, Heartbeat, Job, Worker, WorkerMode
from jobs.sql import in_seconds
from jobs.states import ExecutionState, JobState
from jobs.storage import objects
from jobs.storage.objects import ObjectStorage
from tests.integration.storage import seaweed
from tests.integration.storage.seaweed import Seaweed


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seaweed]:
    server = seaweed.start(tmp_path_factory.mktemp("weed"))
    yield server
    server.stop()


def use_local(settings: Any, folder: Path) -> ObjectStorage:
    options = {"location": str(folder)}
    settings.STORAGES = {
        **settings.STORAGES,
        "default": {"BACKEND": "jobs.storage.local.LocalStorage", "OPTIONS": options},
    }
    return objects.storage()


def use_bucket(settings: Any, server: Seaweed, **options: Any) -> ObjectStorage:
    settings.STORAGES = {
        **settings.STORAGES,
        "default": {
            "BACKEND": "jobs.storage.bucket.BucketStorage",
            "OPTIONS": {**server.options, "location": uuid.uuid4().hex, **options},
        },
    }
    return objects.storage()


@pytest.fixture
def local(settings: Any, tmp_path: Path) -> ObjectStorage:
    return use_local(settings, tmp_path / "storage")


@pytest.fixture
def bucket(settings: Any, s3: Seaweed) -> ObjectStorage:
    return use_bucket(settings, s3)


@pytest.fixture(params=["folder", "bucket"])
def storage(request: pytest.FixtureRequest) -> ObjectStorage:
    """Each test that asks for it runs against a folder and against a bucket."""
    chosen: ObjectStorage = request.getfixturevalue("local" if request.param == "folder" else "bucket")
    return chosen


@pytest.fixture
def output(tmp_path: Path) -> Path:
    folder = tmp_path / "output"
    folder.mkdir()
    return folder


@pytest.fixture
def lease(transactional_db: None) -> Lease:
    return running_execution()


def running_execution(job: Job | None = None, number: int = 1) -> Lease:
    """An execution in training, as its process knows it: the job's current one."""
    job = job or _job()
    worker = Worker.objects.create(
        name=f"w-{uuid.uuid4().hex[:8]}",
        host="here",
        boot_nonce=uuid.uuid4(),
        pid=1,
        expires_at=in_seconds(600),
        mode=WorkerMode.DRAINING,  # nothing else is handed to it meanwhile
    )
    execution = Execution.objects.create(
        job=job, number=number, worker=worker, worker_name=worker.name, state=ExecutionState.ASSIGNED
    )
    Job.objects.filter(pk=job.pk).update(
        state=JobState.ASSIGNED, current_execution=execution, attempt=number, queued_at=Now(), finished_at=None
    )
    Heartbeat.objects.create(execution=execution, expires_at=in_seconds(600))
    lease = Lease(
        execution_id=execution.pk,
        nonce=uuid.uuid4(),
        job_id=job.pk,
        label=f"{job.pk}.{number}",
        worker_name=worker.name,
    )
    executions.start(lease)
    return lease


def _job() -> Job:
    owner, _ = get_user_model().objects.get_or_create(username="ada")
    return Job.objects.create(owner=owner, name="digits", state=JobState.AWAITING_DATASET)


def lose(lease: Lease) -> None:
    """Take the execution away, as the reaper does."""
    assert executions.crashed(lease.execution_id, lease.worker_name, "Its worker is gone.")
