"""Publishing `output/` as a checkpoint: walk, store what is new, write the manifest, commit under the fence."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from jobs.commands.executions import Lease
from jobs.models import Checkpoint
from jobs.storage.manifests import Manifest


class PublishFailed(Exception):
    """Nothing was committed and the checkpoint before stays current; worth another try. The message is one sentence."""

    def __init__(self, message: str, *, disk_full: bool = False) -> None:
        super().__init__(message)
        self.disk_full = disk_full


class PublishInterrupted(Exception):
    """`stop` said to give up; nothing was committed."""


@dataclass(frozen=True, kw_only=True)
class Published:
    """A committed checkpoint and what it holds; the manifest is `known` to the next `publish`."""

    checkpoint: Checkpoint
    manifest: Manifest


def publish(
    lease: Lease,
    output: Path,
    *,
    attempt: int,
    known: Sequence[Manifest] = (),
    step: int | None = None,
    final: bool,
    stop: Callable[[], bool] = lambda: False,
) -> Published | None:
    """Commit what lies in `output` as the job's next checkpoint; None where it is empty and this is not the end.

    `output` belongs to the script's user, who may still be changing it. `known` are the job's kept manifests, newest
    first, with what was restored among them: files of unchanged size and mtime are not read again, content that one of
    them names is not stored again. `stop` is asked all along, from several threads.

    Raises PublishFailed (try again), PublishInterrupted, or Stale where the fence does not hold any more.
    """
    raise NotImplementedError
