import re

import pytest
from django.urls import reverse

from jobs.commands import tokens
from jobs.models import Token

pytestmark = pytest.mark.django_db


def test_a_token_is_shown_once_and_its_digest_never(mira, browser):
    client = browser(mira)
    page = client.post(reverse("token-create"), {"name": "sweeper-7"})
    (token,) = re.findall(r"rr_[\w-]{43}", page.content.decode())
    kept = Token.objects.get()
    assert kept.digest == tokens.digest(token)
    assert "no-store" in page["Cache-Control"]
    later = client.get(reverse("tokens")).content.decode()
    assert "sweeper-7" in later
    assert token not in later
    assert kept.digest not in later


def test_a_token_needs_a_name(mira, browser):
    page = browser(mira).post(reverse("token-create"), {"name": " "})
    assert page.status_code == 422
    assert not Token.objects.exists()


def test_a_revoked_token_is_gone_from_the_list(mira, browser):
    tokens.issue(mira, "sweeper-7")
    page = browser(mira).post(reverse("token-revoke", args=[Token.objects.get().pk]), follow=True)
    assert b"sweeper-7" not in page.content
    assert Token.objects.get().revoked_at is not None


def test_nobody_revokes_or_sees_the_tokens_of_another(mira, jonas, browser):
    tokens.issue(jonas, "desktop")
    client = browser(mira)
    client.post(reverse("token-revoke", args=[Token.objects.get().pk]))
    assert Token.objects.get().revoked_at is None
    assert b"desktop" not in client.get(reverse("tokens")).content
