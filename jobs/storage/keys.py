"""Where things lie in storage. A key names its attempt, so what a refused attempt stored can be told apart."""

import re

_OWN = re.compile(r"jobs/(?P<job>[1-9][0-9]*)/(?:blobs|manifests)/(?P<attempt>[1-9][0-9]*)/[^/]+")
_BLOB = re.compile(r"jobs/[1-9][0-9]*/blobs/[1-9][0-9]*/(?P<sha256>[0-9a-f]{64})")


JOBS = "jobs"


def job_folder(job_id: int) -> str:
    """Everything of a job lies under it."""
    return f"{JOBS}/{job_id}"


def blob_folder(job_id: int, attempt: int) -> str:
    return f"{job_folder(job_id)}/blobs/{attempt}"


def manifest_folder(job_id: int, attempt: int) -> str:
    return f"{job_folder(job_id)}/manifests/{attempt}"


def dataset_folder(upload: str) -> str:
    """What one upload stores lies under it, alone."""
    return f"datasets/{upload}"


def dataset_content(folder: str) -> str:
    return f"{folder}/content"


def attempt_of(key: str) -> int | None:
    """The attempt that stored `key`; None where no attempt did."""
    found = _OWN.fullmatch(key)
    return int(found["attempt"]) if found else None


def is_of_job(key: str, job_id: int) -> bool:
    return key.startswith(f"{job_folder(job_id)}/")


def holds(key: str, sha256: str) -> bool:
    """Whether `key` is where a blob of this hash may lie."""
    found = _BLOB.fullmatch(key)
    return found is not None and found["sha256"] == sha256
