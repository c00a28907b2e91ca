"""A SIGKILL at any byte leaves the checkpoint before current, and nothing behind in the end."""

import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jobs.commands.executions import Lease
from jobs.models import Checkpoint
from jobs.storage import collection, manifests
from jobs.storage.local import LEFTOVER
from jobs.storage.manifests import Manifest
from jobs.storage.objects import ObjectStorage
from jobs.storage.restore import restore
from tests.integration.storage import children, trees
from tests.integration.storage.conftest import lose
from workers.checkpointer import publish

ROUNDS = int(os.environ.get("TEST_KILLS", "12"))

Kill = Callable[[Callable[[], object], random.Random], None]


def at_a_random_byte(work: Callable[[], object], chance: random.Random) -> None:
    def mortal() -> None:
        children.die_after(chance.randrange(1, 1_000_000))
        work()

    assert children.wait(children.fork(mortal)) in {0, -signal.SIGKILL}


def at_a_random_moment(work: Callable[[], object], chance: random.Random) -> None:
    pid = children.fork(work)
    time.sleep(chance.random() * 0.15)
    os.kill(pid, signal.SIGKILL)
    assert children.wait(pid) in {0, -signal.SIGKILL}


def change(output: Path, chance: random.Random) -> None:
    for _ in range(3):
        size = chance.choice([0, 10, 100_000, 300_000])
        trees.write(output, {f"part{chance.randrange(6)}": chance.randbytes(size)})


def known() -> list[Manifest]:
    return [manifests.load(checkpoint) for checkpoint in Checkpoint.objects.order_by("-n")[:1]]


def test_a_kill_at_any_byte_leaves_a_tree_that_was_published(
    local: ObjectStorage, lease: Lease, output: Path, tmp_path: Path
) -> None:
    _kill_and_restore(local, lease, output, tmp_path, at_a_random_byte)


def test_a_kill_at_any_moment_leaves_a_tree_that_was_published(
    storage: ObjectStorage, lease: Lease, output: Path, tmp_path: Path
) -> None:
    _kill_and_restore(storage, lease, output, tmp_path, at_a_random_moment)


def _kill_and_restore(storage: ObjectStorage, lease: Lease, output: Path, tmp_path: Path, kill: Kill) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    current: dict[str, Any] = {}
    committed = 0
    for number in range(ROUNDS):
        change(output, chance)
        kill(lambda: publish(lease, output, attempt=1, known=known(), final=False), chance)
        latest = Checkpoint.objects.order_by("-n").first()
        if latest is not None and latest.n > committed:
            committed, current = latest.n, trees.describe(output)
        if latest is not None:
            again = tmp_path / f"again{number}"
            restore(latest, again)
            assert trees.describe(again) == current
    _nothing_is_left(storage, lease, tmp_path)


def _nothing_is_left(storage: ObjectStorage, lease: Lease, tmp_path: Path) -> None:
    lose(lease)
    collection.sweep(lease.job_id)
    needed: set[str] = set()
    for checkpoint in Checkpoint.objects.all():
        needed |= manifests.load(checkpoint).blob_keys() | {checkpoint.manifest_key}
    assert {key for key, _ in storage.keys("jobs")} == needed
    assert not list((tmp_path / "storage").rglob(f"{LEFTOVER}*"))
