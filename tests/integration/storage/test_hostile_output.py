"""An `output/` whose owner means harm, or just goes on writing."""

import errno
import os
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from jobs.commands.executions import Lease
from jobs.storage import manifests
from jobs.storage.manifests import Manifest
from jobs.storage.objects import ObjectStorage
from jobs.storage.restore import restore
from tests.integration.storage import trees
from workers import snapshot
from workers.checkpointer import PublishFailed, publish

SECRET = b"the service's own secret"


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_bytes(SECRET)
    return path


@pytest.fixture(autouse=True)
def in_a_folder(local: ObjectStorage) -> None:
    """What is read of output/ does not depend on where it goes."""


def taken(lease: Lease, output: Path, *known: Manifest, final: bool = True) -> Manifest:
    published = publish(lease, output, attempt=1, known=known, final=final)
    assert published is not None
    return published.manifest


def left_out(manifest: Manifest) -> dict[str, str]:
    return {item.path: item.why for item in manifest.left_out}


def test_what_no_checkpoint_can_hold_is_left_out_and_named(
    lease: Lease, output: Path, secret: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trees.write(output, {"model": b"weights", "deep/log": b"1"})
    os.mkfifo(output / "pipe")
    monkeypatch.chdir(output)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")
    (output / "absolute").symlink_to(secret)
    (output / "out").symlink_to("../secret")
    (output / "deep/out").symlink_to("../../secret")
    (output / "sly").symlink_to("deep/../../secret")
    (output / "deep/in").symlink_to("../model")
    manifest = taken(lease, output)
    assert [entry.path for entry in manifest.entries] == ["deep", "deep/in", "deep/log", "model"]
    link = "is a link that points out of output/"
    assert left_out(manifest) == {
        "pipe": "is a named pipe",
        "socket": "is a socket",
        **dict.fromkeys(["absolute", "out", "deep/out", "sly"], link),
    }


@pytest.mark.skipif(os.getuid() != 0, reason="needs another user and a device")
def test_devices_and_other_peoples_files_are_left_out(lease: Lease, output: Path, secret: Path) -> None:
    trees.write(output, {"model": b"weights"})
    for path in (output, output / "model"):
        os.chown(path, 64001, 64001)
    os.mknod(output / "device", 0o20666, os.makedev(1, 5))
    os.chown(output / "device", 64001, 64001)
    os.link(secret, output / "stolen")
    manifest = taken(lease, output)
    assert [entry.path for entry in manifest.entries] == ["model"]
    assert left_out(manifest) == {"device": "is a device", "stolen": "belongs to another user"}


def test_what_is_swapped_for_a_link_out_after_a_look_at_it_reveals_nothing(
    lease: Lease, output: Path, secret: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trees.write(output, {"model": SECRET[::-1], "folder/secret": SECRET[::-1], "log": b"1"})
    walk = snapshot.Output.walk

    def swapped(self: snapshot.Output) -> snapshot.Tree:
        tree = walk(self)
        for path, target in ((output / "model", secret), (output / "folder", secret.parent)):
            path.rename(tmp_path / f"{path.name}.aside")
            path.symlink_to(target)
        return tree

    monkeypatch.setattr(snapshot.Output, "walk", swapped)
    assert [entry.path for entry in taken(lease, output).files] == ["log"]


def test_a_folder_swapped_for_a_link_out_while_it_is_listed_reveals_nothing(
    lease: Lease, output: Path, secret: Path
) -> None:
    trees.write(output, {"folder/log": b"1", "log": b"1"})

    def swap() -> None:
        (output / "folder").rename(output / ".aside")
        (output / "folder").symlink_to(secret.parent)
        (output / "folder").unlink()
        (output / ".aside").rename(output / "folder")

    with racing(swap):
        deadline = time.monotonic() + 2
        while time.monotonic() < deadline:
            assert {entry.path.rpartition("/")[2] for entry in taken(lease, output).files} <= {"log"}


def test_a_file_swapped_for_a_pipe_never_blocks(lease: Lease, output: Path) -> None:
    trees.write(output, {"model": b"weights", "other": b"weights"})

    def swap() -> None:
        (output / "model").rename(output / ".aside")
        os.mkfifo(output / "model")
        (output / "model").unlink()
        (output / ".aside").rename(output / "model")

    with racing(swap):
        deadline = time.monotonic() + 2
        while time.monotonic() < deadline:
            taken(lease, output)


def test_a_file_that_keeps_changing_is_left_at_its_last_stored_content(
    lease: Lease, output: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trees.write(output, {"model": b"a" * 1000, "log": b"1"})
    first = taken(lease, output, final=False)
    trees.write(output, {"model": b"b" * 1000, "new": b"1"})
    read = os.read

    def changing(fd: int, size: int) -> bytes:
        path = os.readlink(f"/proc/self/fd/{fd}")
        if path.endswith(("/model", "/new")):
            with open(path, "ab") as file:
                file.write(b"more")
        return read(fd, size)

    with monkeypatch.context() as patch:
        patch.setattr(os, "read", changing)
        second = publish(lease, output, attempt=1, known=[first], final=False)
    assert second is not None
    restore(second.checkpoint, tmp_path / "again")
    assert (tmp_path / "again/model").read_bytes() == b"a" * 1000
    assert left_out(second.manifest) == {"new": "kept changing while it was read"}


def test_a_file_that_changes_once_is_taken_again(
    lease: Lease, output: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trees.write(output, {"model": b"before"})
    read = os.read
    changed: list[bytes] = []

    def change_first(fd: int, size: int) -> bytes:
        if not changed and os.readlink(f"/proc/self/fd/{fd}").endswith("/model"):
            changed.append(read(fd, 3))
            (output / "model").write_bytes(b"after!")
            return changed[0]
        return read(fd, size)

    with monkeypatch.context() as patch:
        patch.setattr(os, "read", change_first)
        published = publish(lease, output, attempt=1, final=True)
    assert published is not None
    restore(published.checkpoint, tmp_path / "again")
    assert (tmp_path / "again/model").read_bytes() == b"after!"
    assert {path.name for path in (tmp_path / "storage").rglob("*") if path.is_file()} == {
        *(entry.sha256 for entry in published.manifest.files),
        published.checkpoint.manifest_key.rpartition("/")[2],
    }


def test_an_output_that_became_a_link_counts_as_empty(lease: Lease, output: Path, secret: Path) -> None:
    output.rmdir()
    output.symlink_to(secret.parent)
    manifest = taken(lease, output)
    assert manifest.entries == ()
    assert left_out(manifest) == {".": "output/ was replaced by a link"}


def test_an_output_that_was_deleted_counts_as_empty(lease: Lease, output: Path) -> None:
    output.rmdir()
    assert taken(lease, output).entries == ()


def test_a_folder_without_end_is_cut_off_and_named(lease: Lease, output: Path) -> None:
    fd = os.open(output, os.O_RDONLY)
    for _ in range(600):
        os.mkdir("d", dir_fd=fd)
        below = os.open("d", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    os.close(fd)
    manifest = taken(lease, output)
    assert len(manifest.entries) == 127
    assert list(left_out(manifest).values()) == ["lies too deep"]


def test_more_files_than_a_checkpoint_holds_are_refused_in_one_sentence(
    lease: Lease, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "MAX_ENTRIES", 50)
    trees.write(output, {f"part{i}": b"" for i in range(51)})
    with pytest.raises(PublishFailed, match=r"There are more than 50 files and folders in output/\."):
        taken(lease, output)


def test_ever_so_many_things_left_out_are_counted(lease: Lease, output: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "MAX_NAMED", 3)
    for i in range(10):
        os.mkfifo(output / f"pipe{i}")
    manifest = taken(lease, output)
    assert len(manifest.left_out) == 4
    assert left_out(manifest)["…"] == "and 7 more"


def test_what_cannot_be_read_is_left_out_and_named(lease: Lease, output: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trees.write(output, {"model": b"x", "closed/log": b"x", "open/log": b"x"})
    plain_open = os.open

    def refusing(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        # As for anybody but root, who may read everything.
        if dir_fd is not None and path in {"model", "closed"}:
            raise PermissionError(errno.EACCES, "Permission denied")
        return plain_open(path, flags, mode, dir_fd=dir_fd)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refusing)
        manifest = taken(lease, output)
    assert [entry.path for entry in manifest.entries] == ["open", "open/log"]
    assert left_out(manifest) == dict.fromkeys(["model", "closed"], "can't be read")


def test_names_that_are_not_utf_8_are_listed_in_a_way_people_can_use(lease: Lease, output: Path) -> None:
    with open(os.fsencode(output) + b"/\xff.bin", "wb") as file:
        file.write(b"weights")
    published = publish(lease, output, attempt=1, final=True)
    assert published is not None
    [listed] = manifests.files(published.checkpoint)
    assert listed["path"] == "\\xff.bin"
    assert manifests.find(published.manifest, listed["path"]).size == 7


class racing:  # noqa: N801  reads as a word in `with racing(…)`
    """Repeats an action on another thread for as long as the block runs."""

    def __init__(self, action: Callable[[], None]) -> None:
        self._action = action
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self._over.is_set():
            self._action()

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
