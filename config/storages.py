"""`RERAIL_STORAGE_URL` as an entry of Django's STORAGES."""

from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from config.environment import BadEnvironment


def backend(url: str | None, default_folder: Path) -> dict[str, Any]:
    """The storage that `url` names (`file:///…` or `s3://bucket/prefix?endpoint=…`), or the folder."""
    if url is None:
        return _folder(default_folder)
    parts = urlsplit(url)
    if parts.scheme == "file":
        if parts.netloc or not parts.path.startswith("/"):
            raise BadEnvironment("RERAIL_STORAGE_URL must name an absolute folder, such as file:///srv/rerail.")
        return _folder(Path(unquote(parts.path)))
    return _bucket(parts.netloc, unquote(parts.path).strip("/"), parse_qs(parts.query))


def _folder(folder: Path) -> dict[str, Any]:
    return {"BACKEND": "jobs.storage.local.LocalStorage", "OPTIONS": {"location": str(folder)}}


def _bucket(authority: str, prefix: str, query: dict[str, list[str]]) -> dict[str, Any]:
    bucket = authority.rpartition("@")[2]
    if not bucket:
        raise BadEnvironment("RERAIL_STORAGE_URL must name a bucket, such as s3://bucket/prefix.")
    options: dict[str, Any] = {
        "bucket_name": bucket,
        "location": prefix,
        "file_overwrite": True,
        "default_acl": None,
        "querystring_auth": True,
    }
    if "endpoint" in query:
        options["endpoint_url"] = query["endpoint"][0]
    if "region" in query:
        options["region_name"] = query["region"][0]
    if "@" in authority:
        user, _, secret = authority.rpartition("@")[0].partition(":")
        options["access_key"], options["secret_key"] = unquote(user), unquote(secret)
    return {"BACKEND": "storages.backends.s3.S3Storage", "OPTIONS": options}
