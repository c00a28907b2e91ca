"""Snapshots beside a running script: when they are taken, what fails them, and how they end."""

import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from jobs.commands.executions import Lease
from jobs.models import Checkpoint, Event, Job
from jobs.storage.objects import ObjectStorage
from jobs.storage.restore import restore
from tests.integration.storage import trees
from tests.integration.storage.conftest import lose
from tests.waiting import eventually
from workers import snapshots
from workers.requests import Requests
from workers.snapshots import Publisher, Snapshots
from workers.stopping import Stop
from workers.workspace import SDK

NEVER = 3600.0


@pytest.fixture
def sdk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module that scripts import, asking here."""
    monkeypatch.setenv("RERAIL_CHECKPOINT", str(tmp_path / "checkpoint"))
    monkeypatch.setattr(sys, "path", [str(SDK), *sys.path])
    import rerail  # type: ignore[import-not-found]

    yield rerail
    del sys.modules["rerail"]


@pytest.fixture
def requests(tmp_path: Path) -> Iterator[Requests]:
    with Requests(tmp_path / "checkpoint.requests", tmp_path / "checkpoint.answers") as requests:
        yield requests


@pytest.fixture
def begin(lease: Lease, output: Path, requests: Requests) -> Callable[..., Snapshots]:
    """Snapshots of `output` for the running execution."""

    def begin(every: float = NEVER, stop: Stop | None = None) -> Snapshots:
        stop = stop or Stop()
        publisher = Publisher(lease, output, attempt=1, restored=None, stop=stop)
        made = Snapshots(publisher, stop, requests, every=every, step=lambda: 7)
        made.publisher = publisher  # type: ignore[attr-defined]
        return made

    return begin


def kinds() -> list[str]:
    return list(Event.objects.filter(kind__startswith="checkpoint_").values_list("kind", flat=True))


def test_one_is_taken_every_so_many_seconds_and_an_unchanged_output_makes_none(
    local: ObjectStorage, output: Path, begin: Any
) -> None:
    with begin(every=0.3):
        trees.write(output, {"model": b"1"})
        eventually(Checkpoint.objects.exists)
        first = Checkpoint.objects.get()
        threading.Event().wait(1.5)
        assert Checkpoint.objects.count() == 1
        trees.write(output, {"model": b"22"})
        eventually(lambda: Checkpoint.objects.count() == 2)
    assert (first.n, first.step, first.final) == (1, 7, False)


def test_an_empty_output_is_skipped_except_at_the_end(local: ObjectStorage, begin: Any) -> None:
    with begin(every=0.1) as running:
        threading.Event().wait(1.0)
    assert not Checkpoint.objects.exists()
    assert running.publisher.publish(step=None, final=True) is not None


def test_the_final_one_is_made_of_an_unchanged_output_too(local: ObjectStorage, output: Path, begin: Any) -> None:
    publisher = begin().publisher
    trees.write(output, {"model": b"1"})
    assert publisher.publish(step=1) is not None
    assert publisher.publish(step=2) is None
    final = publisher.publish(step=3, final=True)
    assert (final.checkpoint.n, final.checkpoint.new_bytes, final.checkpoint.final) == (2, 0, True)


def test_a_script_asks_for_one_and_waits_until_it_is_stored(
    local: ObjectStorage, output: Path, begin: Any, sdk: Any, tmp_path: Path
) -> None:
    with begin():
        trees.write(output, {"model": b"1"})
        sdk.log(step=41)
        assert sdk.checkpoint(wait=True, timeout=30) is True
        checkpoint = Checkpoint.objects.get()
        assert checkpoint.step == 41
        trees.write(output, {"model": b"22"})
        assert sdk.checkpoint() is False, "nobody knows yet"
        eventually(lambda: Checkpoint.objects.count() == 2)
    restore(checkpoint, tmp_path / "again")
    assert (tmp_path / "again/model").read_bytes() == b"1"


def test_without_an_answer_it_waits_no_longer_than_it_said(sdk: Any) -> None:
    Path(sdk.os.environ["RERAIL_CHECKPOINT"] + ".answers").touch()
    assert sdk.checkpoint(wait=True, timeout=0.1) is False


def test_rubbish_in_the_requests_asks_for_one_and_breaks_nothing(
    local: ObjectStorage, output: Path, begin: Any, tmp_path: Path
) -> None:
    trees.write(output, {"model": b"1"})
    with begin():
        with (tmp_path / "checkpoint.requests").open("ab") as file:
            file.write(b"\xff" * 200_000 + b"\n" + b"9" * 40 + b"\n")
        eventually(Checkpoint.objects.exists)
    assert Checkpoint.objects.get().step == 7


def test_a_failed_one_is_told_once_and_the_next_one_heals_it(
    local: Any, output: Path, begin: Any, sdk: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "RETRY_SECONDS", 0.1)
    place = Path(local.location)
    shutil.rmtree(place, ignore_errors=True)
    place.write_text("in the way")
    trees.write(output, {"model": b"1"})
    with begin():
        assert sdk.checkpoint(wait=True, timeout=30) is False
        assert sdk.checkpoint(wait=True, timeout=30) is False
        assert kinds() == ["checkpoint_failed"]
        place.unlink()
        eventually(lambda: Checkpoint.objects.exists())
    assert kinds() == ["checkpoint_failed", "checkpoint_saved"]
    assert Event.objects.get(kind="checkpoint_failed").message.startswith("A checkpoint could not be saved")
    assert Job.objects.get().state == "RUNNING"


def test_leaving_interrupts_one_under_way_and_the_final_one_goes_on_from_what_it_stored(
    local: ObjectStorage, output: Path, begin: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    trees.write(output, {"a": b"first!", "b": b"second"})
    put, one_done, calls = type(local).put_by_hash, threading.Event(), []
    running = begin(every=0.1)

    def hesitant(self: Any, folder: str, source: Any, named: Any) -> Any:
        calls.append(source)
        if len(calls) == 2:
            one_done.wait(30)
            running._ended.wait(30)
        stored = put(self, folder, source, named)
        one_done.set()
        return stored

    monkeypatch.setattr(type(local), "put_by_hash", hesitant)
    with running:
        assert one_done.wait(30)
    assert not running._thread.is_alive()
    assert not Checkpoint.objects.exists()
    calls[:] = [None, None]
    final = running.publisher.publish(step=None, final=True)
    assert final.checkpoint.file_count == 2
    assert final.checkpoint.new_bytes == len(b"second"), "the other was stored before"
    assert len(calls) - 2 == 2, "the other file and the manifest"


def test_losing_the_execution_ends_the_thread_and_leaves_nothing(
    local: ObjectStorage, lease: Lease, output: Path, begin: Any
) -> None:
    stop = Stop()
    lose(lease)
    trees.write(output, {"model": b"1"})
    with begin(every=0.1, stop=stop) as running:
        eventually(lambda: stop.fenced)
        running._thread.join(30)
    assert not Checkpoint.objects.exists()
    assert list(local.keys("jobs")) == []
