"""`manage.py check_storage`."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from jobs.commands.executions import Lease
from jobs.storage.objects import ObjectStorage
from tests.integration.storage import trees
from tests.integration.storage.conftest import lose
from workers.checkpointer import Published, publish


@pytest.fixture
def published(storage: ObjectStorage, lease: Lease, output: Path) -> Published:
    trees.write(output, {"model": os.urandom(3000)})
    made = publish(lease, output, attempt=1, final=False)
    assert made is not None
    return made


def check(capsys: Any, *options: str, code: int = 0) -> list[dict[str, Any]]:
    """What it tells, a document for each difference."""
    try:
        call_command("check_storage", "--json", *options)
        found = 0
    except SystemExit as ended:
        found = int(str(ended.code))
    assert found == code
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_where_both_agree_it_says_so(published: Published, capsys: Any) -> None:
    assert check(capsys) == []
    call_command("check_storage")
    assert capsys.readouterr().out == "Database and storage agree.\n"


def test_corrupt_and_missing_content_is_told_and_never_repaired(
    published: Published, storage: ObjectStorage, capsys: Any
) -> None:
    (key,) = published.manifest.blob_keys()
    storage.put(key, [b"x" * 3000])
    (told,) = check(capsys, "--repair", code=1)
    assert (told["what"], told["where"]) == ("damaged checkpoint", published.checkpoint.label)
    assert "corrupt" in told["why"]
    storage.delete_all([key])
    (told,) = check(capsys, code=1)
    assert "missing" in told["why"]


def test_what_nobody_needs_is_told_and_removed_only_when_asked(
    published: Published, storage: ObjectStorage, lease: Lease, capsys: Any
) -> None:
    folder = f"jobs/{lease.job_id}/blobs/1"
    storage.put(f"{folder}/{'0' * 64}", [b"never named"])
    assert check(capsys) == [], "the attempt that may name it is running"
    lose(lease)
    (told,) = check(capsys, code=1)
    assert (told["what"], told["where"]) == ("superfluous", f"job {lease.job_id}")
    assert told["why"] == "1 objects of 11 bytes that no checkpoint needs."
    assert len(list(storage.keys(folder))) == 2
    (told,) = check(capsys, "--repair")
    assert told["repaired"] is True
    assert [key for key, _ in storage.keys(folder)] == list(published.manifest.blob_keys())
    assert check(capsys) == []


def test_a_torn_upload_is_told(local: Any, lease: Lease, capsys: Any) -> None:
    place = Path(local.path(f"jobs/{lease.job_id}/blobs/1/.part-0123"))
    place.parent.mkdir(parents=True)
    place.write_bytes(b"torn")
    lose(lease)
    (told,) = check(capsys, code=1)
    assert told["why"] == "1 torn uploads."
    check(capsys, "--repair")
    assert not place.exists()


def test_objects_of_jobs_that_do_not_exist_are_told_and_removed(
    published: Published, storage: ObjectStorage, capsys: Any
) -> None:
    storage.put(f"jobs/987654321/blobs/1/{'0' * 64}", [b"left"])
    (told,) = check(capsys, code=1)
    assert (told["where"], told["why"]) == ("job 987654321", "1 objects of a job that does not exist.")
    check(capsys, "--repair")
    assert check(capsys) == []
