"""An execution's dealings with checkpoints: what it resumes from, and what it leaves."""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from jobs.commands import checkpoints
from jobs.commands.orders import Order
from jobs.models import Checkpoint
from jobs.storage.manifests import Manifest
from jobs.storage.objects import StorageFailed
from jobs.storage.restore import CheckpointRejected, restore
from workers.checkpointer import PublishFailed

T = TypeVar("T")

logger = logging.getLogger(__name__)

RETRY_SECONDS = 2.0
LONGEST_RETRY_SECONDS = 30.0


def resume(order: Order, output: Path, *, uid: int | None, stop: Callable[[], bool]) -> Manifest | None:
    """Restore the newest whole checkpoint up to the one asked for; None where the job starts from the beginning.

    Each one that is not whole is told on the timeline. Raises CheckpointRejected where none is left: beginning anew
    would throw away work without a word; StorageFailed where storage can't be reached, InterruptedError once `stop`
    says so.
    """
    if order.resume_from is None:
        return None
    last_rejection: CheckpointRejected | None = None
    for checkpoint in _candidates(order.lease.job_id, order.resume_from):
        begun = time.monotonic()
        try:
            restored = restore(checkpoint, output, uid=uid, gid=uid, stop=stop)
        except CheckpointRejected as rejection:
            checkpoints.rejected(order.lease, checkpoint, str(rejection))
            last_rejection = rejection
            continue
        checkpoints.restored(order.lease, checkpoint, seconds=time.monotonic() - begun)
        return restored.manifest
    raise last_rejection or CheckpointRejected(f"Checkpoint {order.resume_from.label} does not exist any more.")


def _candidates(job_id: int, wanted: Checkpoint) -> Iterator[Checkpoint]:
    """The wanted checkpoint and then those before it; of a fork's source the one alone that is kept for it."""
    kept = Checkpoint.objects.kept().filter(job=wanted.job_id)
    before = kept.filter(pk=wanted.pk) if wanted.job_id != job_id else kept.filter(n__lte=wanted.n)
    yield from before.order_by("-n")


def until(attempt: Callable[[], T], *, seconds: float, gone: Callable[[], bool]) -> T:
    """What `attempt` returns, trying again for up to `seconds`.

    Raises PublishFailed or StorageFailed when that is over, or `gone` says so.
    """
    deadline = time.monotonic() + seconds
    pause = RETRY_SECONDS
    while True:
        try:
            return attempt()
        except (PublishFailed, StorageFailed) as failure:
            logger.warning("Storage does not do its part: %s", failure)
            if gone() or time.monotonic() + pause > deadline:
                raise
        threading.Event().wait(pause)
        pause = min(2 * pause, LONGEST_RETRY_SECONDS)
