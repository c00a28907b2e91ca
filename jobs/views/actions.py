"""What a person does to a job: each is one command and a way back to the job's page."""

from collections.abc import Callable

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from jobs.commands import cancellation, requeueing
from jobs.errors import Invalid, Refused
from jobs.selectors import jobs
from jobs.states import JobState
from jobs.views.guard import PageRequest, with_role

_CANCEL_TOLD = {
    JobState.CANCELLED: "Cancelled.",
    JobState.RUNNING: "Asked to stop: the script may save its work first.",
}


@require_POST
@with_role
def cancel(request: PageRequest, job_id: int) -> HttpResponse:
    jobs.find_to_change(request.user, job_id)
    return _answer(request, job_id, lambda: _CANCEL_TOLD[cancellation.cancel(job_id, request.user)])


@require_POST
@with_role
def requeue(request: PageRequest, job_id: int) -> HttpResponse:
    jobs.find_to_change(request.user, job_id)
    whence = request.POST.get("from_checkpoint", requeueing.LATEST)

    def send_round_again() -> str:
        requeueing.requeue(job_id, request.user, whence)
        return "Queued again, with a fresh attempt budget."

    return _answer(request, job_id, send_round_again)


def _answer(request: PageRequest, job_id: int, act: Callable[[], str]) -> HttpResponse:
    try:
        messages.success(request, act())
    except (Refused, Invalid) as refusal:
        messages.error(request, str(refusal))
    return redirect("job", job_id)
