"""How events name who acted."""

from django.contrib.auth.models import AbstractBaseUser

REAPER = "reaper"
DISPATCHER = "dispatcher"


def user(person: AbstractBaseUser) -> str:
    return f"user:{person.get_username()}"


def worker(name: str) -> str:
    return f"worker:{name}"
