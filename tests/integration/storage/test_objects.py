"""What both storages promise of single objects."""

import hashlib
import io
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage

from jobs.storage.objects import MissingObject, ObjectStorage, SourceChanged, StorageFailed
from tests.integration.storage.conftest import use_bucket
from tests.integration.storage.seaweed import Seaweed

KEY = "jobs/7/blobs/2/" + "a" * 64


@dataclass
class Bytes:
    """A source of given bytes."""

    content: bytes

    @property
    def size(self) -> int:
        return len(self.content)

    def chunks(self) -> Iterator[bytes]:
        file = io.BytesIO(self.content)
        while chunk := file.read(100_000):
            yield chunk


class Breaking(Bytes):
    """A source that changes when it was read to its end."""

    def chunks(self) -> Iterator[bytes]:
        yield from super().chunks()
        raise SourceChanged


def read(storage: ObjectStorage, key: str, start: int = 0, end: int | None = None) -> bytes:
    return b"".join(storage.read(key, start, end))


@pytest.mark.parametrize("size", [0, 1, 300_000, 12_345_678])
def test_what_was_put_is_read_back(storage: ObjectStorage, size: int) -> None:
    content = os.urandom(size)
    storage.put(KEY, [content])
    assert read(storage, KEY) == content


def test_a_key_is_kept_exactly_and_its_content_replaced(storage: ObjectStorage) -> None:
    storage.put("jobs/7/odd name+%20(1).txt", [b"before"])
    storage.put("jobs/7/odd name+%20(1).txt", [b"after"])
    assert list(storage.keys("jobs/7")) == [("jobs/7/odd name+%20(1).txt", 5)]
    assert read(storage, "jobs/7/odd name+%20(1).txt") == b"after"


def test_djangos_own_calls_keep_keys_exactly(storage: ObjectStorage) -> None:
    names = [default_storage.save("datasets/digits.csv", ContentFile(content)) for content in (b"1", b"22")]
    assert names == ["datasets/digits.csv"] * 2
    with default_storage.open("datasets/digits.csv") as file:
        assert file.read() == b"22"
    assert default_storage.size("datasets/digits.csv") == 2
    assert default_storage.exists("datasets/digits.csv")
    with pytest.raises(FileNotFoundError):
        default_storage.open("datasets/none.csv")


def test_content_is_stored_under_its_hash_once(storage: ObjectStorage) -> None:
    content = os.urandom(700_000)
    first = storage.put_by_hash("jobs/7/blobs/1", Bytes(content), {})
    again = storage.put_by_hash("jobs/7/blobs/1", Bytes(content), {})
    assert first.new
    assert not again.new
    assert first.key == again.key == f"jobs/7/blobs/1/{hashlib.sha256(content).hexdigest()}"
    assert first.size == len(content)
    assert read(storage, first.key) == content


def test_content_that_is_named_already_is_not_stored_again(storage: ObjectStorage) -> None:
    before = storage.put_by_hash("jobs/7/blobs/1", Bytes(b"weights"), {})
    now = storage.put_by_hash("jobs/7/blobs/2", Bytes(b"weights"), {before.sha256: before.key})
    assert (now.key, now.new) == (before.key, False)
    assert [key for key, _ in storage.keys("jobs/7")] == [before.key]


def test_content_whose_named_key_is_gone_is_stored_anew(storage: ObjectStorage) -> None:
    before = storage.put_by_hash("jobs/7/blobs/1", Bytes(b"weights"), {})
    storage.delete_all([before.key])
    now = storage.put_by_hash("jobs/7/blobs/2", Bytes(b"weights"), {before.sha256: before.key})
    assert now.new
    assert read(storage, now.key) == b"weights"


@pytest.mark.parametrize("size", [10, 12_345_678])
def test_a_source_that_breaks_off_leaves_nothing(storage: ObjectStorage, size: int) -> None:
    with pytest.raises(SourceChanged):
        storage.put_by_hash("jobs/7/blobs/1", Breaking(os.urandom(size)), {})
    assert list(storage.keys("jobs/7")) == []
    assert storage.remove_leftovers("jobs/7") == 0


class Fickle(Bytes):
    """A source that gives other bytes when it is read again."""

    def chunks(self) -> Iterator[bytes]:
        yield from super().chunks()
        self.content = self.content[::-1]


@pytest.mark.parametrize("size", [10, 12_345_678])
def test_other_content_on_a_second_reading_never_gets_the_hash_of_the_first(bucket: Any, size: int) -> None:
    with pytest.raises(SourceChanged):
        bucket.put_by_hash("jobs/7/blobs/1", Fickle(os.urandom(size)), {})
    assert list(bucket.keys("jobs/7")) == []
    assert bucket.remove_leftovers("jobs/7") == 0


def test_a_part_of_an_object_is_read(storage: ObjectStorage) -> None:
    content = os.urandom(1_000_000)
    storage.put(KEY, [content])
    assert read(storage, KEY, 999_000) == content[999_000:]
    assert read(storage, KEY, 10, 600_010) == content[10:600_010]
    assert read(storage, KEY, 0, 1) == content[:1]
    assert read(storage, KEY, 5, 5) == b""
    assert read(storage, KEY, 1_000_000) == b""


def test_reading_what_is_not_there_says_so(storage: ObjectStorage) -> None:
    with pytest.raises(MissingObject):
        read(storage, KEY)


def test_deleting_what_is_gone_is_no_error(storage: ObjectStorage) -> None:
    storage.put(KEY, [b"x"])
    storage.delete_all([KEY, KEY + "b"])
    storage.delete_all([KEY])
    assert list(storage.keys("jobs")) == []


def test_a_job_folder_is_not_that_of_a_longer_number(storage: ObjectStorage) -> None:
    for job in (1, 10):
        storage.put(f"jobs/{job}/blobs/1/{'a' * 64}", [b"x"])
    assert [key for key, _ in storage.keys("jobs/1")] == [f"jobs/1/blobs/1/{'a' * 64}"]


def test_equal_content_stored_at_the_same_time_is_whole(storage: ObjectStorage) -> None:
    content = os.urandom(2_000_000)
    threads = [
        threading.Thread(target=storage.put_by_hash, args=("jobs/7/blobs/1", Bytes(content), {})) for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    [(key, _)] = storage.keys("jobs/7")
    assert read(storage, key) == content


def test_errors_of_a_bucket_hold_no_secret(settings: Any, s3: Seaweed) -> None:
    storage = use_bucket(settings, s3, secret_key="wrong-but-private")
    with pytest.raises(StorageFailed) as refused:
        storage.put(KEY, [b"x"])
    chain: BaseException | None = refused.value
    told = ""
    while chain is not None:
        told, chain = told + repr(chain) + str(chain), chain.__cause__
    assert "private" not in told + repr(storage)
    assert str(refused.value).startswith("Storage could not store an object")


def test_an_unreachable_bucket_fails_in_one_sentence(settings: Any, s3: Seaweed) -> None:
    storage = use_bucket(settings, s3, endpoint_url="http://127.0.0.1:9")
    with pytest.raises(StorageFailed, match="Storage could not read an object: EndpointConnectionError"):
        read(storage, KEY)


def test_a_torn_multipart_upload_is_removed(bucket: Any, s3: Seaweed) -> None:
    key = f"{bucket.location}/{KEY}"
    upload = s3.client().create_multipart_upload(Bucket=bucket.bucket_name, Key=key)["UploadId"]
    s3.client().upload_part(Bucket=bucket.bucket_name, Key=key, UploadId=upload, PartNumber=1, Body=b"x" * 5_300_000)
    assert list(bucket.keys("jobs")) == []
    assert bucket.remove_leftovers("jobs/8") == 0
    assert bucket.remove_leftovers("jobs/7") == 1
    assert bucket.remove_leftovers("jobs/7") == 0
    assert not s3.client().list_multipart_uploads(Bucket=bucket.bucket_name, Prefix=key).get("Uploads")


def test_a_presigned_link_needs_no_credentials(bucket: Any) -> None:
    import httpx

    bucket.put(KEY, [b"weights"])
    assert httpx.get(bucket.url(KEY, expire=60)).content == b"weights"
