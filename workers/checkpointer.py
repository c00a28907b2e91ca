"""Publishing `output/` as a checkpoint: walk, store what is new, write the manifest, commit under the fence.

Nothing counts until the commit: a crash at any byte leaves the checkpoint before it current.
"""

import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from django.db import DatabaseError, InterfaceError

from jobs.commands import checkpoints
from jobs.commands.executions import Lease
from jobs.errors import Refused
from jobs.models import Checkpoint
from jobs.storage import collection, keys, manifests, parallel
from jobs.storage.manifests import Entry, Kind, LeftOut, Manifest
from jobs.storage.objects import SourceChanged, StorageFailed, Stored, storage
from workers.snapshot import Interrupted, Output, TooMuch, Tree, Unfit, Unreadable, Vanished

READS = 3
"""How often a file that changes while it is read is taken."""
NICE = 10
"""Mid-training snapshots yield the processor to the script."""


class PublishFailed(Exception):
    """Nothing was committed and the checkpoint before stays current; worth another try. The message is one sentence.

    `stored` is what lies in storage all the same: `known` to the next `publish` of this attempt.
    """

    def __init__(self, message: str, *, disk_full: bool = False, stored: Manifest | None = None) -> None:
        super().__init__(message)
        self.disk_full = disk_full
        self.stored = stored


class PublishInterrupted(Exception):
    """`stop` said to give up; nothing was committed. `stored` as above, where `keep` said so."""

    def __init__(self, message: str, *, stored: Manifest | None = None) -> None:
        super().__init__(message)
        self.stored = stored


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
    latest: Manifest | None = None,
    step: int | None = None,
    final: bool,
    nice: bool = False,
    stop: Callable[[], bool] = lambda: False,
    keep: Callable[[], bool] = lambda: False,
) -> Published | None:
    """Commit what lies in `output` as the job's next checkpoint.

    Returns None, unless this is the end (`final`), where it is empty, or just what the `latest` checkpoint holds.

    `output` belongs to the script's user, who may still be changing it; what belongs to others in it is left out.
    `known` are the job's kept manifests, newest first, with what was restored among them: files of unchanged size and
    time are not read again, content that one of them names is not stored again. `stop` is asked all along, from several
    threads, and makes it give up; `keep` then tells whether this attempt goes on, and will name what is stored by then.
    `nice` yields the processor to others.

    Raises PublishFailed (try again: what is stored by then is not stored twice), PublishInterrupted, or Stale where the
    fence does not hold any more. The latter two leave nothing new in storage, unless `keep` says so.
    """
    snapshot = _Snapshot(lease.job_id, attempt, known)
    try:
        manifest = snapshot.take(output, nice=NICE if nice else 0, stop=stop)
        if not final and (not manifest.entries or (latest is not None and manifest.entries == latest.entries)):
            return None
        return Published(checkpoint=_commit(lease, snapshot, manifest, step, final), manifest=manifest)
    except Interrupted as error:
        if keep():
            raise PublishInterrupted("The checkpoint was given up.", stored=snapshot.stored) from error
        collection.discard(snapshot.new_keys)
        raise PublishInterrupted("The checkpoint was given up.") from error
    except Refused:
        collection.discard(snapshot.new_keys)
        raise
    except StorageFailed as error:
        raise PublishFailed(str(error), disk_full=error.full, stored=snapshot.stored) from error
    except (TooMuch, Unreadable) as error:
        raise PublishFailed(str(error), stored=snapshot.stored) from error
    except (DatabaseError, InterfaceError) as error:
        # It may be committed all the same, so nothing may be discarded.
        raise PublishFailed("The database did not confirm the checkpoint.", stored=snapshot.stored) from error


def _commit(lease: Lease, snapshot: "_Snapshot", manifest: Manifest, step: int | None, final: bool) -> Checkpoint:
    stored = manifests.save(manifest)
    if stored.new:
        snapshot.new_keys.append(stored.key)
    if final and (twin := _committed_before(lease, stored.key)):
        return twin
    return checkpoints.commit(
        lease,
        checkpoints.Snapshot(
            manifest_key=stored.key,
            file_count=sum(1 for _ in manifest.files),
            total_bytes=manifest.total_bytes,
            new_bytes=snapshot.new_bytes,
            step=step,
            final=final,
        ),
    )


def _committed_before(lease: Lease, manifest_key: str) -> Checkpoint | None:
    """The final checkpoint whose confirmation was lost on its way here."""
    return Checkpoint.objects.filter(
        job_id=lease.job_id, execution_id=lease.execution_id, manifest_key=manifest_key, final=True
    ).first()


class _Snapshot:
    """One snapshot in the making: what is known of the one before, and what this one had to store."""

    def __init__(self, job_id: int, attempt: int, known: Sequence[Manifest]) -> None:
        self._job_id, self._attempt = job_id, attempt
        self._folder = keys.blob_folder(job_id, attempt)
        self._before: dict[str, Entry] = {}
        self._named: dict[str, str] = {}
        for entry in (entry for manifest in known for entry in manifest.files):
            self._before.setdefault(entry.path, entry)
            # A fork's source is known as well, but its content is another job's to delete.
            if keys.is_of_job(entry.key, job_id):
                self._named.setdefault(entry.sha256, entry.key)
        self._taken: list[Entry] = []
        self._lock = threading.Lock()
        self.new_keys: list[str] = []
        self.new_bytes = 0

    def take(self, output: Path, *, nice: int, stop: Callable[[], bool]) -> Manifest:
        """Store all content that is not stored yet, durably, and return what a manifest needs to say."""
        with Output(output, stop) as folder:
            tree = folder.walk()
            threads = storage().threads
            parallel.each(tree.files, lambda seen: self._take_file(folder, seen, tree), threads=threads, nice=nice)
        storage().settle(self._folder)
        return Manifest(
            job_id=self._job_id,
            attempt=self._attempt,
            entries=_in_order([*tree.folders, *tree.links, *self._taken]),
            left_out=_named(tree),
        )

    @property
    def stored(self) -> Manifest:
        """The files stored by now; none of them may be named by a checkpoint."""
        return Manifest(job_id=self._job_id, attempt=self._attempt, entries=tuple(self._taken))

    def _take_file(self, folder: Output, seen: Entry, tree: Tree) -> None:
        before = self._before.get(seen.path)
        try:
            entry = self._unread(seen, before) or self._read(folder, seen) or self._last_stored(before)
        except Vanished:
            return
        except Unfit as unfit:
            entry, why = None, str(unfit)
        else:
            why = "kept changing while it was read"
        with self._lock:
            if entry is not None:
                self._taken.append(entry)
            else:
                tree.leave_out(seen.path, why)

    def _unread(self, seen: Entry, before: Entry | None) -> Entry | None:
        """The file with the hash it had, where size and time are as they were and its content is this job's."""
        if before is None or (seen.size, seen.mtime_ns) != (before.size, before.mtime_ns):
            return None
        key = self._named.get(before.sha256)
        return replace(seen, sha256=before.sha256, key=key) if key is not None else None

    def _read(self, folder: Output, seen: Entry) -> Entry | None:
        """The file as stored just now; None where it changed during every reading."""
        for _ in range(READS):
            source = folder.source(seen)
            try:
                stored = storage().put_by_hash(self._folder, source, self._named)
            except SourceChanged:
                continue
            if stored.new:
                self._count(stored)
            assert source.found is not None
            return replace(source.found, sha256=stored.sha256, key=stored.key)
        return None

    def _last_stored(self, before: Entry | None) -> Entry | None:
        return before if before is not None and before.sha256 in self._named else None

    def _count(self, stored: Stored) -> None:
        with self._lock:
            self.new_keys.append(stored.key)
            self.new_bytes += stored.size


def _in_order(entries: Sequence[Entry]) -> tuple[Entry, ...]:
    """Sorted by the bytes of their paths, so that parents come first; without what lost its parent meanwhile."""
    folders = {"", *(entry.path for entry in entries if entry.kind is Kind.DIR)}
    whole = (entry for entry in entries if entry.path.rpartition("/")[0] in folders)
    return tuple(sorted(whole, key=lambda entry: os.fsencode(entry.path)))


def _named(tree: Tree) -> tuple[LeftOut, ...]:
    rest = [LeftOut(path="…", why=f"and {tree.unnamed} more")] if tree.unnamed else []
    return (*sorted(tree.left_out, key=lambda left_out: left_out.path), *rest)
