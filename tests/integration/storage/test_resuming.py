"""What the next attempt goes on from, and how much was lost."""

import os
import uuid
from pathlib import Path

import pytest

from jobs import dispatch
from jobs.commands import executions, orders
from jobs.commands.executions import Lease
from jobs.commands.orders import Order
from jobs.models import Checkpoint, Event, Execution, Job
from jobs.states import Phase
from jobs.storage.manifests import CheckpointRejected
from jobs.storage.objects import ObjectStorage, StorageFailed
from tests import database, factories
from tests.integration.storage import trees
from tests.integration.storage.conftest import lose
from workers import checkpoints
from workers.checkpointer import Published, PublishFailed, publish


def going_on(*_: object) -> bool:
    return False


def saved(lease: Lease, output: Path, content: bytes, step: int) -> Published:
    trees.write(output, {"model": content})
    published = publish(lease, output, attempt=1, step=step, final=False)
    assert published is not None
    return published


def next_order(lease: Lease) -> Order:
    """The order of the job's next execution, which has started."""
    job = Job.objects.get(pk=lease.job_id)
    factories.online(labels=job.worker_labels)
    dispatch.run()
    job.refresh_from_db()
    assert job.current_execution_id is not None
    order = orders.read(job.current_execution_id, uuid.uuid4())
    assert order is not None
    executions.start(order.lease)
    return order


def test_a_damaged_checkpoint_is_told_and_the_one_before_it_restored(
    storage: ObjectStorage, lease: Lease, output: Path, tmp_path: Path
) -> None:
    saved(lease, output, os.urandom(1000), 5)
    second = saved(lease, output, os.urandom(1000), 9)
    trees.write(output, {"model": os.urandom(1000)})
    storage.put(next(iter(second.manifest.files)).key, [b"x" * 1000])
    lose(lease)
    order = next_order(lease)
    manifest = checkpoints.resume(order, tmp_path / "again", uid=None, stop=going_on)
    first = Checkpoint.objects.get(n=1)
    assert manifest is not None
    assert manifest.blob_keys() != second.manifest.blob_keys()
    execution = Execution.objects.get(pk=order.lease.execution_id)
    assert execution.resumed_from == first
    assert execution.restore_seconds is not None
    told = Event.objects.filter(kind__in=["checkpoint_rejected", "checkpoint_restored"]).order_by("seq")
    assert [(event.kind, event.details["n"]) for event in told] == [
        ("checkpoint_rejected", 2), ("checkpoint_restored", 1),
    ]  # fmt: skip
    assert told[1].details["step"] == 5


def test_without_a_whole_checkpoint_nothing_is_begun_anew_silently(
    local: ObjectStorage, lease: Lease, output: Path, tmp_path: Path
) -> None:
    only = saved(lease, output, b"weights", 5)
    local.delete_all([only.checkpoint.manifest_key])
    lose(lease)
    with pytest.raises(CheckpointRejected, match="missing"):
        checkpoints.resume(next_order(lease), tmp_path / "again", uid=None, stop=going_on)


def test_a_restore_is_given_up_when_the_execution_must_stop(
    local: ObjectStorage, lease: Lease, output: Path, tmp_path: Path
) -> None:
    saved(lease, output, b"weights", 5)
    lose(lease)
    with pytest.raises(InterruptedError):
        checkpoints.resume(next_order(lease), tmp_path / "again", uid=None, stop=lambda: True)
    assert list((tmp_path / "again").iterdir()) == []


@pytest.mark.parametrize("error", [StorageFailed("Storage is away."), PublishFailed("Storage is away.")])
def test_storage_that_comes_back_in_time_is_waited_for(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "RETRY_SECONDS", 0.01)
    failures = [error, error]

    def attempt() -> str:
        if failures:
            raise failures.pop()
        return "done"

    assert checkpoints.until(attempt, seconds=30, gone=going_on) == "done"
    failures.append(error)
    with pytest.raises(type(error)):
        checkpoints.until(attempt, seconds=30, gone=lambda: True)


def moment(seconds: int) -> str:
    return f"2026-01-01T00:{seconds // 60:02}:{seconds % 60:02}Z"


def trained(lease: Lease, start: int, end: int) -> None:
    """Let the execution have trained in silence from `start` to `end`, in seconds of one hour."""
    sql = "UPDATE jobs_execution SET phase = 'training', phase_since = %s, finished_at = %s WHERE id = %s"
    database.execute(sql, moment(start), moment(end), lease.execution_id)


def lost(order: Order) -> float | None:
    executions.change_phase(order.lease, Phase.TRAINING)
    return Execution.objects.get(pk=order.lease.execution_id).lost_work_seconds


def test_what_was_trained_after_the_checkpoint_is_lost(local: ObjectStorage, lease: Lease, output: Path) -> None:
    executions.change_phase(lease, Phase.TRAINING)
    assert Execution.objects.get().lost_work_seconds is None, "nothing was before the first attempt"
    saved(lease, output, b"weights", 5)
    lose(lease)
    trained(lease, 10, 100)
    database.execute("UPDATE jobs_checkpoint SET created_at = %s", moment(70))
    order = next_order(lease)
    checkpoints.resume(order, output.parent / "again", uid=None, stop=going_on)
    assert lost(order) == 30.0


def test_without_a_checkpoint_all_that_was_trained_is_lost_and_counted_once(lease: Lease) -> None:
    executions.change_phase(lease, Phase.TRAINING)
    lose(lease)
    trained(lease, 10, 100)
    second = next_order(lease)
    lose(second.lease)
    database.execute("UPDATE jobs_job SET not_before = NULL")
    third = next_order(lease)
    assert lost(third) == 90.0, "the second never came to its script"
    assert Execution.objects.get(number=2).lost_work_seconds is None
    assert third.attempt == 3
