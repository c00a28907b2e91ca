"""`RERAIL_STORAGE_URL` as an entry of Django's STORAGES. No sentence here repeats the value: it may hold a secret."""

from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

from config.environment import BadEnvironment

_OPTIONS = {"endpoint": "endpoint_url", "region": "region_name"}


def backend(url: str | None, default_folder: Path) -> dict[str, Any]:
    """The storage that `url` names, or the folder.

    `file:///folder`, or `s3://bucket/prefix?endpoint=…&region=…`, where `key:secret@` before the bucket stands for
    credentials; without, they are found as AWS's own tools find them.
    """
    if url is None:
        return _folder(default_folder)
    parts = urlsplit(url)
    if parts.scheme == "file":
        if parts.netloc or not parts.path.startswith("/"):
            raise BadEnvironment("RERAIL_STORAGE_URL must name an absolute folder, such as file:///srv/rerail.")
        return _folder(Path(unquote(parts.path)))
    return _bucket(parts)


def _folder(folder: Path) -> dict[str, Any]:
    return {"BACKEND": "jobs.storage.local.LocalStorage", "OPTIONS": {"location": str(folder)}}


def _bucket(parts: SplitResult) -> dict[str, Any]:
    credentials, _, bucket = parts.netloc.rpartition("@")
    if not bucket:
        raise BadEnvironment("RERAIL_STORAGE_URL must name a bucket, such as s3://bucket/prefix.")
    options: dict[str, Any] = {
        "bucket_name": bucket,
        "location": unquote(parts.path).strip("/"),
        "file_overwrite": True,
        "default_acl": None,
        "querystring_auth": True,
        **_query(parts.query),
    }
    if credentials:
        key, _, secret = credentials.partition(":")
        if not (key and secret):
            raise BadEnvironment("RERAIL_STORAGE_URL must hold both a key and a secret before its @, or neither.")
        options["access_key"], options["secret_key"] = unquote(key), unquote(secret)
    return {"BACKEND": "jobs.storage.bucket.BucketStorage", "OPTIONS": options}


def _query(query: str) -> dict[str, str]:
    given = parse_qs(query)
    if unknown := set(given) - set(_OPTIONS):
        raise BadEnvironment(f"RERAIL_STORAGE_URL may only ask for endpoint and region, not for {min(unknown)!r}.")
    options = {_OPTIONS[name]: values[-1] for name, values in given.items()}
    endpoint = urlsplit(options.get("endpoint_url", "https://default"))
    if endpoint.scheme not in {"http", "https"} or not endpoint.hostname or "@" in endpoint.netloc:
        raise BadEnvironment("The endpoint in RERAIL_STORAGE_URL must look like https://s3.example.org.")
    return options
