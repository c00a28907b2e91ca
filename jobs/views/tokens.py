"""A person's own API tokens."""

from django import forms
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from jobs.commands import tokens
from jobs.selectors import people
from jobs.views.guard import PageRequest, with_role


class TokenForm(forms.Form):
    """What a new token is called."""

    name = forms.CharField(
        max_length=100, help_text="What will use it, such as “laptop” or “nightly sweep”.", label="Name"
    )


@require_safe
@never_cache
@with_role
def token_list(request: PageRequest) -> HttpResponse:
    return _page(request, TokenForm())


@require_POST
@never_cache
@with_role
def create(request: PageRequest) -> HttpResponse:
    """Answers with the token itself: it is kept nowhere, so no later page could show it."""
    form = TokenForm(request.POST)
    if not form.is_valid():
        return _page(request, form, status=422)
    name = form.cleaned_data["name"]
    return _page(request, TokenForm(), issued=tokens.issue(request.user, name), issued_name=name)


@require_POST
@with_role
def revoke(request: PageRequest, token_id: int) -> HttpResponse:
    if tokens.revoke(token_id, request.user):
        messages.success(request, "Revoked. Whatever used that token is refused from now on.")
    return redirect("tokens")


def _page(request: PageRequest, form: TokenForm, status: int = 200, **context: object) -> HttpResponse:
    context |= {"form": form, "tokens": people.tokens_of(request.user)}
    return render(request, "dashboard/tokens.html", context, status=status)
