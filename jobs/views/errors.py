"""Pages for what went wrong: what happened, and what to do, never how the code looks inside."""

from http import HTTPStatus

from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.template.loader import render_to_string


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    if isinstance(exception, RequestDataTooBig):
        return _page(request, 413, "That was too large", "A script may have 2 MiB. Larger data belongs into a dataset.")
    return _page(request, 400, "That request made no sense", "Go back, reload the page and try again.")


def forbidden(request: HttpRequest, exception: Exception) -> HttpResponse:
    told = str(exception) or "You are signed in, but your role does not allow this."
    return _page(request, 403, "Not allowed", told)


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    told = "There is no such page, or it belongs to somebody else."
    return _page(request, 404, "Nothing here", told)


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    told = (
        "Your browser did not send the proof that this form came from here. "
        "Allow cookies, reload the page and send the form again."
    )
    return _page(request, 403, "The form has gone stale", told)


def server_error(request: HttpRequest) -> HttpResponse:
    # Rendered without the request: whoever is signed in must not be looked up in a database that may be away.
    context = _context(500, "Something broke", "It is our fault, and has been logged. Try again in a moment.")
    return HttpResponse(render_to_string("error.html", context), status=500)


def _page(request: HttpRequest, status: int, title: str, told: str) -> HttpResponse:
    return render(request, "error.html", _context(status, title, told), status=status)


def _context(status: int, title: str, told: str) -> dict[str, object]:
    return {"status": status, "phrase": HTTPStatus(status).phrase, "title": title, "told": told}
