"""Signed addresses of single files."""

import urllib.error
import urllib.request
from pathlib import Path

import pytest
from django.test import Client

from jobs.commands import tokens
from jobs.commands.executions import Lease
from jobs.models import Job
from jobs.storage.objects import ObjectStorage
from tests.integration.storage import trees
from workers.checkpointer import publish


def test_a_file_in_a_bucket_is_had_by_a_signed_redirect(bucket: ObjectStorage, lease: Lease, output: Path) -> None:
    trees.write(output, {"deep/model é.bin": b"weights"})
    publish(lease, output, attempt=1, final=False)
    token = tokens.issue(Job.objects.get(pk=lease.job_id).owner)
    path = f"/api/v1/jobs/{lease.job_id}/checkpoints/1/files/deep/model é.bin"
    response = Client().get(path, headers={"Authorization": f"Bearer {token}"})
    assert response.status_code == 302
    assert response["Cache-Control"] == "no-store"
    address = response["Location"]
    with urllib.request.urlopen(urllib.request.Request(address, headers={"Range": "bytes=1-3"})) as answer:
        assert (answer.status, answer.read()) == (206, b"eig")
        assert answer.headers["Content-Disposition"].startswith("attachment")
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(address.replace("X-Amz-Signature=", "X-Amz-Signature=0"))


def test_a_folder_has_no_such_addresses(local: ObjectStorage) -> None:
    assert local.link("jobs/1/blobs/1/x", "x") is None
