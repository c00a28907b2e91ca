"""Archives that anybody may have made."""

import gzip
import io
import os
import stat
import tarfile
import tracemalloc
import zipfile
from pathlib import Path

import pytest

from jobs.storage import unpacking
from jobs.storage.unpacking import Limits, TooBig, Unpackable

LIMITS = Limits(entries=1000, total_bytes=50 * 1024 * 1024, free_bytes=1024 * 1024)


@pytest.fixture
def into(tmp_path: Path) -> Path:
    folder = tmp_path / "into"
    folder.mkdir()
    return folder


def tar(path: Path, *members: tarfile.TarInfo | tuple[str, bytes], mode: str = "w") -> Path:
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                archive.addfile(member)
            else:
                info = tarfile.TarInfo(member[0])
                info.size = len(member[1])
                archive.addfile(info, io.BytesIO(member[1]))
    return path


def special(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def zipped(path: Path, *members: tuple[str | zipfile.ZipInfo, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return path


def linking(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    return info


def refused(archive: Path, into: Path, why: str) -> Unpackable:
    with pytest.raises(Unpackable, match=why) as found:
        unpacking.unpack(archive, into, LIMITS)
    with pytest.raises(Unpackable, match=why):
        unpacking.inspect(archive, LIMITS)
    assert str(found.value).endswith(".")
    outside = {path.name for path in into.parent.iterdir()} - {"into", archive.name}
    assert not outside
    return found.value


@pytest.mark.parametrize("mode", ["w", "w:gz"])
def test_a_tar_becomes_its_tree(tmp_path: Path, into: Path, mode: str) -> None:
    link, hard = special("sub/link", tarfile.SYMTYPE, "../a.csv"), special("same", tarfile.LNKTYPE, "./a.csv")
    folder = special("./empty/", tarfile.DIRTYPE)
    long = "n" * 200 + "/" + "m" * 200
    path = tar(
        tmp_path / "x", ("./a.csv", b"1,2"), ("sub/deep/ü", b"x" * 3000), (long, b""), link, hard, folder, mode=mode
    )
    assert unpacking.unpack(path, into, LIMITS) == 3003
    assert (into / "sub/link").read_bytes() == (into / "same").read_bytes() == b"1,2"
    assert (into / "sub/deep/ü").read_bytes() == b"x" * 3000
    assert (into / "empty").is_dir()
    assert unpacking.inspect(path, LIMITS) == {"a.csv", "sub/deep/ü", long}


def test_a_zip_becomes_its_tree(tmp_path: Path, into: Path) -> None:
    program = zipfile.ZipInfo("bin/run")
    program.external_attr = 0o100755 << 16
    path = zipped(tmp_path / "x", ("a.csv", b"1,2"), ("sub/", b""), ("sub/b", b"y" * 9000), (program, b"#!"),
                  (linking("link"), b"sub/b"))  # fmt: skip
    assert unpacking.unpack(path, into, LIMITS) == 9005
    assert (into / "link").read_bytes() == b"y" * 9000
    assert os.access(into / "bin/run", os.X_OK)
    assert not os.access(into / "a.csv", os.X_OK)


@pytest.mark.parametrize("name", ["../out", "/etc/passwd", "a/../../out", "a//b", "..", "x" * 300, "a/./b"])
def test_a_name_that_leads_elsewhere_refuses_the_archive(tmp_path: Path, into: Path, name: str) -> None:
    refused(tar(tmp_path / "x", ("good", b"1"), (name, b"2")), into, "can't be used")
    refused(zipped(tmp_path / "x", (name, b"2")), tmp_path / "into", "can't be used")


@pytest.mark.parametrize("target", ["/etc/passwd", "../out", "../../out", "a/../../../out"])
def test_a_link_that_leads_out_refuses_the_archive(tmp_path: Path, into: Path, target: str) -> None:
    refused(tar(tmp_path / "x", special("link", tarfile.SYMTYPE, target)), into, "leads out")
    refused(zipped(tmp_path / "x", (linking("link"), target.encode())), into, "leads out")


def test_nothing_is_written_through_a_link(tmp_path: Path, into: Path) -> None:
    link = special("sub", tarfile.SYMTYPE, "other")
    refused(tar(tmp_path / "x", link, ("sub/file", b"1")), into, "twice")


def test_a_hard_link_leads_to_a_file_of_the_archive_alone(tmp_path: Path, into: Path) -> None:
    refused(tar(tmp_path / "x", special("link", tarfile.LNKTYPE, "none")), into, "no file before it")
    refused(tar(tmp_path / "x", special("link", tarfile.LNKTYPE, "/etc/passwd")), tmp_path / "into", "can't be used")


@pytest.mark.parametrize("kind", [tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE])
def test_devices_and_fifos_refuse_the_archive(tmp_path: Path, into: Path, kind: bytes) -> None:
    refused(tar(tmp_path / "x", special("odd", kind)), into, "no file, folder or link")


def test_a_name_given_twice_refuses_the_archive(tmp_path: Path, into: Path) -> None:
    refused(tar(tmp_path / "x", ("a", b"1"), ("./a", b"2")), into, "twice")


def test_a_file_in_the_place_of_a_folder_refuses_the_archive(tmp_path: Path, into: Path) -> None:
    refused(tar(tmp_path / "x", ("a", b"1"), ("a/b", b"2")), into, "twice")


@pytest.mark.parametrize("kind", ["tar.gz", "zip"])
def test_a_bomb_is_refused_before_it_bursts(tmp_path: Path, into: Path, kind: str) -> None:
    zeros = bytes(40 * 1024 * 1024)
    path = tmp_path / "x"
    if kind == "zip":
        zipped(path, ("zeros", zeros))
    else:
        tar(path, ("zeros", zeros), mode="w:gz")
    assert isinstance(refused(path, into, "comes to more than"), TooBig)
    assert sum(file.stat().st_size for file in into.rglob("*")) <= 8 * 1024 * 1024


def test_a_header_that_would_fill_the_memory_is_refused(tmp_path: Path, into: Path) -> None:
    info = tarfile.TarInfo("pax")
    info.type, info.size = tarfile.XHDTYPE, 30 * 1024 * 1024
    path = tmp_path / "x"
    with gzip.open(path, "wb", 1) as file:
        file.write(info.tobuf())
        file.write(bytes(30 * 1024 * 1024))
    tracemalloc.start()
    refused(path, into, "header")
    assert tracemalloc.get_traced_memory()[1] < 8 * 1024 * 1024
    tracemalloc.stop()


def test_very_many_entries_are_too_many(tmp_path: Path, into: Path) -> None:
    tiny = [(str(number), b"") for number in range(1001)]
    assert isinstance(refused(tar(tmp_path / "x", *tiny, mode="w:gz"), into, "more than 1000 entries"), TooBig)
    assert isinstance(refused(zipped(tmp_path / "x", *tiny), tmp_path / "into", "more than 1000 entries"), TooBig)


@pytest.mark.parametrize("kind", ["tar", "tar.gz", "zip"])
@pytest.mark.parametrize("share", [0.3, 0.9])
def test_what_breaks_off_is_refused(tmp_path: Path, into: Path, kind: str, share: float) -> None:
    path = tmp_path / "x"
    content = os.urandom(100_000)
    if kind == "zip":
        zipped(path, ("a", content))
    else:
        tar(path, ("a", content), mode="w:gz" if kind == "tar.gz" else "w")
    os.truncate(path, int(path.stat().st_size * share))
    refused(path, into, "damaged")


def test_a_tar_that_breaks_off_between_two_members_is_refused(tmp_path: Path, into: Path) -> None:
    path = tar(tmp_path / "x", ("a", bytes(512)))
    os.truncate(path, 1024)
    refused(path, into, "breaks off")


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 no zip", b"\x1f\x8b no gzip", b"nothing of the kind" * 100])
def test_rubbish_is_refused_in_a_sentence(tmp_path: Path, into: Path, content: bytes) -> None:
    path = tmp_path / "x"
    path.write_bytes(content)
    refused(path, into, "damaged")


@pytest.mark.parametrize(
    ("name", "content", "archive"),
    [
        ("a.tar", b"", True), ("a.TGZ", b"", True), ("a.tar.gz", b"", True), ("a.zip", b"", True),
        ("weights.npz", b"PK\x03\x04", False), ("a.csv.gz", b"\x1f\x8b", False), ("model.pt", b"PK\x03\x04", False),
        ("dataset", b"PK\x03\x04", True), ("dataset", b"\x1f\x8b", True), ("dataset", b"1,2", False),
    ],
)  # fmt: skip
def test_an_archive_is_told_by_its_name_or_without_suffix_by_its_content(
    tmp_path: Path, name: str, content: bytes, archive: bool
) -> None:
    path = tmp_path / "x"
    path.write_bytes(content)
    assert unpacking.is_archive(path, name) is archive
