"""What belongs to a person apart from its jobs."""

from django.contrib.auth.models import AbstractBaseUser

from jobs.models import Token

TOKENS_SHOWN = 200


def tokens_of(person: AbstractBaseUser) -> list[Token]:
    """A person's tokens that still work, newest first."""
    working = Token.objects.filter(user_id=person.pk, revoked_at__isnull=True)
    return list(working.order_by("-id")[:TOKENS_SHOWN])
