"""Workers, and what operators do with them."""

from collections.abc import Callable

from ninja import Router

from jobs.api.auth import ApiRequest, require_operator, require_role
from jobs.api.schemas import Cursor, Limit, PageOf
from jobs.commands import workers as commands
from jobs.selectors import workers
from jobs.selectors.pages import Page
from jobs.selectors.workers import WorkerView

router = Router(tags=["workers"])


@router.get("/workers", response=PageOf[WorkerView], summary="List workers")
def list_workers(request: ApiRequest, limit: Limit = 100, cursor: Cursor = None) -> Page[WorkerView]:
    """By name."""
    require_role(request.auth)
    return workers.page(limit, cursor)


@router.post("/workers/{name}/drain", response=WorkerView, summary="Give a worker nothing new")
def drain_worker(request: ApiRequest, name: str) -> WorkerView:
    """What it runs goes on; the drain ends with its process. For operators."""
    return _change(request, name, lambda: commands.drain(name, request.auth))


@router.post("/workers/{name}/disable", response=WorkerView, summary="Set a worker aside")
def disable_worker(request: ApiRequest, name: str) -> WorkerView:
    """It gets nothing new, over restarts too, until it is resumed. For operators."""
    return _change(request, name, lambda: commands.disable(name, request.auth))


@router.post("/workers/{name}/resume", response=WorkerView, summary="Let a worker take jobs again")
def resume_worker(request: ApiRequest, name: str) -> WorkerView:
    """After a drain or a disable. For operators."""
    return _change(request, name, lambda: commands.resume(name))


@router.post("/workers/{name}/release-quarantine", response=WorkerView, summary="End a worker's quarantine")
def release_worker(request: ApiRequest, name: str) -> WorkerView:
    """For operators."""
    return _change(request, name, lambda: commands.release_quarantine(name))


def _change(request: ApiRequest, name: str, command: Callable[[], None]) -> WorkerView:
    require_operator(request.auth)
    workers.get(name)
    command()
    return workers.get(name)
