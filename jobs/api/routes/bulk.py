"""Cancelling and requeueing many jobs with one call."""

from collections.abc import Collection, Sequence

from ninja import Router
from pydantic import BaseModel, ConfigDict

from jobs.api.auth import ApiRequest
from jobs.api.schemas import BulkIn, BulkRequeueIn
from jobs.commands import bulk
from jobs.commands.bulk import Refusal
from jobs.errors import Invalid
from jobs.selectors import jobs
from jobs.states import FINAL, JobState

router = Router(tags=["jobs"])

_UNENDED = frozenset(JobState) - FINAL


class BulkOut(BaseModel):
    """To how many jobs it was done, and which were left as they are; `more` jobs fit the filter than were tried."""

    model_config = ConfigDict(from_attributes=True)

    count: int
    refused: list[Refusal]
    more: bool = False


@router.post("/jobs/cancel", response=BulkOut, summary="Cancel many jobs")
def cancel_jobs(request: ApiRequest, body: BulkIn) -> BulkOut:
    """By `ids`, or by a `filter` of what has not ended; at most 500 at a time."""
    ids, more = _chosen(request, body, _UNENDED)
    done = bulk.cancel(ids, request.auth)
    return BulkOut(count=done.count, refused=list(done.refused), more=more)


@router.post("/jobs/requeue", response=BulkOut, summary="Run many ended jobs again")
def requeue_jobs(request: ApiRequest, body: BulkRequeueIn) -> BulkOut:
    """By `ids`, or by a `filter` of what has ended; at most 500 at a time."""
    ids, more = _chosen(request, body, FINAL)
    done = bulk.requeue(ids, request.auth, body.from_checkpoint)
    return BulkOut(count=done.count, refused=list(done.refused), more=more)


def _chosen(request: ApiRequest, body: BulkIn, states: Collection[JobState]) -> tuple[Sequence[int], bool]:
    """The ids to try, and whether more jobs fit than one call takes."""
    if (body.ids is None) == (body.filter is None):
        raise Invalid({"ids": "Give ids or a filter, one of them."})
    if body.ids is not None:
        return body.ids, False
    assert body.filter is not None, "one of the two was given"
    wanted = body.filter.filter()
    if wanted.is_empty:
        raise Invalid({"filter": "An empty filter would mean every job; say which."})
    found = jobs.ids_to_change(request.auth, wanted, states, bulk.MOST)
    return found.items, found.next is not None
