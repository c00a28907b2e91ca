"""What a folder promises beyond that: modes, and what a killed writer leaves."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import SuspiciousFileOperation

from jobs.storage.local import LEFTOVER, LocalStorage
from jobs.storage.objects import StorageFailed

KEY = "jobs/7/blobs/2/" + "a" * 64


@pytest.fixture
def folder(tmp_path: Path) -> LocalStorage:
    return LocalStorage(location=str(tmp_path / "storage"))


def test_only_the_service_may_look_inside(folder: LocalStorage, tmp_path: Path) -> None:
    folder.put(KEY, [b"x"])
    paths = [tmp_path / "storage", *(tmp_path / "storage").rglob("*")]
    assert {oct(path.stat().st_mode & 0o777) for path in paths if path.is_dir()} == {"0o700"}
    assert {oct(path.stat().st_mode & 0o777) for path in paths if path.is_file()} == {"0o600"}


def test_keys_lie_where_the_contract_says(folder: LocalStorage, tmp_path: Path) -> None:
    folder.put(KEY, [b"x"])
    assert (tmp_path / "storage" / KEY).read_bytes() == b"x"


def test_a_key_cannot_leave_the_folder(folder: LocalStorage) -> None:
    with pytest.raises(SuspiciousFileOperation):
        folder.put("../outside", [b"x"])


def test_an_object_appears_only_once_it_is_whole(folder: LocalStorage) -> None:
    def chunks() -> Any:
        yield b"begun"
        assert list(folder.keys("jobs")) == []
        yield b" and ended"

    folder.put(KEY, chunks())
    assert list(folder.keys("jobs")) == [(KEY, 15)]


def test_content_is_synced_before_it_is_renamed_and_its_folder_after(
    folder: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.put(KEY + "0", [b"x"])
    done: list[str] = []
    fsync, replace = os.fsync, Path.replace

    def traced_fsync(fd: int) -> None:
        done.append(f"sync {Path(os.readlink(f'/proc/self/fd/{fd}')).name[:6]}")
        fsync(fd)

    def traced_replace(self: Path, target: Path) -> Path:
        done.append("rename")
        return replace(self, target)

    monkeypatch.setattr(os, "fsync", traced_fsync)
    monkeypatch.setattr(Path, "replace", traced_replace)
    folder.put(KEY, [b"x"])
    assert done == [f"sync {LEFTOVER}", "rename", "sync 2"]


WRITER = """
import sys
from jobs.storage.local import LocalStorage
def chunks():
    yield b"x" * 100
    print("writing", flush=True)
    sys.stdin.read()
LocalStorage(location=sys.argv[1]).put(sys.argv[2], chunks())
"""


def test_what_a_killed_writer_left_is_removed_and_what_a_living_one_writes_is_not(
    folder: LocalStorage, tmp_path: Path
) -> None:
    command = [sys.executable, "-c", WRITER, str(tmp_path / "storage"), KEY]
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "config.settings"}
    writer = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
    assert writer.stdout is not None
    assert writer.stdout.readline() == b"writing\n"
    assert folder.remove_leftovers("jobs/7") == 0
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    writer.stdout.close()
    [leftover] = [path for path in (tmp_path / "storage").rglob("*") if path.is_file()]
    assert leftover.name.startswith(LEFTOVER)
    assert list(folder.keys("jobs")) == []
    assert folder.remove_leftovers("jobs/7") == 1
    assert not (tmp_path / "storage/jobs").exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_named(folder: LocalStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(fd: int, content: bytes) -> int:
        with open("/dev/full", "wb", buffering=0) as device:
            return device.write(content)

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(StorageFailed, match="disk is full") as failed:
        folder.put(KEY, [b"x"])
    assert failed.value.full
    assert not [path for path in Path(folder.location).rglob("*") if path.is_file()]
