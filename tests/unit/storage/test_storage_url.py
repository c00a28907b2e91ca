"""`RERAIL_STORAGE_URL`."""

from pathlib import Path

import pytest

from config.environment import BadEnvironment
from config.storages import backend

FOLDER = Path("/srv/default")


def test_a_folder_is_the_default_and_may_be_named() -> None:
    assert backend(None, FOLDER)["OPTIONS"] == {"location": "/srv/default"}
    assert backend("file:///srv/my%20files", FOLDER)["OPTIONS"] == {"location": "/srv/my files"}


def test_a_bucket_is_named_with_its_prefix_endpoint_and_credentials() -> None:
    made = backend("s3://key:se%2Fcret@bucket/a/b/?endpoint=http://127.0.0.1:9000&region=eu-1", FOLDER)
    assert made["BACKEND"] == "jobs.storage.bucket.BucketStorage"
    assert made["OPTIONS"] == {
        "bucket_name": "bucket",
        "location": "a/b",
        "file_overwrite": True,
        "default_acl": None,
        "querystring_auth": True,
        "endpoint_url": "http://127.0.0.1:9000",
        "region_name": "eu-1",
        "access_key": "key",
        "secret_key": "se/cret",
    }


@pytest.mark.parametrize(
    "url",
    [
        "file://relative/path",
        "s3:///prefix",
        "s3://key:hush@/prefix",
        "s3://:hush@bucket",
        "s3://key@bucket",
        "s3://key:hush@bucket?endpoint=minio:9000",
        "s3://key:hush@bucket?endpoint=https://me:hush@minio",
        "s3://key:hush@bucket?endpiont=https://minio",
    ],
)
def test_a_bad_address_is_refused_in_one_sentence_that_holds_no_secret(url: str) -> None:
    with pytest.raises(BadEnvironment) as refused:
        backend(url, FOLDER)
    assert "RERAIL_STORAGE_URL" in str(refused.value)
    assert "hush" not in str(refused.value)
