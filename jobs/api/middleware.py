"""Errors that Django itself answers under the API's prefix (no such address, wrong method, a bug) as problems too."""

from collections.abc import Awaitable, Callable
from inspect import iscoroutinefunction
from typing import cast

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.decorators import sync_and_async_middleware

from jobs.api import problems

PREFIX = "/api/v1"
_OF_THE_PAGE = frozenset({"content-type", "content-length", "content-encoding", "content-disposition"})

Answer = Callable[[HttpRequest], HttpResponseBase]
AsyncAnswer = Callable[[HttpRequest], Awaitable[HttpResponseBase]]


@sync_and_async_middleware
def problems_under_the_api(get_response: Answer | AsyncAnswer) -> Answer | AsyncAnswer:
    """Stands outermost, so that nothing answers in another form behind it."""
    if iscoroutinefunction(get_response):

        async def answer_later(request: HttpRequest) -> HttpResponseBase:
            return _as_problem(request, await cast(AsyncAnswer, get_response)(request))

        return answer_later

    def answer(request: HttpRequest) -> HttpResponseBase:
        return _as_problem(request, cast(Answer, get_response)(request))

    return answer


def _as_problem(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
    ours = request.path == PREFIX or request.path.startswith(f"{PREFIX}/")
    if not ours or response.status_code < 400 or response.headers.get("Content-Type") == problems.CONTENT_TYPE:
        return response
    kept = {name: value for name, value in response.items() if name.lower() not in _OF_THE_PAGE}
    return problems.of_status(response.status_code, kept)
