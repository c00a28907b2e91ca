"""The queue, and holding it."""

from ninja import Router
from pydantic import BaseModel

from jobs.api.auth import ApiRequest, require_operator, require_role
from jobs.api.schemas import Cursor, Limit, PageOf
from jobs.commands import queue as commands
from jobs.selectors import queue
from jobs.selectors.queue import QueuedJob

router = Router(tags=["queue"])


class QueueState(BaseModel):
    """Whether the queue is held."""

    paused: bool


class QueueOut(PageOf[QueuedJob]):
    """Queued jobs in dispatch order, and whether the queue is held."""

    paused: bool


@router.get("/queue", response=QueueOut, summary="Look at the queue")
def list_queue(request: ApiRequest, limit: Limit = 50, cursor: Cursor = None) -> QueueOut:
    """In the order in which free workers would take the jobs; `workers` tells why each does not take one now."""
    require_role(request.auth)
    page = queue.page(request.auth, limit, cursor)
    return QueueOut(items=list(page.items), next=page.next, paused=queue.is_paused())


@router.post("/queue/pause", response=QueueState, summary="Assign nothing for now")
def pause_queue(request: ApiRequest) -> QueueState:
    """What runs goes on. For operators."""
    require_operator(request.auth)
    commands.pause()
    return QueueState(paused=True)


@router.post("/queue/resume", response=QueueState, summary="Assign again")
def resume_queue(request: ApiRequest) -> QueueState:
    """For operators."""
    require_operator(request.auth)
    commands.resume()
    return QueueState(paused=False)
