"""Both storages, and a running execution to publish for."""

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jobs import dispatch
from jobs.commands import executions
from jobs.commands.executions import Lease
from jobs.models import Job
from jobs.storage import objects
from jobs.storage.objects import ObjectStorage
from tests import factories
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
def lease(real_commits: None) -> Lease:
    """A running execution to publish for."""
    return factories.lease(factories.running())


def lose(lease: Lease) -> None:
    """Take the execution away, as its worker's parent does; the job waits for another worker."""
    assert executions.crashed(lease.execution_id, lease.worker_name, "Its worker is gone.")


def next_attempt(lease: Lease) -> Lease:
    """The job's next execution, on another worker."""
    job = Job.objects.get(pk=lease.job_id)
    factories.online(labels=job.worker_labels)
    dispatch.run()
    following = factories.lease(job)
    executions.start(following)
    return following
