"""Who may open a page, and what becomes of what a selector or command refuses."""

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec
from urllib.parse import urlencode

from django.contrib.auth.models import AnonymousUser, User
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django_htmx.http import HttpResponseClientRedirect
from django_htmx.middleware import HtmxDetails

from jobs.errors import Forbidden, NotFound
from jobs.selectors import access

P = ParamSpec("P")


class PageRequest(HttpRequest):
    """A request as a guarded view gets it: by a person who is signed in and holds a role."""

    user: User
    htmx: HtmxDetails


View = Callable[Concatenate[PageRequest, P], HttpResponse]


def with_role(view: View[P]) -> View[P]:
    """Only for people with a role: the others are asked to sign in, or told who can give them one.

    What the person may not see answers 404, as if there were none; what it may only see, 403.
    """

    @wraps(view)
    def guarded(request: PageRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponse:
        if not _is_signed_in(request.user):
            return _sign_in_first(request)
        if not access.roles(request.user):
            return render(request, "dashboard/no_role.html", status=403)
        try:
            return view(request, *args, **kwargs)
        except NotFound as missing:
            raise Http404(str(missing)) from missing
        except Forbidden as refusal:
            raise PermissionDenied(str(refusal)) from refusal

    return guarded


def _is_signed_in(user: User | AnonymousUser) -> bool:
    return user.is_authenticated


def _sign_in_first(request: PageRequest) -> HttpResponse:
    # A poll that followed a redirect would put the sign-in page into the middle of the page that it updates.
    if request.htmx:
        query = urlencode({"next": request.htmx.current_url_abs_path or ""})
        return HttpResponseClientRedirect(f"{reverse('sign-in')}?{query}")
    return redirect_to_login(request.get_full_path())
