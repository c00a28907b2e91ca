"""What a job saved."""

from dataclasses import replace
from typing import Annotated

from django.core.handlers.asgi import ASGIRequest
from django.db import close_old_connections
from django.http import HttpRequest, StreamingHttpResponse
from ninja import Router
from pydantic import BaseModel, Field

from jobs.api.auth import ApiRequest
from jobs.api.schemas import Cursor, Limit, PageOf
from jobs.commands import pins
from jobs.models import Checkpoint
from jobs.selectors import checkpoints, jobs
from jobs.selectors.checkpoints import CheckpointView
from jobs.selectors.pages import BIGGEST, Page
from jobs.storage import artifacts, manifests, streams

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
    chunks = artifacts.archive(checkpoint)
    # All is read from the database by now, and a slow reader must not keep a connection from everybody else.
    close_old_connections()
    # Django collects a plain iterator in memory before it answers under ASGI.
    body = streams.in_thread(chunks) if isinstance(request, ASGIRequest) else chunks
    name = f"job-{checkpoint.job_id}-checkpoint-{checkpoint.n}.tar.gz"
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return StreamingHttpResponse(body, content_type="application/gzip", headers=headers)
