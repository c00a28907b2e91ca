"""Checkpoints as downloads."""

import asyncio
import gzip
import io
import os
import subprocess
import tarfile
import threading
import time
import zlib
from pathlib import Path

import pytest

from jobs.commands.executions import Lease
from jobs.models import Checkpoint
from jobs.storage import artifacts, streams
from jobs.storage.manifests import CheckpointRejected
from jobs.storage.objects import ObjectStorage
from tests.integration.storage import trees
from workers.checkpointer import publish


@pytest.fixture
def checkpoint(storage: ObjectStorage, lease: Lease, output: Path) -> Checkpoint:
    trees.varied(output)
    return committed(lease, output)


def committed(lease: Lease, output: Path) -> Checkpoint:
    published = publish(lease, output, attempt=1, final=True)
    assert published is not None
    return published.checkpoint


def test_tar_unpacks_an_artifact_to_the_published_tree(checkpoint: Checkpoint, output: Path, tmp_path: Path) -> None:
    (tmp_path / "again").mkdir()
    archive = b"".join(artifacts.archive(checkpoint))
    subprocess.run(["tar", "-xzpf", "-", "-C", tmp_path / "again"], input=archive, check=True)
    assert in_seconds(trees.describe(tmp_path / "again")) == in_seconds(trees.describe(output))


def in_seconds(tree: dict[str, tuple[object, ...]]) -> dict[str, tuple[object, ...]]:
    return {
        path: tuple(part // 10**9 if isinstance(part, int) and part > 10**9 else part for part in entry)
        for path, entry in tree.items()
    }


def test_an_artifact_is_the_same_bytes_each_time(checkpoint: Checkpoint) -> None:
    archives = [b"".join(artifacts.archive(checkpoint)) for _ in range(2)]
    assert archives[0] == archives[1]
    assert archives[0][4:8] == bytes(4), "no time in the gzip header"


def test_members_are_relative_to_output_and_belong_to_nobody_in_particular(checkpoint: Checkpoint) -> None:
    archive = gzip.decompress(b"".join(artifacts.archive(checkpoint)))
    assert len(archive) % 10_240 == 0
    with tarfile.open(fileobj=io.BytesIO(archive)) as members:
        names = members.getnames()
        assert {(member.uid, member.gid, member.uname, member.gname) for member in members} == {(0, 0, "", "")}
    assert "model.bin" in names
    assert not [name for name in names if name.startswith(("/", "./", "output", ".."))]


@pytest.mark.parametrize("damage", ["missing", "shorter", "longer", "changed"])
def test_a_damaged_file_breaks_the_archive_off(checkpoint: Checkpoint, storage: ObjectStorage, damage: str) -> None:
    entry = artifacts.open_file(checkpoint, "model.bin").entry
    content = b"".join(storage.read(entry.key))
    if damage == "missing":
        storage.delete_all([entry.key])
    else:
        damaged = {"shorter": content[:-1], "longer": content + b"x", "changed": content[:-1] + b"?"}
        storage.put(entry.key, [damaged[damage]])
    received: list[bytes] = []
    with pytest.raises(CheckpointRejected, match=r"model\.bin"):
        received.extend(artifacts.archive(checkpoint))
    # Whoever got what was sent until then does not take it for whole.
    assert not received or _is_cut_off(b"".join(received))


def _is_cut_off(archive: bytes) -> bool:
    try:
        gzip.decompress(archive)
    except (EOFError, zlib.error):
        return True
    return False


def test_a_missing_manifest_is_told_before_the_first_byte(checkpoint: Checkpoint, storage: ObjectStorage) -> None:
    storage.delete_all([checkpoint.manifest_key])
    with pytest.raises(CheckpointRejected):
        artifacts.archive(checkpoint)


def test_one_file_is_opened_in_whole_and_in_part(checkpoint: Checkpoint, output: Path) -> None:
    content = (output / "model.bin").read_bytes()
    file = artifacts.open_file(checkpoint, "model.bin")
    assert b"".join(file.chunks()) == content
    assert b"".join(file.chunks(100, 600_000)) == content[100:600_000]
    assert b"".join(file.chunks(699_999)) == content[699_999:]
    for absent in ("model", "deep", "latest", "../model.bin", "nothing in here"):
        with pytest.raises(FileNotFoundError):
            artifacts.open_file(checkpoint, absent)


def test_a_download_that_is_given_up_leaves_no_thread(local: ObjectStorage, lease: Lease, output: Path) -> None:
    trees.write(output, {f"part{i}": os.urandom(2_000_000) for i in range(10)})
    chunks = artifacts.archive(committed(lease, output))
    next(chunks)
    chunks.close()  # type: ignore[attr-defined]
    deadline = time.monotonic() + 3
    while any(thread.name == "ahead" for thread in threading.enumerate()):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_an_async_response_gets_the_same_bytes(local: ObjectStorage, lease: Lease, output: Path) -> None:
    trees.varied(output)
    checkpoint = committed(lease, output)

    async def collected() -> bytes:
        return b"".join([chunk async for chunk in streams.in_thread(stream)])

    stream = artifacts.archive(checkpoint)
    assert asyncio.run(collected()) == b"".join(artifacts.archive(checkpoint))
