"""What all pages of the admin share: nothing is edited by hand, and no page counts a whole table."""

from collections.abc import Callable
from typing import TypeVar

from django.contrib import admin, messages
from django.contrib.auth.models import User
from django.core.paginator import Paginator
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.utils.functional import cached_property

from jobs.errors import Refused
from jobs.selectors import access

M = TypeVar("M", bound=Model)

COUNTED = 10_000
"""Rows that a list counts at most; filters and search lead to what lies beyond."""
ACTED_ON = 1000
"""Rows that one action takes at most."""
REFUSALS_TOLD = 10


class BoundedPaginator(Paginator[M]):
    """Counts no further than COUNTED, so that a list costs the same at a million rows."""

    @cached_property
    def count(self) -> int:
        rows = self.object_list
        assert isinstance(rows, QuerySet)
        return rows.order_by().values("pk")[:COUNTED].count()


class ReadOnlyAdmin(admin.ModelAdmin[M]):
    """A model to look at, for staff who may see everything: operators, viewers and superusers.

    Rows are written by commands alone, so nobody may add, change or delete one here. Actions that declare
    `permissions=["operate"]` are for operators.
    """

    paginator = BoundedPaginator
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    list_per_page = 50
    list_max_show_all = 200
    ordering = ("-pk",)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: M | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: M | None = None) -> bool:
        return False

    def has_view_permission(self, request: HttpRequest, obj: M | None = None) -> bool:
        return request.user.is_staff and bool(access.roles(request.user) & {access.VIEWER, access.OPERATOR})

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)

    def has_operate_permission(self, request: HttpRequest) -> bool:
        return access.is_operator(request.user)

    def apply(self, request: HttpRequest, rows: QuerySet[M], command: Callable[[M], object], done: str) -> None:
        """Give `command` each row, then tell how many were `done`, and why the others were refused."""
        chosen = list(rows[: ACTED_ON + 1])
        refusals = [refusal for row in chosen[:ACTED_ON] if (refusal := _refusal(command, row))]
        if took := len(chosen[:ACTED_ON]) - len(refusals):
            self.message_user(request, f"{done}: {took}.", messages.SUCCESS)
        for refusal in refusals[:REFUSALS_TOLD]:
            self.message_user(request, refusal, messages.WARNING)
        if len(refusals) > REFUSALS_TOLD:
            self.message_user(request, f"{len(refusals) - REFUSALS_TOLD} more were refused.", messages.WARNING)
        if len(chosen) > ACTED_ON:
            told = f"One action takes {ACTED_ON} rows; run it again for the rest."
            self.message_user(request, told, messages.WARNING)


def acting(request: HttpRequest) -> User:
    """The person who runs an action; the admin lets nobody else in."""
    assert isinstance(request.user, User)
    return request.user


def _refusal(command: Callable[[M], object], row: M) -> str | None:
    try:
        command(row)
    except Refused as refusal:
        return str(refusal)
    return None
