"""Memory stays flat however large a file is."""

import os
from pathlib import Path

import pytest

from jobs.commands.executions import Lease
from jobs.models import Checkpoint
from jobs.storage import artifacts
from jobs.storage.objects import ObjectStorage
from jobs.storage.restore import restore
from tests.integration.storage import children
from workers.checkpointer import publish

MIB = 1024 * 1024
LARGE = int(os.environ.get("TEST_LARGE_MIB", "300")) * MIB
ALLOWED = 64 * MIB


@pytest.mark.parametrize(("size", "count"), [(LARGE, 1), (60 * MIB, 4)])
def test_a_folder_takes_little_memory(
    local: ObjectStorage, lease: Lease, output: Path, tmp_path: Path, size: int, count: int
) -> None:
    _go_round(lease, output, tmp_path, size, count)


@pytest.mark.parametrize(("size", "count"), [(LARGE // 2, 1), (40 * MIB, 4)])
def test_a_bucket_takes_little_memory(
    bucket: ObjectStorage, lease: Lease, output: Path, tmp_path: Path, size: int, count: int
) -> None:
    _go_round(lease, output, tmp_path, size, count)


def _go_round(lease: Lease, output: Path, tmp_path: Path, size: int, count: int) -> None:
    """Publish, restore and archive sparse files."""
    for number in range(count):
        with open(output / f"part{number}", "wb") as file:
            file.write(b"%d" % number)
            file.truncate(size)
    assert children.growth(lambda: publish(lease, output, attempt=1, final=True)) < ALLOWED
    checkpoint = Checkpoint.objects.get()
    assert checkpoint.total_bytes == size * count
    assert children.growth(lambda: restore(checkpoint, tmp_path / "again")) < ALLOWED
    assert children.growth(lambda: sum(map(len, artifacts.archive(checkpoint)))) < ALLOWED
