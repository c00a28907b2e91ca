"""Whether this installation can do its work: what `/readyz` and `/metrics` tell."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

import redis
from django.conf import settings
from django.core.files.storage import FileSystemStorage, default_storage
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.models import F
from django.db.models.functions import Now

from jobs.models import ReaperLease


@dataclass(frozen=True, kw_only=True)
class Check:
    """One part of the installation: whether it is well, and what is wrong where it is not."""

    ok: bool
    detail: str = ""


def readiness() -> Mapping[str, Check]:
    """Look at each part. Reveals nothing but which of them is away: the answer is for everybody."""
    return {name: _look(check) for name, check in _CHECKS.items()}


class Unwell(Exception):
    """A part answers, but not as it should."""


def _look(check: Callable[[], None]) -> Check:
    try:
        check()
    except Unwell as error:
        return Check(ok=False, detail=str(error))
    except Exception:
        return Check(ok=False, detail="It does not answer.")
    return Check(ok=True)


def _database() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")


def _redis() -> None:
    timeout = settings.REDIS_TIMEOUT_SECONDS
    with redis.Redis.from_url(settings.REDIS_URL, socket_connect_timeout=timeout, socket_timeout=timeout) as client:
        client.ping()


def _storage() -> None:
    if isinstance(default_storage, FileSystemStorage):
        os.makedirs(default_storage.location, exist_ok=True)
        if not os.access(default_storage.location, os.W_OK | os.X_OK):
            raise Unwell("Its folder can't be written.")
    else:
        default_storage.exists("readyz")


@cache
def _migrations() -> None:
    # Remembered once they are all applied: a process never sees fewer afterwards, nor more than it started with.
    executor = MigrationExecutor(connection)
    if executor.migration_plan(executor.loader.graph.leaf_nodes()):
        raise Unwell("Some are not applied.")


def _reaper() -> None:
    age = sweep_age()
    if age is None:
        raise Unwell("It has never swept.")
    # A sweep that finds much to do may take its time; beyond a lease, zombies stay unfound.
    if age > 2 * settings.RERAIL.timing.sweep + settings.RERAIL.timing.lease:
        raise Unwell(f"Its last sweep ended {age:.0f} s ago.")


def sweep_age() -> float | None:
    """Seconds since the reaper's last sweep, on the database's clock; None before the first."""
    lease = ReaperLease.objects.filter(swept_at__isnull=False).annotate(age=Now() - F("swept_at")).first()
    return None if lease is None else float(lease.age.total_seconds())


_CHECKS: Mapping[str, Callable[[], None]] = {
    "database": _database,
    "redis": _redis,
    "storage": _storage,
    "migrations": _migrations,
    "reaper": _reaper,
}
