"""API tokens: made, used, revoked."""

import hashlib
import secrets

from django.contrib.auth.models import AbstractBaseUser
from django.db.models.functions import Now

from jobs.models import Token

PREFIX = "rr_"


def issue(user: AbstractBaseUser, name: str = "") -> str:
    """Make a token for `user` and return it: `rr_` and 43 characters, 256 random bits, shown this once."""
    token = PREFIX + secrets.token_urlsafe(32)
    Token.objects.create(user_id=user.pk, name=name, digest=digest(token))
    return token


def digest(token: str) -> str:
    """What is stored of a token. It is random through and through, so a plain SHA-256 can't be guessed back."""
    return hashlib.sha256(token.encode()).hexdigest()


def revoke(token_id: int, owner: AbstractBaseUser) -> bool:
    """Revoke one of `owner`'s tokens; returns whether there was one."""
    rows = Token.objects.filter(pk=token_id, user_id=owner.pk, revoked_at__isnull=True)
    return bool(rows.update(revoked_at=Now()))
