"""Datasets on the worker: the cache by itself, and real workers that hand them to scripts."""

import io
import os
import tarfile
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.core.files.storage import default_storage

from jobs.commands import cancellation, datasets
from jobs.models import Dataset, Execution, Job
from jobs.states import Reason
from jobs.storage.objects import StorageFailed, storage
from tests import factories, invariants
from tests.integration.storage import children
from tests.integration.workers.conftest import begin, ended, kinds, printed
from workers import datasets as cache_of_worker
from workers.datasets import Cache, DatasetFailed, cached


def tarred(**files: bytes) -> bytes:
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w:gz") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return sink.getvalue()


def shared(content: bytes, filename: str = "data.tar.gz", name: str = "digits") -> Dataset:
    sent = factories.Sent(content, filename=filename, name=name)
    return datasets.share(factories.user(), sent)


@pytest.fixture
def cache(real_commits, tmp_path) -> Cache:
    return Cache(folder=tmp_path / "cache", most_bytes=10_000)


def never() -> bool:
    return False


@pytest.fixture
def downloads(monkeypatch) -> list[str]:
    """Every object that is read from storage."""
    read: list[str] = []
    backend = type(storage())
    original = backend.read

    def counted(self: Any, key: str, *span: Any) -> Any:
        read.append(key)
        return original(self, key, *span)

    monkeypatch.setattr(backend, "read", counted)
    return read


def test_an_archive_is_unpacked_once_and_then_found(cache, downloads):
    dataset = shared(tarred(a=b"1", b=b"2"))
    for _ in range(3):
        with cached(dataset, cache, never) as folder:
            assert folder == cache.folder / dataset.sha256
            assert sorted(path.name for path in folder.iterdir()) == ["a", "b"]
            assert (folder / "a").stat().st_mode & 0o777 == 0o444
            assert folder.stat().st_mode & 0o777 == 0o555
    assert len(downloads) == 1


def test_one_plain_file_keeps_its_name_also_beside_another_of_the_same_content(cache):
    for filename in ("a.csv", "b.csv"):
        dataset = shared(b"1,2", filename, name=filename)
        with cached(dataset, cache, never) as folder:
            assert [(path.name, path.read_bytes()) for path in folder.iterdir()] == [(filename, b"1,2")]


def test_executions_that_want_it_at_once_download_it_once(cache, downloads, crew):
    dataset = shared(tarred(a=b"1"))

    def use() -> bytes:
        with cached(dataset, cache, never) as folder:
            return (folder / "a").read_bytes()

    assert crew.together([use] * 8) == [b"1"] * 8
    assert len(downloads) == 1


def test_the_longest_unused_goes_first_and_what_is_in_use_never(cache):
    old, used, new = (shared(tarred(a=os.urandom(4000)), name=name) for name in ("old", "used", "new"))
    with cached(used, cache, never) as in_use:
        with cached(old, cache, never) as folder:
            pass
        os.utime(f"{folder}.lock", (2, 2))
        os.utime(f"{in_use}.lock", (1, 1))
        with cached(new, cache, never):
            assert not folder.exists()
            assert (in_use / "a").exists()
    with cached(old, cache, never):
        assert (cache.folder / old.sha256 / "a").exists()
        assert not (in_use / "a").exists()
    assert not list(cache.folder.glob(".new-*"))


def test_users_and_evictors_at_once_never_see_half_a_dataset(cache, crew):
    several = [shared(tarred(a=os.urandom(4000), b=b"end"), name=f"d{number}") for number in range(4)]

    def use(dataset: Dataset) -> None:
        for _ in range(5):
            with cached(dataset, cache, never) as folder:
                assert len((folder / "a").read_bytes()) == 4000
                assert (folder / "b").read_bytes() == b"end"

    assert crew.together([partial(use, dataset) for dataset in several * 2]) == [None] * 8


def test_a_process_killed_while_it_unpacks_leaves_nothing_in_the_way(cache):
    dataset = shared(tarred(a=os.urandom(50_000)))
    roomy = Cache(folder=cache.folder, most_bytes=10**9)

    def die() -> None:
        original = Path.rename

        def killed(self: Path, target: Any) -> Any:
            if self.name == "data":
                os.kill(os.getpid(), 9)
            return original(self, target)

        Path.rename = killed  # type: ignore[method-assign]
        with cached(dataset, roomy, never):
            pass

    assert children.wait(children.fork(die)) == -9
    assert not (cache.folder / dataset.sha256).exists()
    with cached(dataset, roomy, never) as folder:
        assert (folder / "a").stat().st_size == 50_000
    assert not list(cache.folder.glob(".new-*"))


def test_content_that_is_gone_or_another_is_a_missing_dataset(cache):
    dataset = shared(tarred(a=b"1"))
    default_storage.delete(dataset.storage_key)
    with pytest.raises(DatasetFailed, match="missing") as gone, cached(dataset, cache, never):
        pass
    storage().put(dataset.storage_key, [b"something else"])
    with pytest.raises(DatasetFailed, match="not what was uploaded") as other, cached(dataset, cache, never):
        pass
    assert gone.value.reason is other.value.reason is Reason.DATASET_MISSING
    assert not list(cache.folder.glob(".new-*"))


def test_an_archive_larger_than_the_cache_is_refused(cache):
    with pytest.raises(DatasetFailed, match="comes to more than") as found:  # noqa: SIM117
        with cached(shared(tarred(a=bytes(50_000))), cache, never):
            pass
    assert found.value.reason is Reason.SETUP_FAILED


def test_a_stop_ends_a_download_and_the_wait_for_another_ones(cache):
    dataset = shared(tarred(a=b"1"))
    with pytest.raises(InterruptedError), cached(dataset, cache, lambda: True):
        pass
    assert not list(cache.folder.glob(".new-*"))


def test_storage_that_is_away_for_good_is_said_as_a_loss(cache, settings, monkeypatch):
    dataset = shared(tarred(a=b"1"))
    settings.RERAIL = factories.changed(settings.RERAIL, publish=0.0)

    def away(*_: Any) -> Any:
        raise StorageFailed("Storage could not be reached.")

    monkeypatch.setattr(type(storage()), "read", away)
    with pytest.raises(DatasetFailed, match="could not be downloaded") as found:  # noqa: SIM117
        with cache_of_worker.ready(dataset, never):
            pass
    assert found.value.reason is Reason.PUBLISH_FAILED


def test_a_large_file_takes_little_memory(cache):
    dataset = datasets.share(
        factories.user(), factories.Sent(*[bytes(256 * 1024)] * 600, filename="zeros.bin", name="zeros")
    )

    def use() -> None:
        with cached(dataset, cache, never):
            pass

    assert children.growth(use) < 32 * 1024 * 1024


# --- with real workers ------------------------------------------------------------------------------------------------

LOOK = """
    import os
    folder = os.environ["RERAIL_DATASET_DIR"]
    print(sorted(os.listdir(folder)), open(folder + "/a").read())
    for path in (folder + "/a", folder + "/new"):
        try:
            open(path, "w")
            print("written")
        except OSError:
            print("refused")
    """


def test_a_script_reads_its_dataset_and_cannot_write_it(run: Callable[..., Job]):
    shared(tarred(a=b"hello", b=b""))
    job = run(LOOK, dataset_ref="digits")
    assert (job.state, printed(job)) == ("SUCCEEDED", b"['a', 'b'] hello\nrefused\nrefused\n")
    phases = [event.details["phase"] for event in job.events.filter(kind="phase_changed")]
    assert phases == ["downloading", "training", "publishing"]
    again = run(LOOK, dataset_ref="digits")
    assert again.state == "SUCCEEDED"
    invariants.check()


def test_a_job_waits_for_its_upload_and_then_trains_on_it(start_worker: Callable[..., Any]):
    start_worker()
    job = begin(LOOK, dataset_ref="upload")
    assert not Execution.objects.exists()
    datasets.upload(job.pk, job.owner, factories.Sent(b"hello", filename="a"))
    assert ended(job).state == "SUCCEEDED"
    assert printed(job).startswith(b"['a'] hello\n")


def test_a_hostile_archive_fails_the_setup_in_one_sentence(run: Callable[..., Job]):
    shared(tarred(**{"../../out": b"1"}))
    job = run("print('never')", dataset_ref="digits")
    assert (job.state, job.reason) == ("FAILED", "setup_failed")
    assert job.message == (
        "The dataset data.tar.gz can't be unpacked: The archive holds the name '../../out', which can't be used."
    )


def test_a_dataset_that_storage_lost_fails_the_job(run: Callable[..., Job]):
    dataset = shared(b"1", "a.csv")
    default_storage.delete(dataset.storage_key)
    job = run("print('never')", dataset_ref="digits")
    assert (job.state, job.reason) == ("FAILED", "dataset_missing")
    assert kinds(job)[-1] == "failed"


def test_a_cancel_ends_the_wait_for_a_dataset_that_another_execution_makes(start_worker: Callable[..., Any]):
    dataset = shared(b"1", "a")
    folder = Path(django_settings.RERAIL.data_dir) / "cache" / "datasets"
    stop, held = threading.Event(), threading.Event()

    def hold() -> None:
        folder.mkdir(mode=0o711, parents=True, exist_ok=True)
        with cache_of_worker._held(Cache(folder=folder, most_bytes=1), dataset.sha256, 2, never):
            held.set()
            stop.wait(60)

    holder = threading.Thread(target=hold)
    holder.start()
    try:
        assert held.wait(10)
        start_worker()
        job = begin("print('never')", dataset_ref="digits")
        from tests.waiting import eventually

        eventually(lambda: Execution.objects.filter(job=job, phase="downloading").exists())
        cancellation.cancel(job.pk, job.owner)
        assert ended(job).state == "CANCELLED"
    finally:
        stop.set()
        holder.join()
