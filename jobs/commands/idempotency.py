"""Requests that may be repeated: the first one is done, the others get its answer."""

import hashlib
import re
from collections.abc import Callable
from typing import Any

from django.contrib.auth.models import AbstractBaseUser
from django.db import connection, transaction

from jobs.errors import Invalid
from jobs.models import IdempotencyKey

FIELD = "Idempotency-Key"
_KEY = re.compile(r"[\x21-\x7e]{1,255}")
_SWEPT_AT_ONCE = 100

# An insert waits here for another one of the same key to commit, so two that come together are one.
_CLAIM = """
    INSERT INTO jobs_idempotencykey AS known (user_id, key, fingerprint) VALUES (%s, %s, %s)
    ON CONFLICT (user_id, key) DO UPDATE SET
        fingerprint = excluded.fingerprint, answer = NULL, created_at = statement_timestamp()
        WHERE known.created_at < statement_timestamp() - interval '1 day'
    RETURNING id
"""
_FORGET_OLD = """
    DELETE FROM jobs_idempotencykey WHERE id IN (
        SELECT id FROM jobs_idempotencykey WHERE created_at < statement_timestamp() - interval '1 day'
        ORDER BY created_at LIMIT %s FOR UPDATE SKIP LOCKED)
"""


def once(user: AbstractBaseUser, key: str, sent: bytes, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The answer of `make`, or what it answered when `user` sent the same with the same key within the last day.

    `make` runs in the same transaction as the key is kept: both happen or neither. Raises Invalid for a bad key, or
    one that came with something else before.
    """
    if not _KEY.fullmatch(key):
        raise Invalid({FIELD: "It must have 1 to 255 visible ASCII characters."})
    fingerprint = hashlib.sha256(sent).hexdigest()
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_FORGET_OLD, [_SWEPT_AT_ONCE])
        cursor.execute(_CLAIM, [user.pk, key, fingerprint])
        if (claimed := cursor.fetchone()) is None:
            return _answered(user, key, fingerprint)
        answer = make()
        IdempotencyKey.objects.filter(pk=claimed[0]).update(answer=answer)
        return answer


def _answered(user: AbstractBaseUser, key: str, fingerprint: str) -> dict[str, Any]:
    known = IdempotencyKey.objects.get(user_id=user.pk, key=key)
    if known.fingerprint != fingerprint:
        raise Invalid({FIELD: "This key came with another request within the last day; a new request needs a new key."})
    return dict(known.answer or {})
