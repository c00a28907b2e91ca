"""Submitting, listing and changing jobs."""

from typing import Annotated, Any

from django.conf import settings
from django.http import HttpResponse, JsonResponse
from ninja import Header, Query, Router
from ninja.responses import Status
from pydantic import TypeAdapter

from jobs import throttling
from jobs.api.auth import ApiRequest
from jobs.api.errors import Throttled
from jobs.api.schemas import Cursor, JobChange, JobIn, Limit, PageOf, RequeueIn, Text
from jobs.commands import cancellation, edits, idempotency, requeueing, submission
from jobs.errors import Forbidden, Invalid
from jobs.models import Priority
from jobs.selectors import access, jobs
from jobs.selectors.filters import Filter
from jobs.selectors.jobs import JobView, Submitted
from jobs.selectors.pages import Page
from jobs.states import JobState

router = Router(tags=["jobs"])

_SUBMITTED = TypeAdapter(Submitted)


@router.post("/jobs", response={201: Submitted}, summary="Submit a job")
def submit(
    request: ApiRequest,
    body: JobIn,
    idempotency_key: Annotated[str | None, Header(alias=idempotency.FIELD)] = None,
) -> Status[Any]:
    """Repeated with the same `Idempotency-Key` within a day, it makes one job and gives one answer."""
    if not access.may_submit(request.auth):
        raise Forbidden("Your role does not let you submit jobs.")
    if wait := throttling.check("submit", str(request.auth.pk), settings.SUBMISSIONS_PER_MINUTE):
        raise Throttled(wait)

    def accept() -> dict[str, Any]:
        stored = submission.submit(request.auth, body.submission())
        answer: dict[str, Any] = _SUBMITTED.dump_python(jobs.submitted(stored), mode="json")
        return answer

    if idempotency_key is None:
        return Status(201, accept())
    return Status(201, idempotency.once(request.auth, idempotency_key, request.body, accept))


@router.get("/jobs", response=PageOf[JobView], summary="List jobs")
def list_jobs(
    request: ApiRequest,
    state: Annotated[list[JobState], Query(description="Any of these.")] = [],  # noqa: B006  ninja's way
    label: Annotated[list[Text], Query(description="All of these: `key=value`, or a key alone.")] = [],  # noqa: B006
    owner: Text | None = None,
    q: Text = "",
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Page[JobView]:
    """Newest first. With `q` or `label`, a page may be short (even empty) although there is a next one."""
    return jobs.page(request.auth, Filter(states=state, owner=owner, q=q, labels=label), limit, cursor)


@router.get("/jobs/{int:job_id}", response=JobView, summary="Look at a job")
def get_job(request: ApiRequest, job_id: int) -> JobView:
    return jobs.get(request.auth, job_id)


@router.patch("/jobs/{int:job_id}", response=JobView, summary="Change a job")
def change_job(request: ApiRequest, job_id: int, body: JobChange) -> JobView:
    """What is left out stays as it is."""
    jobs.find_to_change(request.auth, job_id)
    changes = body.model_dump(include=body.model_fields_set)
    if "priority" in changes:
        changes["priority"] = Priority[changes["priority"].upper()]
    edits.edit(job_id, request.auth, **changes)
    return jobs.get(request.auth, job_id)


@router.delete("/jobs/{int:job_id}", response={202: JobView}, summary="Cancel a job, as POST …/cancel does")
def delete_job(request: ApiRequest, job_id: int, purge: bool = False) -> Status[JobView]:
    """`purge=true`, which is to remove an ended job with its storage, is not supported yet."""
    if purge:
        raise Invalid({"purge": "Removing jobs is not supported yet; without purge, DELETE cancels."})
    return cancel_job(request, job_id)


@router.post("/jobs/{int:job_id}/cancel", response={202: JobView}, summary="Cancel a job")
def cancel_job(request: ApiRequest, job_id: int) -> Status[JobView]:
    """A waiting job is cancelled at once; a running one is asked to save and stop."""
    jobs.find_to_change(request.auth, job_id)
    cancellation.cancel(job_id, request.auth)
    return Status(202, jobs.get(request.auth, job_id))


@router.post("/jobs/{int:job_id}/requeue", response={202: JobView}, summary="Run an ended job again")
def requeue_job(request: ApiRequest, job_id: int, body: RequeueIn = RequeueIn()) -> Status[JobView]:  # noqa: B008
    """It gets a fresh budget of attempts and begins from its latest checkpoint, a named one, or none."""
    jobs.find_to_change(request.auth, job_id)
    requeueing.requeue(job_id, request.auth, body.from_checkpoint)
    return Status(202, jobs.get(request.auth, job_id))


_SCRIPT_ANSWER = {
    "responses": {
        200: {
            "description": "The script, or all of what was submitted as JSON where `Accept` prefers that",
            "content": {
                "text/plain": {"schema": {"type": "string"}},
                "application/json": {"schema": {"type": "object"}},
            },
        }
    }
}


@router.get("/jobs/{int:job_id}/script", summary="Read the script", openapi_extra=_SCRIPT_ANSWER)
def get_script(request: ApiRequest, job_id: int) -> HttpResponse:
    source = jobs.source(jobs.find(request.auth, job_id))
    if request.get_preferred_type(["text/plain", "application/json"]) == "application/json":
        submitted = {"training_script": source.script, "args": source.args, "requirements": source.requirements}
        return JsonResponse(submitted)
    return HttpResponse(source.script, content_type="text/plain; charset=utf-8")


@router.get("/jobs/{int:job_id}/env", response=PageOf[str], summary="List the names of environment variables")
def list_env_names(request: ApiRequest, job_id: int) -> Page[str]:
    """The values are handed to the script and never shown again."""
    return Page(items=sorted(jobs.source(jobs.find(request.auth, job_id)).env))
