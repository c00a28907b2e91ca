"""The database's tables and the first account, through Django."""

import os
import secrets
from typing import TYPE_CHECKING

from stack.errors import CannotStart
from stack.places import Places

if TYPE_CHECKING:
    from django.contrib.auth.models import User

ADMIN = "admin"
MIGRATION_LOCK = 7_240_100_911
"""The number of the advisory lock under which one of several starting hosts migrates."""


def set_up_django() -> None:
    """Load the applications (more than a second), and raise CannotStart for settings that don't go together."""
    import django
    from django.core import checks

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    django.setup()
    # Ours alone: Django's own concern the code, and load every view.
    ours = [check for check in checks.registry.registry.get_checks() if check.__module__.startswith("jobs.")]
    for message in (message for check in ours for message in check(app_configs=None)):
        if message.is_serious():
            raise CannotStart(str(message.msg))


def why_away() -> str | None:
    """Why the database takes no connections, in one line, or null when it does."""
    from django.db import OperationalError, connection

    try:
        with connection.wrap_database_errors:
            connection.get_new_connection({**connection.get_connection_params(), "connect_timeout": 5}).close()
    except OperationalError as error:
        return _first_line(error)
    return None


def migrate() -> None:
    """Bring the tables up to date; several hosts may do so at once."""
    from django.core.management import call_command
    from django.db import DatabaseError, connection

    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_lock(%s)", [MIGRATION_LOCK])
            try:
                call_command("migrate", verbosity=0, interactive=False)
            finally:
                cursor.execute("SELECT pg_advisory_unlock(%s)", [MIGRATION_LOCK])
    except DatabaseError as error:
        raise CannotStart(f"The database can't be brought up to date: {_first_line(error)}") from error


def let_go() -> None:
    """Close our connection: it would be in the way of a server that stops, and dead after one that starts again."""
    from django.db import connection

    connection.close()


def ensure_admin(places: Places, wanted: str | None) -> str:
    """Make sure that `admin` can sign in; returns, for people, with which password.

    `wanted` (RERAIL_ADMIN_PASSWORD) always holds. Without it, the account gets a generated one when it is made, which
    is kept beside the data.
    """
    from django.contrib.auth.models import User

    admin = User.objects.filter(username=ADMIN).first()
    if wanted:
        _set_password(admin, wanted)
        return "with the password in RERAIL_ADMIN_PASSWORD"
    if admin is None:
        _set_password(None, _kept_password(places))
    elif not places.admin_password.exists():
        return "with the password it was given"
    elif not admin.check_password(_kept_password(places)):
        return "with the password it was given since the first start"
    return f"with the password {_kept_password(places)} (kept in {places.admin_password})"


def _set_password(admin: "User | None", password: str) -> None:
    from django.contrib.auth.models import User

    if admin is None:
        User.objects.create_superuser(ADMIN, password=password)
    elif not admin.check_password(password):
        admin.set_password(password)
        admin.save(update_fields=["password"])


def _kept_password(places: Places) -> str:
    """The generated password; made, and on disk, before any account has it."""
    if not places.admin_password.exists():
        draft = places.admin_password.with_suffix(".new")
        draft.unlink(missing_ok=True)
        with open(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
            file.write(secrets.token_urlsafe(12) + "\n")
            file.flush()
            os.fsync(file.fileno())
        draft.rename(places.admin_password)
    return places.admin_password.read_text().strip()


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
