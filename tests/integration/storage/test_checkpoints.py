"""Publishing and restoring: what goes in comes out, and only changes are stored."""

import io
import os
import tarfile
import time
from pathlib import Path
from typing import Any

import pytest

from jobs.commands.executions import Lease
from jobs.errors import Stale
from jobs.models import Checkpoint, Event, Job
from jobs.storage import artifacts, collection
from jobs.storage.manifests import CheckpointRejected, Manifest
from jobs.storage.objects import ObjectStorage, StorageFailed
from jobs.storage.restore import restore
from tests import factories
from tests.integration.storage import trees
from tests.integration.storage.conftest import lose, next_attempt
from workers.checkpointer import Published, PublishFailed, PublishInterrupted, publish


def saved(lease: Lease, output: Path, *known: Manifest, attempt: int = 1, **more: Any) -> Published:
    published = publish(lease, output, attempt=attempt, known=known, final=more.pop("final", False), **more)
    assert published is not None
    return published


def stored_keys(storage: ObjectStorage) -> set[str]:
    return {key for key, _ in storage.keys("jobs")}


def test_a_restored_tree_is_the_published_one(
    storage: ObjectStorage, lease: Lease, output: Path, tmp_path: Path
) -> None:
    trees.varied(output)
    published = saved(lease, output, step=30, final=True)
    checkpoint = Checkpoint.objects.get()
    assert (checkpoint.n, checkpoint.step, checkpoint.final) == (1, 30, True)
    assert checkpoint.file_count == 8
    assert checkpoint.new_bytes == checkpoint.total_bytes == published.manifest.total_bytes
    assert Job.objects.get().resume_checkpoint == checkpoint
    restored = restore(checkpoint, tmp_path / "again", uid=os.getuid(), gid=os.getgid())
    assert trees.describe(tmp_path / "again") == trees.describe(output)
    assert restored.manifest == published.manifest
    assert published.manifest.left_out == ()


def test_restored_files_belong_to_the_script(
    storage: ObjectStorage, lease: Lease, output: Path, tmp_path: Path
) -> None:
    if os.getuid() != 0:
        pytest.skip("only root may give files away")
    trees.varied(output)
    checkpoint = saved(lease, output).checkpoint
    restore(checkpoint, tmp_path / "again", uid=64001, gid=64002)
    owners = {
        (path.lstat().st_uid, path.lstat().st_gid) for path in [tmp_path / "again", *(tmp_path / "again").rglob("*")]
    }
    assert owners == {(64001, 64002)}


def test_an_unchanged_tree_stores_nothing_and_reads_nothing(
    storage: ObjectStorage, lease: Lease, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trees.varied(output)
    first = saved(lease, output)
    before = stored_keys(storage)
    monkeypatch.setattr(type(storage), "put_by_hash", _only_manifests(type(storage).put_by_hash))
    second = saved(lease, output, first.manifest)
    assert second.manifest == first.manifest
    assert second.checkpoint.new_bytes == 0
    assert stored_keys(storage) == before


def _only_manifests(put: Any) -> Any:
    def checked(self: Any, folder: str, source: Any, named: Any) -> Any:
        assert "/manifests/" in folder
        return put(self, folder, source, named)

    return checked


def test_only_what_changed_is_stored(storage: ObjectStorage, lease: Lease, output: Path) -> None:
    trees.write(output, {f"part{i}": os.urandom(50_000) for i in range(20)})
    first = saved(lease, output)
    trees.write(output, {"part7": os.urandom(60_000)})
    second = saved(lease, output, first.manifest)
    assert second.checkpoint.new_bytes == 60_000
    assert second.checkpoint.total_bytes == 19 * 50_000 + 60_000
    assert len(second.manifest.blob_keys() - first.manifest.blob_keys()) == 1


def test_a_file_of_equal_size_and_another_time_is_read(storage: ObjectStorage, lease: Lease, output: Path) -> None:
    trees.write(output, {"model": b"aaaa"})
    first = saved(lease, output)
    trees.write(output, {"model": b"bbbb"})
    second = saved(lease, output, first.manifest)
    assert [entry.sha256 for entry in second.manifest.files] != [entry.sha256 for entry in first.manifest.files]


def test_a_file_written_again_within_one_tick_of_the_clock_is_not_mistaken(
    local: ObjectStorage, lease: Lease, output: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trees.write(output, {"model": b"before"})
    written = (output / "model").stat().st_mtime_ns
    sleep = time.sleep

    def write_again(seconds: float) -> None:
        (output / "model").write_bytes(b"after!")
        os.utime(output / "model", ns=(written, written))
        sleep(seconds)

    monkeypatch.setattr(time, "time_ns", lambda: written + 1_000_000)
    monkeypatch.setattr(time, "sleep", write_again)
    first = saved(lease, output)
    monkeypatch.undo()
    second = saved(lease, output, first.manifest)
    restore(second.checkpoint, tmp_path / "again")
    assert (tmp_path / "again/model").read_bytes() == b"after!"


def test_moved_and_copied_content_is_not_stored_again(storage: ObjectStorage, lease: Lease, output: Path) -> None:
    trees.write(output, {"epoch1": os.urandom(50_000)})
    first = saved(lease, output)
    (output / "epoch1").rename(output / "best")
    trees.write(output, {"last": (output / "best").read_bytes()})
    assert saved(lease, output, first.manifest).checkpoint.new_bytes == 0


def test_the_next_attempt_goes_on_from_what_it_restored(
    storage: ObjectStorage, lease: Lease, output: Path, tmp_path: Path
) -> None:
    trees.write(output, {"model": os.urandom(50_000), "log": b"1"})
    first = saved(lease, output)
    lose(lease)
    second_lease = next_attempt(lease)
    again = tmp_path / "again"
    known = restore(first.checkpoint, again).manifest
    trees.write(again, {"log": b"12"})
    second = saved(second_lease, again, known, attempt=2)
    assert second.checkpoint.new_bytes == 2
    assert {key.split("/")[3] for key in second.manifest.blob_keys()} == {"1", "2"}
    restore(second.checkpoint, tmp_path / "third")
    assert trees.describe(tmp_path / "third") == trees.describe(again)


def test_a_fork_stores_everything_under_its_own_keys(
    storage: ObjectStorage, lease: Lease, output: Path, tmp_path: Path
) -> None:
    trees.write(output, {"model": os.urandom(50_000)})
    source = saved(lease, output)
    fork = factories.lease(factories.running())
    known = restore(source.checkpoint, tmp_path / "fork").manifest
    published = saved(fork, tmp_path / "fork", known)
    assert published.checkpoint.new_bytes == 50_000
    assert all(key.startswith(f"jobs/{fork.job_id}/") for key in published.manifest.blob_keys())


def test_an_empty_output_is_skipped_except_at_the_end(storage: ObjectStorage, lease: Lease, output: Path) -> None:
    assert publish(lease, output, attempt=1, final=False) is None
    assert not Checkpoint.objects.exists()
    published = publish(lease, output, attempt=1, final=True)
    assert published is not None
    assert published.checkpoint.file_count == 0
    archive = b"".join(artifacts.archive(published.checkpoint))
    with tarfile.open(fileobj=io.BytesIO(archive)) as members:
        assert members.getnames() == []


def test_a_final_checkpoint_whose_confirmation_was_lost_is_committed_once(
    storage: ObjectStorage, lease: Lease, output: Path
) -> None:
    trees.write(output, {"model": b"x"})
    first, again = saved(lease, output, final=True), saved(lease, output, final=True)
    assert again.checkpoint == first.checkpoint
    assert Checkpoint.objects.count() == 1


def test_an_attempt_that_was_replaced_commits_nothing_and_leaves_nothing(
    storage: ObjectStorage, lease: Lease, output: Path
) -> None:
    trees.write(output, {"model": b"first"})
    first = saved(lease, output)
    before = stored_keys(storage)
    lose(lease)
    trees.write(output, {"model": b"second, too late", "same": b"first"})
    with pytest.raises(Stale):
        publish(lease, output, attempt=1, known=[first.manifest], final=True)
    assert Checkpoint.objects.get() == first.checkpoint
    assert stored_keys(storage) == before


def test_a_replaced_attempt_that_changed_nothing_does_not_tear_its_last_checkpoint(
    storage: ObjectStorage, lease: Lease, output: Path, tmp_path: Path
) -> None:
    trees.write(output, {"model": b"first"})
    first = saved(lease, output)
    lose(lease)
    with pytest.raises(Stale):
        publish(lease, output, attempt=1, known=(), final=False)
    restore(first.checkpoint, tmp_path / "again")


def test_a_publish_that_is_stopped_leaves_nothing(storage: ObjectStorage, lease: Lease, output: Path) -> None:
    trees.write(output, {f"part{i}": os.urandom(600_000) for i in range(8)})
    asked = iter(range(1_000_000))
    with pytest.raises(PublishInterrupted):
        publish(lease, output, attempt=1, final=True, stop=lambda: next(asked) > 20)
    assert stored_keys(storage) == set()
    assert not Checkpoint.objects.exists()


def test_a_failed_publish_is_healed_by_the_next_and_stores_nothing_twice(
    storage: ObjectStorage, lease: Lease, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trees.write(output, {"model": os.urandom(50_000)})

    def refused(folder: str) -> None:
        raise StorageFailed("Storage could not store an object: it is away.")

    with monkeypatch.context() as patch:
        patch.setattr(storage, "settle", refused)
        with pytest.raises(PublishFailed, match="it is away"):
            publish(lease, output, attempt=1, final=False)
    assert not Checkpoint.objects.exists()
    assert saved(lease, output).checkpoint.new_bytes == 0


def test_a_corrupt_or_missing_blob_rejects_the_checkpoint_and_leaves_the_folder_empty(
    storage: ObjectStorage, lease: Lease, output: Path, tmp_path: Path
) -> None:
    trees.varied(output)
    published = saved(lease, output)
    [model] = [entry for entry in published.manifest.files if entry.path == "model.bin"]
    content = b"".join(storage.read(model.key))
    for damaged in (content[:-1], content + b"x", content[:-1] + bytes([content[-1] ^ 1])):
        storage.put(model.key, [damaged])
        with pytest.raises(CheckpointRejected, match=r"The content of 'model.bin' in storage is corrupt."):
            restore(published.checkpoint, tmp_path / "again")
        assert list((tmp_path / "again").iterdir()) == []
    storage.delete_all([model.key])
    with pytest.raises(CheckpointRejected, match=r"The content of 'model.bin' is missing from storage."):
        restore(published.checkpoint, tmp_path / "again")
    storage.put(model.key, [content])
    restore(published.checkpoint, tmp_path / "again")
    assert trees.describe(tmp_path / "again") == trees.describe(output)


def test_a_corrupt_or_missing_manifest_rejects_the_checkpoint(
    storage: ObjectStorage, lease: Lease, output: Path, tmp_path: Path
) -> None:
    trees.write(output, {"model": b"x"})
    checkpoint = saved(lease, output).checkpoint
    content = b"".join(storage.read(checkpoint.manifest_key))
    storage.put(checkpoint.manifest_key, [content.replace(b"model", b"nodel")])
    with pytest.raises(CheckpointRejected, match="corrupt"):
        restore(checkpoint, tmp_path / "again")
    storage.delete_all([checkpoint.manifest_key])
    with pytest.raises(CheckpointRejected, match="missing"):
        restore(checkpoint, tmp_path / "again")


def test_a_sweep_keeps_what_checkpoints_need_and_takes_the_rest(
    storage: ObjectStorage, lease: Lease, output: Path, tmp_path: Path
) -> None:
    trees.varied(output)
    first = saved(lease, output)
    storage.put(f"jobs/{lease.job_id}/blobs/1/{'b' * 64}", [b"never committed"])
    storage.put(f"jobs/{lease.job_id}/blobs/2/{'c' * 64}", [b"in the making"])
    assert collection.sweep(lease.job_id).objects == 0, "attempt 1 is running"
    lose(lease)
    next_attempt(lease)
    swept = collection.sweep(lease.job_id)
    assert (swept.objects, swept.total_bytes) == (1, 15)
    assert f"jobs/{lease.job_id}/blobs/2/{'c' * 64}" in stored_keys(storage)
    restore(first.checkpoint, tmp_path / "again")


def test_a_sweep_deletes_nothing_while_a_manifest_is_damaged(
    storage: ObjectStorage, lease: Lease, output: Path
) -> None:
    trees.write(output, {"model": b"x"})
    first = saved(lease, output)
    lose(lease)
    storage.put(first.checkpoint.manifest_key, [b"{}"])
    before = stored_keys(storage)
    assert collection.sweep(lease.job_id).objects == 0
    assert stored_keys(storage) == before


def test_the_commit_is_told_on_the_timeline(local: ObjectStorage, lease: Lease, output: Path) -> None:
    trees.write(output, {"model": b"weights"})
    saved(lease, output, step=4)
    event = Event.objects.get(kind="checkpoint_saved")
    assert event.message == f"Saved checkpoint {lease.job_id}/1 at step 4: 1 file, 7 bytes."


def test_a_quick_snapshot_of_fresh_files_waits_no_longer_than_a_tick(
    local: ObjectStorage, lease: Lease, output: Path
) -> None:
    trees.write(output, {f"part{i}": b"x" for i in range(200)})
    begun = time.monotonic()
    saved(lease, output)
    assert time.monotonic() - begun < 5
