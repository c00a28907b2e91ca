"""On whose behalf a command acts."""

from django.contrib.auth.models import User

from jobs.console.base import ConsoleCommand

ADMIN = "admin"
"""The account that the first start makes."""


def named(command: ConsoleCommand, username: str) -> User:
    """The active user of that name."""
    person = User.objects.filter(username=username).first()
    if person is None:
        raise command.error(f"There is no user {username}.")
    if not person.is_active:
        raise command.error(f"The account {username} is switched off.")
    return person


def owner(command: ConsoleCommand, username: str | None) -> User:
    """The user of that name; without a name the only superuser, or `admin` where there are several."""
    if username is not None:
        return named(command, username)
    superusers = list(User.objects.filter(is_superuser=True, is_active=True).order_by("pk"))
    chosen = superusers if len(superusers) == 1 else [user for user in superusers if user.username == ADMIN]
    if not chosen:
        raise command.error("Say whose job it is with --owner USER.")
    return chosen[0]
