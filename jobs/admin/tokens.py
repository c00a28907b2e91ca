"""API tokens in the admin: they can be revoked, and nothing of the tokens themselves is shown."""

from django.contrib import admin
from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.http import HttpRequest

from jobs.admin.base import ReadOnlyAdmin
from jobs.commands import tokens
from jobs.errors import Refused
from jobs.models import Token


@admin.register(Token)
class TokenAdmin(ReadOnlyAdmin[Token]):
    list_display = ("id", "name", "user", "created_at", "last_used_at", "revoked_at")
    list_filter = (("revoked_at", admin.EmptyFieldListFilter),)
    list_select_related = ("user",)
    search_fields = ("name", "user__username")
    exclude = ("digest",)
    actions = ("revoke",)

    @admin.action(description="Revoke the selected tokens", permissions=["operate"])
    def revoke(self, request: HttpRequest, rows: QuerySet[Token]) -> None:
        self.apply(request, rows, _revoke, "Revoked")


def _revoke(token: Token) -> None:
    owner: User = token.user
    if not tokens.revoke(token.pk, owner):
        raise Refused(f"Token {token.pk} of {owner} had been revoked before.")
