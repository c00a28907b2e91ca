"""Submitting a job from the dashboard."""

import math

from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from jobs import throttling
from jobs.commands import submission
from jobs.errors import Invalid
from jobs.selectors import access
from jobs.views.guard import PageRequest, with_role
from jobs.views.submission_form import SubmissionForm

SCOPE = "submit"
"""Shared with the API: a person's limit is one."""


@require_http_methods(["GET", "HEAD", "POST"])
@with_role
def submit(request: PageRequest) -> HttpResponse:
    if not access.may_submit(request.user):
        raise PermissionDenied("Your role may look at jobs, but not submit any.")
    if request.method != "POST":
        return _page(request, SubmissionForm())
    form = SubmissionForm(request.POST, request.FILES)
    if not form.is_valid():
        return _page(request, form, status=413 if form.too_large else 422)
    wait = throttling.check(SCOPE, str(request.user.pk), settings.SUBMISSIONS_PER_MINUTE)
    if wait is not None:
        return _too_many(request, form, math.ceil(wait))
    try:
        job = submission.submit(request.user, form.submission())
    except Invalid as invalid:
        form.show(invalid.errors)
        return _page(request, form, status=422)
    return redirect("job", job.pk)


def _page(request: PageRequest, form: SubmissionForm, status: int = 200) -> HttpResponse:
    return render(request, "dashboard/submit.html", {"form": form}, status=status)


def _too_many(request: PageRequest, form: SubmissionForm, seconds: int) -> HttpResponse:
    form.add_error(None, f"You have submitted very many jobs within a minute. Send it again in {seconds} s.")
    response = _page(request, form, status=429)
    response["Retry-After"] = str(seconds)
    return response
