"""One job: where it is and why, its attempts, its log, its timeline; and what changed since."""

from typing import Any

from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_safe
from django_htmx.http import HttpResponseClientRefresh

from jobs.selectors import access, events, jobs, logs, watching
from jobs.selectors.events import Filter
from jobs.selectors.watching import Watched
from jobs.states import FINAL, ExecutionState
from jobs.views import log_text
from jobs.views.guard import PageRequest, with_role
from jobs.views.seen import Seen
from jobs.views.stretches import stretches
from jobs.views.telling import sentence

EVENTS_SHOWN = 120
EVENTS_FOLLOWED = 500
"""Once so many are on a page that follows along, it is loaded afresh."""
LOG_TAIL_BYTES = 32 * 1024
LOG_STEP_BYTES = 256 * 1024


@require_safe
@with_role
def job(request: PageRequest, job_id: int) -> HttpResponse:
    watched = watching.job(request.user, job_id)
    recent = watching.recent_events(watched.job, EVENTS_SHOWN)
    first = recent[0].seq if recent else 1
    context = _head(request, watched) | _record(watched) | _tail(watched)
    context |= {"stretches": stretches(recent), "first": first}
    context["poll"] = _poll(watched, first, context["log_offset"])
    return render(request, "dashboard/job.html", context)


@require_safe
@with_role
def live(request: PageRequest, job_id: int) -> HttpResponse:
    """What changed since the `seen` of the page: 204 where nothing did, else the changed parts and the next address."""
    pulse = watching.pulse(request.user, job_id)
    seen = Seen.parse(request.GET.get("seen", ""))
    if seen is None:
        return HttpResponseClientRefresh()
    if seen.agrees(pulse):
        return HttpResponse(status=204)
    watched = watching.job(request.user, job_id)
    if watched.job.last_seq - seen.first >= EVENTS_FOLLOWED:
        return HttpResponseClientRefresh()
    context = _head(request, watched) | {"new_attempt": watched.job.attempt != seen.attempt}
    context |= _tail(watched) if context["new_attempt"] else _more_log(watched, seen.log_offset)
    if watched.job.last_seq != seen.last_seq:
        followed = events.page(watched.job, Filter(after=seen.first - 1), EVENTS_FOLLOWED)
        context |= _record(watched) | {"stretches": stretches(followed.items), "new_events": True}
    context["poll"] = _poll(watched, seen.first, context["log_offset"])
    return render(request, "dashboard/_live.html", context)


@require_safe
@with_role
def earlier(request: PageRequest, job_id: int) -> HttpResponse:
    """The events before number `before`."""
    row = jobs.find(request.user, job_id)
    before = request.GET.get("before", "")
    number = int(before) if before.isascii() and before.isdecimal() and len(before) < 10 else None
    found = watching.recent_events(row, EVENTS_SHOWN, before=number)
    context = {"stretches": stretches(found), "first": found[0].seq if found else 1, "job_id": job_id}
    return render(request, "dashboard/_earlier.html", context)


@require_safe
@with_role
def script(request: PageRequest, job_id: int) -> HttpResponse:
    """What the job runs: a part of its page, or a file."""
    source = jobs.source(jobs.find(request.user, job_id))
    if request.htmx:
        return render(request, "dashboard/_script.html", {"source": source, "env": sorted(source.env)})
    return HttpResponse(source.script, content_type="text/plain; charset=utf-8")


def _head(request: PageRequest, watched: Watched) -> dict[str, Any]:
    return {
        "job": watched.view,
        "row": watched.job,
        "sentence": sentence(watched, timezone.now()),
        "ended": watched.job.state in FINAL,
        "may_act": access.may_act_on(request.user, watched.job),
        "latest": watched.latest,
        "dataset": watched.job.dataset,
    }


def _record(watched: Watched) -> dict[str, Any]:
    return {"attempts": watching.attempts(watched.job)}


def _tail(watched: Watched) -> dict[str, Any]:
    """The end of the latest execution's log, from the beginning of a line on."""
    if watched.latest is None:
        return {"log": "", "log_offset": 0, "log_cut": False}
    after = max(watched.latest.log_bytes - LOG_TAIL_BYTES, 0)
    data = logs.read(watched.latest, after, LOG_TAIL_BYTES).data
    skipped = data.find(b"\n") + 1 if after else 0
    shown = data[skipped : skipped + log_text.whole_lines(data[skipped:])]
    offset = after + skipped + len(shown)
    return {"log": log_text.readable(shown), "log_offset": offset, "log_cut": bool(after)}


def _more_log(watched: Watched, offset: int) -> dict[str, Any]:
    if watched.latest is None:
        return {"log": "", "log_offset": 0}
    data = logs.read(watched.latest, offset, LOG_STEP_BYTES).data
    ended = watched.latest.state != ExecutionState.RUNNING
    shown = data if ended else data[: log_text.whole_lines(data)]
    return {"log": log_text.readable(shown), "log_offset": offset + len(shown)}


def _poll(watched: Watched, first: int, log_offset: int) -> str:
    seen = Seen.of(watched, first=first, log_offset=log_offset)
    return f"{reverse('job-live', args=[watched.job.pk])}?seen={seen}"
