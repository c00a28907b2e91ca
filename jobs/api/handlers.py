"""What each error becomes: registered once, so that the API's functions handle none."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from django.core.exceptions import RequestDataTooBig
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse
from django.http.request import RawPostDataException, UnreadablePostError
from ninja import NinjaAPI
from ninja.errors import AuthenticationError, HttpError, ValidationError

from jobs.api import problems
from jobs.api.errors import Malformed, Throttled, Unauthenticated
from jobs.api.parsing import MULTIPART
from jobs.errors import Forbidden, Invalid, NotFound, Refused, TooLarge
from jobs.selectors.checkpoints import NoCheckpoint
from jobs.storage.manifests import CheckpointRejected
from jobs.storage.objects import StorageFailed

logger = logging.getLogger(__name__)

_ERRORS_TOLD = 50
_FIELD_NAME_TOLD = 100
_SENTENCES = {
    "extra_forbidden": "There is no such field.",
    "missing": "It is required.",
    "nul": "It must not hold a NUL character.",
}


def register(api: NinjaAPI) -> None:
    """Teach `api` to answer every error as a problem."""
    for error, kind in (
        (Malformed, problems.MALFORMED),
        (Forbidden, problems.FORBIDDEN),
        (NotFound, problems.NOT_FOUND),
        (NoCheckpoint, problems.NO_CHECKPOINT),
        (Refused, problems.WRONG_STATE),
        (CheckpointRejected, problems.DAMAGED),
        (TooLarge, problems.TOO_LARGE),
    ):
        api.add_exception_handler(error, _telling(kind))
    api.add_exception_handler(Unauthenticated, _unauthenticated)
    api.add_exception_handler(AuthenticationError, _unauthenticated)
    api.add_exception_handler(Throttled, lambda request, error: problems.throttled(error.wait))
    api.add_exception_handler(Invalid, lambda request, error: problems.invalid(error.errors))
    api.add_exception_handler(ValidationError, lambda request, error: problems.invalid(_by_field(error.errors)))
    api.add_exception_handler(RawPostDataException, lambda request, error: problems.invalid(MULTIPART))
    api.add_exception_handler(HttpError, lambda request, error: api.on_exception(request, _cause(error)))
    api.add_exception_handler(Http404, _fixed(problems.NOT_FOUND, "There is no such thing for you."))
    api.add_exception_handler(RequestDataTooBig, _fixed(problems.TOO_LARGE, "The body is too large."))
    api.add_exception_handler(UnreadablePostError, _fixed(problems.MALFORMED, "The body broke off."))
    api.add_exception_handler(OperationalError, _database_away)
    api.add_exception_handler(InterfaceError, _database_away)
    api.add_exception_handler(StorageFailed, _storage_away)
    api.add_exception_handler(Exception, _leave_to_django)


def _telling(kind: problems.Kind) -> Any:
    return lambda request, error: problems.answer(kind, str(error))


def _fixed(kind: problems.Kind, detail: str) -> Any:
    return lambda request, error: problems.answer(kind, detail)


def _unauthenticated(request: HttpRequest, error: Exception | type[Exception]) -> HttpResponse:
    if isinstance(error, Unauthenticated):
        detail, challenge = str(error), 'Bearer realm="rerail", error="invalid_token"'
    else:
        detail, challenge = "Send a token (Authorization: Bearer TOKEN) or sign in.", 'Bearer realm="rerail"'
    return problems.answer(problems.UNAUTHENTICATED, detail, headers={"WWW-Authenticate": challenge})


def _cause(error: Exception | type[Exception]) -> Exception:
    """Ninja wraps whatever the parser raised."""
    cause = getattr(error, "__cause__", None)
    return cause if isinstance(cause, Exception) else Malformed("The request can't be read.")


def _database_away(request: HttpRequest, error: Exception | type[Exception]) -> HttpResponse:
    logger.error("The database failed a request to %s: %s", request.path, error)
    return _unavailable("The database does not answer. Try again in a moment.")


def _storage_away(request: HttpRequest, error: Exception | type[Exception]) -> HttpResponse:
    logger.error("Storage failed a request to %s: %s", request.path, error)
    return _unavailable("Storage does not answer. Try again in a moment.")


def _unavailable(detail: str) -> HttpResponse:
    return problems.answer(problems.UNAVAILABLE, detail, headers={"Retry-After": "5"})


def _leave_to_django(request: HttpRequest, error: Exception | type[Exception]) -> HttpResponse:
    # It logs the traceback and answers 500, which the middleware turns into a problem.
    raise error


def _by_field(errors: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    found: dict[str, str] = {}
    for error in errors[:_ERRORS_TOLD]:
        field = _field(error["loc"])
        sentence = _SENTENCES.get(error["type"]) or f"{error['msg'].removeprefix('Value error, ')}".rstrip(".") + "."
        found.setdefault(field, sentence)
    return found


def _field(loc: Sequence[str | int]) -> str:
    """The name of what is wrong, as the caller spelt it: `env.A` for ("body", "body", "env", "A")."""
    path = [str(part) for part in loc if part != "[key]"]
    # A body stands under the name of our parameter; of a query's list, people know no positions.
    path = path[2:] if path[:1] == ["body"] else path[1:2]
    return ".".join(path)[:_FIELD_NAME_TOLD] or "body"
