"""Datasets: of one job, and shared."""

from typing import Any

from ninja import Router
from ninja.responses import Status

from jobs.api.auth import ApiRequest, require_role
from jobs.api.incoming import Upload
from jobs.api.schemas import Cursor, Limit, PageOf
from jobs.commands import datasets as commands
from jobs.errors import Forbidden
from jobs.selectors import access, datasets, jobs
from jobs.selectors.datasets import DatasetView
from jobs.selectors.pages import Page

router = Router(tags=["datasets"])

_FILE = {"type": "string", "format": "binary"}


def _takes(required: list[str], raw: bool, **fields: Any) -> dict[str, Any]:
    form = {"schema": {"type": "object", "properties": {"file": _FILE, **fields}, "required": ["file", *required]}}
    content: dict[str, Any] = {"multipart/form-data": form}
    if raw:
        content["application/octet-stream"] = {"schema": _FILE}
    filename = {"name": "filename", "in": "query", "schema": {"type": "string"}, "description": "Of a raw body."}
    return {"requestBody": {"required": True, "content": content}, "parameters": [filename] if raw else []}


@router.post(
    "/jobs/{int:job_id}/upload",
    response={201: DatasetView},
    summary="Send the dataset that a job waits for",
    openapi_extra=_takes([], raw=True),
)
def upload_dataset(request: ApiRequest, job_id: int) -> Status[DatasetView]:
    """Multipart with the field `file`, or the file as the body: an archive (tar, tar.gz, zip) or one plain file.

    409 unless the job is AWAITING_DATASET. The time limit counts from the last byte received.
    """
    jobs.find_to_change(request.auth, job_id)
    return Status(201, datasets.view(commands.upload(job_id, request.auth, Upload(request))))


@router.get("/datasets", response=PageOf[DatasetView], summary="List shared datasets")
def list_datasets(request: ApiRequest, limit: Limit = 50, cursor: Cursor = None) -> Page[DatasetView]:
    """By name. Everybody with a role sees them, and everybody who may submit uses them."""
    require_role(request.auth)
    return datasets.page(limit, cursor)


@router.post(
    "/datasets",
    response={201: DatasetView},
    summary="Share a dataset under a name",
    openapi_extra=_takes(["name"], raw=False, name={"type": "string"}),
)
def share_dataset(request: ApiRequest) -> Status[DatasetView]:
    """Multipart with `name` and `file`. Names are given once: 409 for one that is taken."""
    if not access.may_submit(request.auth):
        raise Forbidden("Your role does not let you share datasets.")
    return Status(201, datasets.view(commands.share(request.auth, Upload(request))))


@router.get("/datasets/{name}", response=DatasetView, summary="Look at a shared dataset")
def get_dataset(request: ApiRequest, name: str) -> DatasetView:
    require_role(request.auth)
    return datasets.get(name)
