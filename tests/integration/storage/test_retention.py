"""What is kept, what goes, and that nothing goes which somebody needs."""

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jobs.commands import cancellation, cleaning, executions, pins, requeueing, retention
from jobs.commands.executions import Lease
from jobs.errors import Invalid, Refused, Stale
from jobs.models import Checkpoint, Execution, Job
from jobs.storage import collection
from jobs.storage.objects import ObjectStorage, StorageFailed
from jobs.storage.restore import restore
from tests import factories
from tests.integration.storage import trees
from tests.integration.storage.conftest import lose, next_attempt
from workers import collecting
from workers.checkpointer import publish
from workers.snapshots import Publisher
from workers.stopping import Stop

Save = Callable[..., Checkpoint]


@pytest.fixture
def publisher(lease: Lease, output: Path) -> Publisher:
    return Publisher(lease, output, attempt=1, restored=None, stop=Stop())


@pytest.fixture
def save(publisher: Publisher, output: Path) -> Save:
    """Saves a checkpoint of one file that stays and one of its own."""
    trees.write(output, {"stays": os.urandom(5000)})

    def save(final: bool = False) -> Checkpoint:
        trees.write(output, {"changes": os.urandom(3000)})
        published = publisher.publish(step=None, final=final)
        assert published is not None
        return published.checkpoint

    return save


def kept() -> list[int]:
    return list(Checkpoint.objects.kept().values_list("n", flat=True))


def sizes(storage: ObjectStorage) -> list[int]:
    return sorted(size for key, size in storage.keys("jobs") if "/blobs/" in key)


def is_whole(checkpoint: Checkpoint, into: Path) -> bool:
    restore(checkpoint, into)
    return True


def test_the_last_two_are_kept_and_only_what_they_need(storage: ObjectStorage, save: Save, tmp_path: Path) -> None:
    made = [save() for _ in range(4)]
    assert kept() == [3, 4]
    assert sizes(storage) == [3000, 3000, 5000]
    assert len([key for key, _ in storage.keys("jobs") if "/manifests/" in key]) == 2
    for checkpoint in made[2:]:
        assert is_whole(checkpoint, tmp_path / str(checkpoint.n))
    assert Checkpoint.objects.count() == 4, "the rows stay, for what resumed from them"


def test_the_final_one_and_pinned_ones_are_kept(local: ObjectStorage, save: Save, tmp_path: Path) -> None:
    pinned = save()
    pins.pin(pinned)
    final = save(final=True)
    for _ in range(3):
        save()
    assert kept() == [1, 2, 4, 5]
    assert is_whole(pinned, tmp_path / "pinned")
    assert is_whole(final, tmp_path / "final")
    save(final=True)
    assert kept() == [1, 5, 6], "one final one is enough"
    pins.unpin(pinned)
    save()
    assert kept() == [6, 7]
    with pytest.raises(Refused, match="gone"):
        pins.pin(pinned)


def test_a_pin_that_comes_while_rows_expire_wins_or_is_refused(
    local: ObjectStorage, lease: Lease, output: Path, crew: Any, tmp_path: Path
) -> None:
    for number in range(3):
        trees.write(output, {"model": os.urandom(1000)})
        publish(lease, output, attempt=1, step=number, final=False)
    first = Checkpoint.objects.get(n=1)
    answers = crew.together([lambda: pins.pin(first), lambda: collecting.collect(lease)])
    assert answers[1] is None
    if isinstance(answers[0], Refused):
        assert kept() == [2, 3]
    else:
        assert kept() == [1, 2, 3]
        assert is_whole(first, tmp_path / "again")


def test_where_a_job_goes_on_is_kept_until_it_has_gone_on(local: ObjectStorage, save: Save, lease: Lease) -> None:
    pins.pin(save())
    for _ in range(3):
        save()
    executions.succeed(lease)
    job = Job.objects.get()
    requeueing.requeue(job.pk, job.owner, "1")
    pins.unpin(Checkpoint.objects.get(n=1))
    retention.expire_idle(job.pk)
    assert kept() == [1, 3, 4]


def test_a_replaced_attempt_lets_go_of_nothing(local: ObjectStorage, save: Save, lease: Lease, tmp_path: Path) -> None:
    save()
    save()
    names = {checkpoint.pk: collection.named(checkpoint) for checkpoint in Checkpoint.objects.all()}
    lose(lease)
    with pytest.raises(Stale):
        retention.expire(lease, names)
    collecting.collect(lease)
    assert kept() == [1, 2]


def test_an_old_attempt_that_pauses_before_it_deletes_harms_nothing_of_the_next(
    storage: ObjectStorage, save: Save, lease: Lease, output: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save()
    again = (output / "changes").read_bytes()
    save()
    delete_all, deleting, goes_on = type(storage).delete_all, threading.Event(), threading.Event()

    def paused(self: Any, keys: Any) -> None:
        deleting.set()
        assert goes_on.wait(30)
        delete_all(self, keys)

    monkeypatch.setattr(type(storage), "delete_all", paused)
    old = threading.Thread(target=_in_a_thread, args=(save,))
    old.start()
    assert deleting.wait(30)
    lose(lease)
    following = next_attempt(lease)
    second = tmp_path / "second"
    manifest = restore(Checkpoint.objects.kept().latest("n"), second).manifest
    # The content of the checkpoint that is being deleted comes back.
    trees.write(second, {"changes": again, "more": os.urandom(2000)})
    published = publish(following, second, attempt=2, known=[manifest], final=False)
    goes_on.set()
    old.join(30)
    assert published is not None
    assert is_whole(published.checkpoint, tmp_path / "again")
    assert trees.describe(tmp_path / "again") == trees.describe(second)


def _in_a_thread(act: Callable[[], object]) -> None:
    from django.db import connection

    try:
        act()
    finally:
        connection.close()


def test_while_a_kept_manifest_is_unreadable_nothing_is_deleted(local: ObjectStorage, save: Save, lease: Lease) -> None:
    save()
    second = save()
    before = sizes(local)
    local.delete_all([second.manifest_key])
    save()
    assert kept() == [2, 3]
    assert set(before) <= set(sizes(local))
    assert len(sizes(local)) == len(before) + 1


def test_storage_that_is_away_leaves_collection_to_the_next(
    local: ObjectStorage, save: Save, monkeypatch: pytest.MonkeyPatch
) -> None:
    save()
    save()

    def away(*_: object) -> None:
        raise StorageFailed("Storage is away.")

    monkeypatch.setattr(collection, "named", away)
    save()
    assert kept() == [1, 2, 3]
    monkeypatch.undo()
    save()
    assert kept() == [3, 4]


def test_what_torn_uploads_and_lost_attempts_left_goes_after_the_jobs_end(
    local: Any, save: Save, lease: Lease, output: Path, tmp_path: Path
) -> None:
    checkpoint = save()
    blobs = Path(local.path(f"jobs/{lease.job_id}/blobs/1"))
    (blobs / ".part-0123").write_bytes(b"torn")
    local.put(f"jobs/{lease.job_id}/blobs/1/{'0' * 64}", [b"never named"])
    assert cleaning.sweep_ended() == 0, "the job runs"
    cancellation.cancel(lease.job_id, Job.objects.get().owner)
    executions.stop(lease)
    assert cleaning.sweep_ended() == 1
    assert sizes(local) == [3000, 5000]
    assert not (blobs / ".part-0123").exists()
    assert is_whole(checkpoint, tmp_path / "again")
    assert cleaning.sweep_ended() == 0, "once is enough"


def test_a_checkpoint_unpinned_after_the_jobs_end_goes_by_itself(
    local: ObjectStorage, save: Save, lease: Lease
) -> None:
    first = save()
    pins.pin(first)
    for _ in range(3):
        save()
    executions.succeed(lease)
    cleaning.sweep_ended()
    assert kept() == [1, 3, 4]
    pins.unpin(first)
    assert cleaning.sweep_ended() == 1
    assert kept() == [3, 4]
    assert sizes(local) == [3000, 3000, 5000]


def test_an_execution_still_tells_what_it_resumed_from_when_that_is_gone(
    local: ObjectStorage, save: Save, lease: Lease
) -> None:
    first = save()
    Execution.objects.update(resumed_from=first)
    for _ in range(3):
        save()
    assert kept() == [3, 4]
    execution = Execution.objects.select_related("resumed_from").get()
    assert execution.resumed_from is not None
    assert execution.resumed_from.label == f"{lease.job_id}/1"


def fork_of(checkpoint: Checkpoint) -> Lease:
    """A running job that began from it."""
    return factories.lease(factories.running(checkpoint.job.owner, from_checkpoint=checkpoint.label))


def test_a_forks_source_is_kept_until_its_own_first_checkpoint(
    local: ObjectStorage, save: Save, tmp_path: Path
) -> None:
    source = save()
    fork = fork_of(source)
    for _ in range(3):
        save()
    assert kept() == [1, 3, 4]
    restored = restore(source, tmp_path / "fork").manifest
    publisher = Publisher(fork, tmp_path / "fork", attempt=1, restored=restored, stop=Stop())
    published = publisher.publish(step=None)
    assert published is not None, "though it is just what its source holds"
    assert {key.split("/")[1] for key in published.manifest.blob_keys()} == {str(fork.job_id)}
    assert published.checkpoint.new_bytes == published.checkpoint.total_bytes == 8000
    save()
    assert list(Checkpoint.objects.kept().filter(job=source.job).values_list("n", flat=True)) == [4, 5]
    assert is_whole(published.checkpoint, tmp_path / "again")


def test_a_forks_source_is_let_go_after_its_end_and_a_requeue_says_so(
    local: ObjectStorage, save: Save, lease: Lease
) -> None:
    source = save()
    fork = fork_of(source)
    for _ in range(3):
        save()
    executions.succeed(lease)
    cleaning.sweep_ended()
    assert kept() == [1, 3, 4]
    executions.fail(fork, factories.failure())
    job = Job.objects.get(pk=fork.job_id)
    requeueing.requeue(job.pk, job.owner)
    job.refresh_from_db()
    assert job.resume_checkpoint == source, "it had none of its own"
    cancellation.cancel(job.pk, job.owner)
    assert cleaning.sweep_ended() == 1
    assert cleaning.sweep_ended() == 1, "the source's job"
    assert kept() == [3, 4]
    with pytest.raises(Refused, match="is gone"):
        requeueing.requeue(job.pk, job.owner)
    assert requeueing.requeue(job.pk, job.owner, "none") == "QUEUED"


def test_a_fork_that_comes_while_its_source_expires_is_refused_or_keeps_it(
    local: ObjectStorage, lease: Lease, output: Path, crew: Any, tmp_path: Path
) -> None:
    for number in range(3):
        trees.write(output, {"model": os.urandom(1000)})
        publish(lease, output, attempt=1, step=number, final=False)
    first = Checkpoint.objects.get(n=1)
    answers = crew.together([lambda: fork_of(first), lambda: collecting.collect(lease)])
    assert answers[1] is None
    if isinstance(answers[0], Invalid):
        assert kept() == [2, 3]
    else:
        assert isinstance(answers[0], Lease)
        assert is_whole(first, tmp_path / "again")


def test_jobs_that_never_ran_are_not_looked_at(real_commits: None) -> None:
    job = factories.queued()
    cancellation.cancel(job.pk, job.owner)
    assert cleaning.sweep_ended() == 0
    job.refresh_from_db()
    assert job.swept_at is not None
