"""An S3 bucket as storage, by django-storages; memory stays flat, and errors name neither addresses nor credentials."""

import hashlib
import io
import os
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, nullcontext, suppress
from itertools import islice
from typing import Any

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from django.core.files import File
from django.utils.deconstruct import deconstructible
from django.utils.http import content_disposition_header
from storages.backends.s3 import S3Storage

from jobs.storage.objects import CHUNK, MissingObject, Source, SourceChanged, StorageFailed, Stored

PART = 5 * 1024 * 1024
"""The least that S3 takes as a part."""
LARGE = 1024 * 1024
LARGE_AT_ONCE = 2
"""Small files wait for the network together; few large ones would fill the memory."""
MAX_PARTS = 10_000
"""Of one multipart upload, by S3's own rule."""
READ_ATTEMPTS = 4
LINK_SECONDS = 60
"""How long a signed address is good for; a download that has begun goes on."""
DELETE_AT_ONCE = 1000

_CLIENT = {
    "connect_timeout": 5,
    "read_timeout": 60,
    "retries": {"mode": "standard", "max_attempts": 4},
    "max_pool_connections": 16,
}
_MISSING = {"404", "NoSuchKey", "NotFound"}


@deconstructible
class BucketStorage(S3Storage):  # type: ignore[misc]  # django-storages is not typed
    """Exact keys under one prefix of a bucket."""

    threads = 8

    def __init__(self, **options: Any) -> None:
        style = "path" if options.get("endpoint_url") else "auto"
        config = Config(signature_version="s3v4", s3={"addressing_style": style}, **_CLIENT)
        super().__init__(**{"client_config": config, **options})
        self._large = threading.BoundedSemaphore(LARGE_AT_ONCE)
        self._making = threading.Lock()
        self._shared: tuple[int, Any] | None = None

    @property
    def connection(self) -> Any:
        """One for all threads, because a client is costly; a new one after a fork: sockets can't be shared."""
        with self._making:
            if self._shared is None or self._shared[0] != os.getpid():
                resource = self._create_session().resource(
                    "s3",
                    region_name=self.region_name,
                    use_ssl=self.use_ssl,
                    endpoint_url=self.endpoint_url,
                    config=self.client_config,
                    verify=self.verify,
                )
                self._shared = os.getpid(), resource
                self._bucket = None
            return self._shared[1]

    def _open(self, name: str, mode: str = "rb") -> "File[bytes]":
        if mode != "rb":
            raise ValueError("Objects in a bucket can only be read, by mode rb.")
        copy = tempfile.SpooledTemporaryFile(max_size=PART)  # noqa: SIM115  the caller closes it
        for chunk in self._found(name):
            copy.write(chunk)
        copy.seek(0)
        return File(copy, name)

    def _found(self, name: str) -> Iterator[bytes]:
        try:
            yield from self.read(name)
        except MissingObject as error:
            raise FileNotFoundError(name) from error

    def _save(self, name: str, content: "File[Any]") -> str:
        self.put(name, content.chunks())
        return name

    def get_available_name(self, name: str, max_length: int | None = None) -> str:
        return name

    def put(self, key: str, chunks: Iterable[bytes]) -> None:
        with _failures("store an object"):
            self._upload(key, chunks, 0)

    def put_by_hash(self, folder: str, source: Source, named: Mapping[str, str]) -> Stored:
        # Read twice: an object's name must be known before its first byte is sent.
        digest, size = hashlib.sha256(), 0
        for chunk in source.chunks():
            digest.update(chunk)
            size += len(chunk)
        sha256 = digest.hexdigest()
        key = named.get(sha256) or f"{folder}/{sha256}"
        with _failures("store an object"):
            new = self._size(key) != size
            if new:
                key = f"{folder}/{sha256}"
                with self._large if size > LARGE else nullcontext():
                    self._upload(key, _unchanged(source, sha256), size)
        return Stored(key=key, sha256=sha256, size=size, new=new)

    def settle(self, folder: str) -> None:
        """An upload that was answered is durable already."""

    def read(self, key: str, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        at, attempts = start, READ_ATTEMPTS
        while end is None or at < end:
            attempts -= 1
            try:
                for chunk in self._body(key, at, end):
                    at += len(chunk)
                    attempts = READ_ATTEMPTS
                    yield chunk
                return
            except BotoCoreError as error:
                # A connection that broke on the way: go on from where it did.
                if attempts == 0:
                    raise _failed("read an object", error) from error

    def link(self, key: str, name: str) -> str | None:
        wanted = {
            "Bucket": self.bucket_name,
            "Key": self._normalize_name(key),
            "ResponseContentType": "application/octet-stream",
            "ResponseContentDisposition": content_disposition_header(True, name),
        }
        with _failures("sign an address"):
            return str(self._client.generate_presigned_url("get_object", Params=wanted, ExpiresIn=LINK_SECONDS))

    def delete_all(self, keys: Iterable[str]) -> None:
        names = iter(keys)
        while batch := [{"Key": self._normalize_name(name)} for name in islice(names, DELETE_AT_ONCE)]:
            with _failures("delete an object"):
                answer = self._client.delete_objects(Bucket=self.bucket_name, Delete={"Objects": batch, "Quiet": True})
            for refused in answer.get("Errors", ()):
                raise StorageFailed(f"Storage could not delete an object: the server answered {refused.get('Code')}.")

    def keys(self, folder: str) -> Iterator[tuple[str, int]]:
        with _failures("list its objects"):
            pages = self._client.get_paginator("list_objects_v2").paginate(
                Bucket=self.bucket_name, Prefix=self._below(folder)
            )
            for page in pages:
                for found in page.get("Contents", ()):
                    yield found["Key"].removeprefix(self._prefix), found["Size"]

    def count_leftovers(self, folder: str) -> int:
        with _failures("look for what a torn upload left"):
            return len(self._unfinished(folder))

    def remove_leftovers(self, folder: str) -> int:
        with _failures("remove what a torn upload left"):
            found = self._unfinished(folder)
            for upload in found:
                self._abort(upload)
            return len(found)

    def _unfinished(self, folder: str) -> list[Mapping[str, Any]]:
        pages = self._client.get_paginator("list_multipart_uploads").paginate(
            Bucket=self.bucket_name, Prefix=self._below(folder)
        )
        return [upload for page in pages for upload in page.get("Uploads", ())]

    @property
    def _client(self) -> Any:
        return self.connection.meta.client

    @property
    def _prefix(self) -> str:
        return f"{self.location}/" if self.location else ""

    def _below(self, folder: str) -> str:
        return f"{self._normalize_name(folder)}/"

    def _size(self, key: str) -> int | None:
        try:
            answer = self._client.head_object(Bucket=self.bucket_name, Key=self._normalize_name(key))
        except ClientError as error:
            if _code(error) in _MISSING:
                return None
            raise
        return int(answer["ContentLength"])

    def _upload(self, key: str, chunks: Iterable[bytes], size: int) -> None:
        target = {"Bucket": self.bucket_name, "Key": self._normalize_name(key)}
        parts = _Parts(chunks, max(PART, -(-size // MAX_PARTS)))
        if not parts.fill():
            self._client.put_object(**target, Body=parts.body, ContentType=self.default_content_type)
            return
        upload = self._client.create_multipart_upload(**target, ContentType=self.default_content_type)
        target["UploadId"] = upload["UploadId"]
        try:
            sent = self._send_parts(target, parts)
            self._client.complete_multipart_upload(**target, MultipartUpload={"Parts": sent})
        except BaseException:
            with suppress(BotoCoreError, ClientError):  # what stays is a leftover
                self._abort(target)
            raise

    def _send_parts(self, target: Mapping[str, Any], parts: "_Parts") -> list[dict[str, Any]]:
        """Send one part after the other, so that each file holds one in memory."""
        sent: list[dict[str, Any]] = []
        full = True
        while full or parts.body.getbuffer().nbytes:
            number = len(sent) + 1
            answer = self._client.upload_part(**target, PartNumber=number, Body=parts.body)
            sent.append({"PartNumber": number, "ETag": answer["ETag"]})
            full = parts.fill()
        return sent

    def _body(self, key: str, start: int, end: int | None) -> Iterator[bytes]:
        span = {"Range": f"bytes={start}-{'' if end is None else end - 1}"} if start or end is not None else {}
        try:
            answer = self._client.get_object(Bucket=self.bucket_name, Key=self._normalize_name(key), **span)
        except ClientError as error:
            if _code(error) in _MISSING:
                raise MissingObject(key) from error
            if _code(error) == "InvalidRange":  # it ends before `start`
                return
            raise _failed("read an object", error) from error
        with closing(answer["Body"]) as body:
            yield from body.iter_chunks(CHUNK)

    def _abort(self, upload: Mapping[str, Any]) -> None:
        try:
            self._client.abort_multipart_upload(Bucket=self.bucket_name, Key=upload["Key"], UploadId=upload["UploadId"])
        except ClientError as error:
            if _code(error) not in {*_MISSING, "NoSuchUpload"}:
                raise


class _Parts:
    """Chunks in parts of one size, one after the other in the same buffer."""

    def __init__(self, chunks: Iterable[bytes], size: int) -> None:
        self._chunks = filter(None, chunks)
        self._size = size
        self._rest = b""
        self.body = io.BytesIO()

    def fill(self) -> bool:
        """Put the next part into `body`, where it may be empty; returns whether it is a full one."""
        self.body.seek(0)
        room = self._size
        while room and (chunk := self._rest or next(self._chunks, b"")):
            self._rest = chunk[room:]
            room -= self.body.write(chunk[:room])
        self.body.truncate()
        self.body.seek(0)
        return room == 0


def _unchanged(source: Source, sha256: str) -> Iterator[bytes]:
    """The source's chunks again; breaks off at their end, and the upload with it, where they are not the same."""
    digest = hashlib.sha256()
    for chunk in source.chunks():
        digest.update(chunk)
        yield chunk
    if digest.hexdigest() != sha256:
        raise SourceChanged


def _code(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


def _failed(doing: str, error: Exception) -> StorageFailed:
    if isinstance(error, ClientError):
        return StorageFailed(f"Storage could not {doing}: the server answered {_code(error)}.")
    return StorageFailed(f"Storage could not {doing}: {type(error).__name__}.")


@contextmanager
def _failures(doing: str) -> Iterator[None]:
    try:
        yield
    except (BotoCoreError, ClientError) as error:
        raise _failed(doing, error) from error
