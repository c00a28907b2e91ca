"""What a job saved."""

from dataclasses import replace
from typing import Annotated, Any

from django.http import HttpRequest, StreamingHttpResponse
from django.http.response import HttpResponseBase
from ninja import Router
from pydantic import BaseModel, Field

from jobs.api import files
from jobs.api.auth import ApiRequest
from jobs.api.schemas import Cursor, Limit, PageOf
from jobs.commands import pins
from jobs.errors import NotFound
from jobs.models import Checkpoint
from jobs.selectors import checkpoints, jobs
from jobs.selectors.checkpoints import CheckpointView
from jobs.selectors.pages import BIGGEST, Page
from jobs.storage import artifacts, manifests

router = Router(tags=["checkpoints"])


class FileOut(BaseModel):
    """A file of a checkpoint; `size` in bytes, `mode` its permission bits."""

    path: str
    size: int
    sha256: str
    mode: int


@router.get("/jobs/{int:job_id}/checkpoints", response=PageOf[CheckpointView], summary="List a job's checkpoints")
def list_checkpoints(
    request: ApiRequest, job_id: int, limit: Limit = 50, cursor: Cursor = None
) -> Page[CheckpointView]:
    """The first one first."""
    return checkpoints.page(jobs.find(request.auth, job_id), limit, cursor)


@router.post("/jobs/{int:job_id}/checkpoints/{int:n}/pin", response=CheckpointView, summary="Keep a checkpoint")
def pin_checkpoint(request: ApiRequest, job_id: int, n: int) -> CheckpointView:
    """It is kept until it is unpinned, however many come after it."""
    checkpoint = checkpoints.get(jobs.find_to_change(request.auth, job_id), n)
    pins.pin(checkpoint)
    return replace(checkpoints.view(checkpoint), pinned=True)


@router.post("/jobs/{int:job_id}/checkpoints/{int:n}/unpin", response=CheckpointView, summary="Leave it to retention")
def unpin_checkpoint(request: ApiRequest, job_id: int, n: int) -> CheckpointView:
    """If it is neither one of the last two nor the final one, it goes soon."""
    checkpoint = checkpoints.get(jobs.find_to_change(request.auth, job_id), n)
    pins.unpin(checkpoint)
    return replace(checkpoints.view(checkpoint), pinned=False)


@router.get("/jobs/{int:job_id}/checkpoints/{int:n}/files", response=PageOf[FileOut], summary="List its files")
def list_files(request: ApiRequest, job_id: int, n: int) -> Page[dict[str, object]]:
    """All of them at once."""
    return Page(items=manifests.files(checkpoints.get(jobs.find(request.auth, job_id), n)))


_FILE: dict[str, Any] = {
    "responses": {
        200: {
            "description": "The file; `ETag` is its sha256",
            "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
        },
        206: {
            "description": "The `Range` that was asked for",
            "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
        },
        302: {"description": "A signed address of short life where storage serves it"},
        304: {"description": "The client has it, by `If-None-Match`"},
        416: {"description": "The range lies beyond the file's end"},
    }
}


@router.get("/jobs/{int:job_id}/checkpoints/{int:n}/files/{path:path}", summary="Download a file", openapi_extra=_FILE)
def download_file(request: ApiRequest, job_id: int, n: int, path: str) -> HttpResponseBase:
    """Whole or in part, from here or, by a redirect, straight from storage."""
    checkpoint = checkpoints.get(jobs.find(request.auth, job_id), n)
    try:
        return files.answer(request, artifacts.open_file(checkpoint, path))
    except FileNotFoundError as error:
        raise NotFound(str(error)) from error


_ARCHIVE = {
    "responses": {
        200: {
            "description": "A tar.gz; its members are paths relative to `output/`",
            "content": {"application/gzip": {"schema": {"type": "string", "format": "binary"}}},
        }
    }
}


@router.get("/jobs/{int:job_id}/artifact", summary="Download a checkpoint", openapi_extra=_ARCHIVE)
def download_artifact(
    request: ApiRequest, job_id: int, checkpoint: Annotated[int | None, Field(ge=0, le=BIGGEST)] = None
) -> StreamingHttpResponse:
    """The latest, or the one of that number; 404 with code `no_checkpoint` before there is one."""
    return _streamed(request, checkpoints.get(jobs.find(request.auth, job_id), checkpoint))


def _streamed(request: HttpRequest, checkpoint: Checkpoint) -> StreamingHttpResponse:
    name = f"job-{checkpoint.job_id}-checkpoint-{checkpoint.n}.tar.gz"
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return files.streamed(request, artifacts.archive(checkpoint), "application/gzip", headers)
