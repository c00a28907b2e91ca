"""Errors as RFC 9457 problem documents."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus

from django.http import HttpRequest, HttpResponse, JsonResponse
from pydantic import BaseModel, Field

CONTENT_TYPE = "application/problem+json"


class Problem(BaseModel):
    """What went wrong: `code` is for programs and stays, `detail` is a sentence for people."""

    type: str = Field(description="A name of this kind of problem; it ends with `code`.")
    title: str
    status: int
    detail: str
    code: str
    errors: dict[str, str] | None = Field(default=None, description="By field, what is wrong with it.")


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of problem."""

    code: str
    status: HTTPStatus
    title: str


MALFORMED = Kind(code="malformed", status=HTTPStatus.BAD_REQUEST, title="The request can't be read")
UNAUTHENTICATED = Kind(code="unauthenticated", status=HTTPStatus.UNAUTHORIZED, title="You are not signed in")
FORBIDDEN = Kind(code="forbidden", status=HTTPStatus.FORBIDDEN, title="You may not do that")
NOT_FOUND = Kind(code="not_found", status=HTTPStatus.NOT_FOUND, title="There is no such thing for you")
NO_CHECKPOINT = Kind(code="no_checkpoint", status=HTTPStatus.NOT_FOUND, title="There is no such checkpoint")
NOT_ALLOWED = Kind(code="method_not_allowed", status=HTTPStatus.METHOD_NOT_ALLOWED, title="That can't be done here")
WRONG_STATE = Kind(code="wrong_state", status=HTTPStatus.CONFLICT, title="That does not fit the state of things")
DAMAGED = Kind(code="damaged", status=HTTPStatus.CONFLICT, title="The checkpoint can't be used")
TOO_LARGE = Kind(code="too_large", status=HTTPStatus.REQUEST_ENTITY_TOO_LARGE, title="That is too large")
INVALID = Kind(code="invalid", status=HTTPStatus.UNPROCESSABLE_ENTITY, title="Some of it can't be used")
THROTTLED = Kind(code="throttled", status=HTTPStatus.TOO_MANY_REQUESTS, title="That was too often")
UNAVAILABLE = Kind(code="unavailable", status=HTTPStatus.SERVICE_UNAVAILABLE, title="Part of the service is away")
BROKEN = Kind(code="internal", status=HTTPStatus.INTERNAL_SERVER_ERROR, title="Something broke")

_BY_STATUS = {
    kind.status.value: kind
    for kind in (
        MALFORMED, UNAUTHENTICATED, FORBIDDEN, NOT_FOUND, NOT_ALLOWED, WRONG_STATE, TOO_LARGE, INVALID, THROTTLED,
        UNAVAILABLE, BROKEN,
    )
}  # fmt: skip
_DETAILS = {
    MALFORMED: "The request can't be read.",
    FORBIDDEN: "The request was refused; a session needs its CSRF token in the X-CSRFToken header.",
    NOT_FOUND: "There is nothing at this address.",
    NOT_ALLOWED: "This address does not take that method; the Allow header names those it takes.",
    TOO_LARGE: "The request is too large.",
    BROKEN: "It is our fault and has been written to the log. Try again in a moment.",
}


def answer(
    kind: Kind, detail: str, errors: Mapping[str, str] | None = None, headers: Mapping[str, str] | None = None
) -> HttpResponse:
    """A problem document of `kind`."""
    document: dict[str, object] = {
        "type": f"urn:problem-type:rerail:{kind.code}",
        "title": kind.title,
        "status": kind.status.value,
        "detail": detail,
        "code": kind.code,
    }
    if errors is not None:
        document["errors"] = dict(errors)
    return JsonResponse(document, status=kind.status.value, content_type=CONTENT_TYPE, headers=headers)


def of_status(status: int, headers: Mapping[str, str]) -> HttpResponse:
    """The problem document in place of some other page of that status."""
    kind = _BY_STATUS.get(status)
    if kind is None:
        known = HTTPStatus(status) if status in set(HTTPStatus) else HTTPStatus.INTERNAL_SERVER_ERROR
        kind = Kind(code=known.name.lower(), status=known, title=known.phrase)
    return answer(kind, _DETAILS.get(kind, f"{kind.title}."), headers=headers)


def invalid(errors: Mapping[str, str]) -> HttpResponse:
    """What was sent can't be used; `errors` by field."""
    detail = next(iter(errors.values())) if len(errors) == 1 else f"These can't be used: {', '.join(errors)}."
    return answer(INVALID, detail, errors)


def throttled(wait: float) -> HttpResponse:
    """Too many requests; the next one has a chance in `wait` seconds."""
    seconds = max(math.ceil(wait), 1)
    return answer(THROTTLED, f"Try again in {seconds} s.", headers={"Retry-After": str(seconds)})


def nothing_here(request: HttpRequest) -> HttpResponse:
    """The bare prefix, which Django would otherwise redirect to itself with a slash."""
    return of_status(HTTPStatus.NOT_FOUND, {})
