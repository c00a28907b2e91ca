"""What every page knows of the person who looks at it."""

from typing import Any

from django.http import HttpRequest

from jobs.selectors import access


def person(request: HttpRequest) -> dict[str, Any]:
    """The roles and the right to submit; read when a template first asks for them."""
    user = getattr(request, "user", None)
    if user is None:
        return {}
    return {
        "roles": lambda: sorted(access.roles(user)),
        "may_submit": lambda: access.may_submit(user),
    }
