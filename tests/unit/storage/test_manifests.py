"""What a manifest may say, and what is refused of a hostile one."""

import hashlib
import json
import os
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.models import Checkpoint
from jobs.storage import manifests
from jobs.storage.manifests import CheckpointRejected, Entry, Kind, LeftOut, Manifest
from jobs.storage.objects import Stored
from jobs.storage.paths import is_safe_path, is_safe_target, printable

SHA = "a" * 64
FILE = {
    "path": "model",
    "kind": "file",
    "mode": 0o644,
    "mtime_ns": 1,
    "size": 3,
    "sha256": SHA,
    "key": f"jobs/7/blobs/1/{SHA}",
}


class Shelf:
    """A storage of one object."""

    def __init__(self) -> None:
        self.content = b""

    def put_by_hash(self, folder: str, source: Any, named: Any) -> Stored:
        self.content = b"".join(source.chunks())
        sha256 = hashlib.sha256(self.content).hexdigest()
        return Stored(key=f"{folder}/{sha256}", sha256=sha256, size=len(self.content), new=True)

    def settle(self, folder: str) -> None: ...

    def read(self, key: str) -> Iterator[bytes]:
        yield self.content


@pytest.fixture
def shelf(monkeypatch: pytest.MonkeyPatch) -> Shelf:
    shelf = Shelf()
    monkeypatch.setattr(manifests, "storage", lambda: shelf)
    return shelf


def loaded(shelf: Shelf, document: Any) -> Manifest:
    shelf.content = json.dumps(document).encode()
    key = f"jobs/7/manifests/1/{hashlib.sha256(shelf.content).hexdigest()}"
    return manifests.load(Checkpoint(job_id=7, n=1, manifest_key=key))


def document(*entries: Any, **more: Any) -> dict[str, Any]:
    return {"version": 1, "job": 7, "attempt": 1, "entries": list(entries), "left_out": [], **more}


def test_a_manifest_is_read_back_as_it_was_written(shelf: Shelf) -> None:
    manifest = Manifest(
        job_id=7,
        attempt=1,
        entries=(
            Entry(path="d", kind=Kind.DIR, mode=0o755, mtime_ns=-5),
            Entry(path="d/l", kind=Kind.SYMLINK, mtime_ns=2**60, target="../m\udcff"),
            Entry(path="m\udcff", kind=Kind.FILE, mode=0, size=0, sha256=SHA, key=f"jobs/7/blobs/3/{SHA}"),
        ),
        left_out=(LeftOut(path="pipe", why="is a named pipe"),),
    )
    stored = manifests.save(manifest)
    assert manifests.load(Checkpoint(job_id=7, n=1, manifest_key=stored.key)) == manifest


def test_each_entry_carries_what_the_contract_lists(shelf: Shelf) -> None:
    assert next(loaded(shelf, document(FILE)).files).key == FILE["key"]
    manifests.save(loaded(shelf, document(FILE)))
    assert json.loads(shelf.content) == document(FILE)


@pytest.mark.parametrize(
    "path",
    ["/etc/passwd", "../up", "a/../../b", "", ".", "a//b", "a/", "nul\0", "x" * 256, "no/parent", "\ud800", 5, None],
)
def test_paths_that_could_lead_elsewhere_are_refused(shelf: Shelf, path: Any) -> None:
    with pytest.raises(CheckpointRejected, match="can't be used"):
        loaded(shelf, document({**FILE, "path": path}))


@pytest.mark.parametrize(
    "change",
    [
        {"mode": 0o4755},
        {"mode": -1},
        {"mode": "644"},
        {"size": -1},
        {"size": 1.5},
        {"size": True},
        {"mtime_ns": 2**63},
        {"sha256": "A" * 64},
        {"sha256": "b" * 64},
        {"key": f"jobs/7/blobs/1/../{SHA}"},
        {"key": f"../{SHA}"},
        {"key": f"jobs/7/blobs/1/{SHA}\n"},
        {"kind": "device"},
        {"kind": "symlink", "target": "/etc/passwd"},
        {"kind": "symlink", "target": "../x"},
        {"kind": "symlink", "target": ""},
        {"surprise": 1},
    ],
)
def test_entries_that_say_something_odd_are_refused(shelf: Shelf, change: dict[str, Any]) -> None:
    with pytest.raises(CheckpointRejected, match="can't be used"):
        loaded(shelf, document({**FILE, **change}))


@pytest.mark.parametrize(
    "odd",
    [
        [],
        None,
        {},
        document(FILE, FILE),
        document(FILE, {**FILE, "path": "model/below"}),
        document(version=2),
        document(5),
        document(left_out=[{"path": "x"}]),
        document(job="7"),
    ],
)
def test_documents_of_another_shape_are_refused(shelf: Shelf, odd: Any) -> None:
    with pytest.raises(CheckpointRejected, match="can't be used"):
        loaded(shelf, odd)


def test_another_jobs_manifest_is_refused(shelf: Shelf) -> None:
    with pytest.raises(CheckpointRejected, match="another job's"):
        loaded(shelf, document(job=8))


def test_a_manifest_beyond_the_limit_is_refused(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifests, "MAX_BYTES", 100)
    with pytest.raises(CheckpointRejected, match="too large"):
        loaded(shelf, document(FILE))


@pytest.mark.parametrize(
    ("path", "target", "safe"),
    [
        ("latest", "epoch5", True),
        ("a/b/latest", "../../epoch5", True),
        ("a/latest", "./c//d", True),
        ("a/latest", "..", True),
        ("latest", ".", True),
        ("latest", "..", False),
        ("a/latest", "../../x", False),
        ("a/latest", "b/../..", False),
        ("latest", "b/../c", False),
        ("latest", "/a", False),
    ],
)
def test_links_may_only_point_inside(path: str, target: str, safe: bool) -> None:
    assert is_safe_target(path, target) is safe


@given(st.binary(min_size=1, max_size=40))
def test_every_name_that_a_folder_can_hold_is_safe_and_printable(name: bytes) -> None:
    text = os.fsdecode(name)
    assert is_safe_path(text) == (name not in {b".", b".."} and b"\0" not in name and _names_are_plain(name))
    printable(text).encode()


def _names_are_plain(path: bytes) -> bool:
    return all(part not in {b"", b".", b".."} for part in path.split(b"/"))
