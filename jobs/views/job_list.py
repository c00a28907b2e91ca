"""The list of jobs."""

import hashlib
from collections.abc import Sequence
from typing import Any

from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from jobs.errors import Invalid
from jobs.selectors import jobs, watching
from jobs.selectors.jobs import JobView
from jobs.selectors.pages import Page
from jobs.views.asking import GROUPS, Asked
from jobs.views.guard import PageRequest, with_role

PER_PAGE = 50


@require_safe
@with_role
def job_list(request: PageRequest) -> HttpResponse:
    asked = Asked.of(request.GET)
    cursor = request.GET.get("cursor") or None
    page = _page(request, asked, cursor)
    later = cursor is not None
    context = _context(asked, page.items, newer=0, later=later) | {
        "filters": [(word, name, asked.address(state=word)) for word, (name, _) in GROUPS.items()],
        "everything": asked.address(state=""),
        "first": asked.address(),
        "next": asked.address(cursor=page.next) if page.next else None,
    }
    return render(request, "dashboard/jobs.html", context)


@require_safe
@with_role
def rows(request: PageRequest) -> HttpResponse:
    """The same jobs as they are now, and how many came since: 204 while nothing changed.

    The rows stay those that the page shows, in their places, whatever they became: nothing moves while one reads.
    """
    asked = Asked.of(request.GET)
    ids = _ids(request.GET.get("ids", ""))
    later = "later" in request.GET
    newer = 0 if later else watching.newer(request.user, asked.filter, than=max(ids, default=0))
    context = _context(asked, watching.listed(request.user, ids), newer=newer, later=later)
    if context["seen"] == request.GET.get("seen"):
        return HttpResponse(status=204)
    return render(request, "dashboard/_list.html", context)


def _page(request: PageRequest, asked: Asked, cursor: str | None) -> Page[JobView]:
    try:
        return jobs.page(request.user, asked.filter, PER_PAGE, cursor)
    except Invalid:  # a cursor that somebody cut short: the list begins at its beginning
        return jobs.page(request.user, asked.filter, PER_PAGE)


def _context(asked: Asked, found: Sequence[JobView], *, newer: int, later: bool) -> dict[str, Any]:
    seen = hashlib.sha256(repr((newer, found)).encode(errors="replace")).hexdigest()[:16]
    ids = ",".join(str(job.job_id) for job in found)
    again = asked.address(ids=ids, seen=seen, later="1" if later else "")
    poll = reverse("job-rows") + again
    return {"asked": asked, "jobs": found, "newer": newer, "seen": seen, "poll": poll, "later": later}


def _ids(text: str) -> list[int]:
    words = text.split(",")[:PER_PAGE]
    return [int(word) for word in words if word.isascii() and word.isdecimal() and len(word) < 19]
