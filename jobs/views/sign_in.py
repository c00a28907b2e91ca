"""Signing in, for the dashboard and the admin alike."""

import math
from typing import Any

from django.conf import settings
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.views import LoginView
from django.http import HttpRequest, HttpResponse

from jobs import throttling

SCOPE = "sign-in"


class SignIn(LoginView):
    """The sign-in page. Failed attempts are limited per address and account; then the right password waits too."""

    template_name = "sign_in.html"

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        wait = throttling.check(SCOPE, self._who(), settings.SIGN_IN_ATTEMPTS_PER_MINUTE)
        if wait is not None:
            return self._too_many(math.ceil(wait))
        return super().post(request, *args, **kwargs)

    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        throttling.forget(SCOPE, self._who())
        return super().form_valid(form)

    def _who(self) -> str:
        account = self.request.POST.get("username", "").strip().casefold()
        return f"{client_address(self.request)} {account}"

    def _too_many(self, seconds: int) -> HttpResponse:
        context = self.get_context_data(form=AuthenticationForm(self.request), wait_seconds=seconds)
        response = self.render_to_response(context, status=429)
        response["Retry-After"] = str(seconds)
        return response


def client_address(request: HttpRequest) -> str:
    """Where a request came from: behind a proxy the address that the proxy itself saw, which no client can invent."""
    forwarded = request.META.get("HTTP_X_FORWARDED_FOR", "")
    if settings.RERAIL.behind_proxy and forwarded:
        return str(forwarded).rpartition(",")[2].strip()
    return str(request.META.get("REMOTE_ADDR", ""))
