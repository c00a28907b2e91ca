"""What became of a job: its timeline, executions, logs and metrics."""

from typing import Annotated, Literal

from django.http import HttpResponse
from ninja import Query, Router
from pydantic import Field

from jobs.api.auth import ApiRequest
from jobs.api.schemas import Cursor, Limit, PageOf, Text
from jobs.selectors import events, executions, jobs, logs, metrics
from jobs.selectors.events import EventView
from jobs.selectors.executions import ExecutionView
from jobs.selectors.metrics import Series
from jobs.selectors.pages import BIGGEST, Page
from jobs.states import EventKind

router = Router(tags=["executions"])

Number = Annotated[int, Field(ge=0, le=BIGGEST)]


@router.get("/jobs/{int:job_id}/events", response=PageOf[EventView], summary="Read a job's timeline")
def list_events(
    request: ApiRequest,
    job_id: int,
    kind: Annotated[list[EventKind], Query(description="Any of these.")] = [],  # noqa: B006  ninja's way
    after: Annotated[Number, Field(description="Only events with a greater `seq`.")] = 0,
    execution: Annotated[str | None, Field(max_length=40, description="Of this attempt, such as `1042.3`.")] = None,
    group_by: Annotated[
        Literal["execution"] | None, Field(description="Only the latest event of each execution.")
    ] = None,
    limit: Limit = 200,
    cursor: Cursor = None,
) -> Page[EventView]:
    """In order. `next` is the last event's number: it may be given as `after` as well as `cursor`."""
    job = jobs.find(request.auth, job_id)
    number = events.execution_number(job, execution)
    if group_by:
        wanted = events.Filter(after=after, execution=number, kinds=kind)
        return events.latest_per_execution(job, wanted, limit, cursor)
    wanted = events.Filter(after=max(after, events.number_in(cursor)), execution=number, kinds=kind)
    return events.page(job, wanted, limit)


@router.get("/jobs/{int:job_id}/executions", response=PageOf[ExecutionView], summary="List a job's executions")
def list_executions(request: ApiRequest, job_id: int, limit: Limit = 50, cursor: Cursor = None) -> Page[ExecutionView]:
    """The first one first."""
    return executions.page(jobs.find(request.auth, job_id), limit, cursor)


@router.get("/executions/{execution_id}", response=ExecutionView, summary="Look at an execution")
def get_execution(request: ApiRequest, execution_id: str) -> ExecutionView:
    return executions.view(executions.get(request.auth, execution_id))


_LOG_ANSWER = {
    "responses": {
        200: {
            "description": "Bytes of what the script printed",
            "content": {"text/plain": {"schema": {"type": "string"}}},
            "headers": {
                "X-Next-Offset": {
                    "description": "What to give as `after` to read on",
                    "schema": {"type": "integer"},
                },
                "X-Log-Bytes": {"description": "How many bytes there are so far", "schema": {"type": "integer"}},
            },
        }
    }
}


@router.get("/executions/{execution_id}/logs", summary="Read what the script printed", openapi_extra=_LOG_ANSWER)
def read_logs(
    request: ApiRequest,
    execution_id: str,
    after: Number = 0,
    limit: Annotated[int, Field(ge=1, le=logs.MAX_BYTES, description="How many bytes at most.")] = logs.MAX_BYTES,
) -> HttpResponse:
    """From byte `after` on, at most 8 MiB at a time: read on from `X-Next-Offset` while it is below `X-Log-Bytes`."""
    piece = logs.read(executions.get(request.auth, execution_id), after, limit)
    headers = {"X-Next-Offset": str(piece.next_offset), "X-Log-Bytes": str(piece.stored)}
    return HttpResponse(piece.data, content_type="text/plain; charset=utf-8", headers=headers)


@router.get("/executions/{execution_id}/metrics", response=Series, summary="Read what the script measured")
def read_metrics(
    request: ApiRequest,
    execution_id: str,
    key: Annotated[list[Text], Query(description="Only these series.")] = [],  # noqa: B006  ninja's way
    points: Annotated[int, Field(ge=1, le=5000, description="A series has at most twice as many points.")] = 500,
) -> Series:
    """Of each stretch of a long series, the least and the greatest value. Without `key`, the first 50 series."""
    return metrics.read(executions.get(request.auth, execution_id), key, points)
