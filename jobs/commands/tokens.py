"""API tokens: made, used, revoked."""

import hashlib
import secrets

from django.contrib.auth.models import AbstractBaseUser, User
from django.db.models import BooleanField, ExpressionWrapper, Q
from django.db.models.functions import Now

from jobs.models import Token
from jobs.sql import in_seconds

PREFIX = "rr_"
USE_NOTED_EVERY_SECONDS = 60


def issue(user: AbstractBaseUser, name: str = "") -> str:
    """Make a token for `user` and return it: `rr_` and 43 characters, 256 random bits, shown this once."""
    token = PREFIX + secrets.token_urlsafe(32)
    Token.objects.create(user_id=user.pk, name=name, digest=digest(token))
    return token


def digest(token: str) -> str:
    """What is stored of a token. It is random through and through, so a plain SHA-256 can't be guessed back."""
    return hashlib.sha256(token.encode(errors="surrogatepass")).hexdigest()


def use(token: str) -> User | None:
    """The person whose token this is, the use noted at most once a minute; None where it opens nothing (any more)."""
    due = Q(last_used_at__isnull=True) | Q(last_used_at__lt=in_seconds(-USE_NOTED_EVERY_SECONDS))
    valid = Token.objects.filter(digest=digest(token), revoked_at__isnull=True, user__is_active=True)
    found = valid.select_related("user").annotate(due=ExpressionWrapper(due, output_field=BooleanField())).first()
    if found is None:
        return None
    if found.due:
        Token.objects.filter(pk=found.pk).update(last_used_at=Now())
    return found.user


def revoke(token_id: int, owner: AbstractBaseUser) -> bool:
    """Revoke one of `owner`'s tokens; returns whether there was one."""
    rows = Token.objects.filter(pk=token_id, user_id=owner.pk, revoked_at__isnull=True)
    return bool(rows.update(revoked_at=Now()))
