"""Emptying the test database, comparing it, and counting what is asked of it."""

import contextlib
from collections.abc import Iterator
from typing import Any

from django.apps import apps
from django.contrib.auth.models import Group, User
from django.db import connection
from django.db.models import Model
from django.test.utils import CaptureQueriesContext

from jobs import dispatch
from jobs.models import Installation, ReaperLease

_KEPT = {Installation, ReaperLease}
_NO_STATEMENTS = ("BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE SAVEPOINT", "ROLLBACK TO SAVEPOINT")


def _models() -> list[type[Model]]:
    return [model for model in apps.get_app_config("jobs").get_models() if model not in _KEPT]


def _tables() -> list[str]:
    about_users: list[Any] = [relation.related_model for relation in User._meta.related_objects]
    through: list[Any] = [User.groups.through, User.user_permissions.through]
    found = [model._meta.db_table for model in [*_models(), *about_users, *through, User]]
    return list(dict.fromkeys(found))


def empty() -> None:
    """Remove every job, worker, user and what hangs on them; reset the rows of which there is one."""
    with connection.cursor() as cursor:
        cursor.execute("SET lock_timeout = '20s'")
        # Ten times as fast as TRUNCATE while there is little. Foreign keys are judged at the end of it.
        cursor.execute("; ".join(f"DELETE FROM {table}" for table in _tables()))
        cursor.execute("RESET lock_timeout")
    # Its uuid stays: names of queues are remembered for the life of a process.
    Installation.objects.update(queue_paused_at=None)
    ReaperLease.objects.update(holder=None, host="", pid=None, expires_at=None, swept_at=None, sweeps=0, summary={})


def restore_single_rows(**_: Any) -> None:
    """What the migrations insert, after a flush."""
    if "jobs_installation" not in connection.introspection.table_names():
        return
    Installation.objects.get_or_create(pk=1)
    ReaperLease.objects.get_or_create(pk=1)
    for name in ("viewer", "member", "operator"):
        Group.objects.get_or_create(name=name)
    dispatch._installation.cache_clear()


def rows() -> dict[str, list[tuple[Any, ...]]]:
    """Everything that the tables of Rerail hold, to be compared with itself later."""
    found = {}
    models: list[type[Model]] = [*_models(), Installation]
    with connection.cursor() as cursor:
        for model in models:
            cursor.execute(f"SELECT * FROM {model._meta.db_table}")
            found[model._meta.db_table] = sorted(cursor.fetchall(), key=repr)
    return found


@contextlib.contextmanager
def statements() -> Iterator[list[str]]:
    """The SQL statements run in the context, other than those around transactions."""
    seen: list[str] = []
    with CaptureQueriesContext(connection) as captured:
        yield seen
    seen += [query["sql"] for query in captured if not query["sql"].upper().startswith(_NO_STATEMENTS)]


def execute(sql: str, *parameters: Any) -> int:
    """Run one statement beside the application, such as one that moves a deadline; returns how many rows it touched."""
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        count: int = cursor.rowcount
    return count


def changes(before: dict[str, list[tuple[Any, ...]]], after: dict[str, list[tuple[Any, ...]]]) -> dict[str, int]:
    """How many rows of each table are new or another than they were; a table without any is left out."""
    counts = {}
    for table, rows_after in after.items():
        rows_before = [repr(row) for row in before[table]]
        gone = len(set(rows_before) - {repr(row) for row in rows_after})
        come = len({repr(row) for row in rows_after} - set(rows_before))
        if gone or come:
            counts[table.removeprefix("jobs_")] = max(gone, come)
    return counts
