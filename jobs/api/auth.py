"""Who calls: a token in the Authorization header, or the session of a browser with its CSRF proof."""

from django.contrib.auth.models import User
from django.http import HttpRequest
from ninja.security import APIKeyCookie, HttpBearer
from ninja.utils import check_csrf

from jobs.api.errors import Unauthenticated
from jobs.commands import tokens
from jobs.errors import Forbidden
from jobs.selectors import access


class ApiRequest(HttpRequest):
    """A request as the API's functions get it."""

    auth: User


class Token(HttpBearer):
    """`Authorization: Bearer rr_…`, a token made by `issue_token` or on the page of tokens."""

    def __call__(self, request: HttpRequest) -> User | None:
        header = request.headers.get("Authorization", "")
        if not header:
            return None
        scheme, _, token = header.partition(" ")
        if scheme.lower() != "bearer":
            raise Unauthenticated("The Authorization header must be: Bearer TOKEN.")
        return self.authenticate(request, token.strip())

    def authenticate(self, request: HttpRequest, token: str) -> User:
        user = tokens.use(token) if token.startswith(tokens.PREFIX) else None
        if user is None:
            raise Unauthenticated("That token is unknown or revoked, or its user may not sign in.")
        return user


class Session(APIKeyCookie):
    """The session of somebody who signed in on the pages; writing needs the X-CSRFToken header."""

    param_name = "sessionid"

    def __call__(self, request: HttpRequest) -> User | None:
        # Asked first: who is not signed in learns just that, whatever they lack besides.
        if not request.user.is_authenticated:
            return None
        if check_csrf(request) is not None:
            raise Forbidden("A session may write only with its CSRF token in the X-CSRFToken header.")
        return self.authenticate(request, None)

    def authenticate(self, request: HttpRequest, key: str | None) -> User | None:
        return request.user if isinstance(request.user, User) else None


def require_role(person: User) -> None:
    """For what concerns no job in particular: anybody with a role. Raises Forbidden."""
    if not access.roles(person):
        raise Forbidden("You have no role here yet; an administrator can give you one.")


def require_operator(person: User) -> None:
    """Raises Forbidden for everybody else."""
    if not access.is_operator(person):
        raise Forbidden("Only operators may do that.")
