"""Enumerations of `jobs.states` as model fields, and the constraints that pin their columns to them."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Any

from django.db import models


def enum_field(kind: type[StrEnum], **options: Any) -> "models.CharField[str, str]":
    """A text column for `kind`; options are CharField's."""
    return models.CharField(max_length=32, choices=[(member.value, member.value) for member in kind], **options)


def values(members: Iterable[StrEnum]) -> list[str]:
    """The members' values in a stable order, as constraints and queries need them."""
    return sorted(member.value for member in members)


def only(name: str, column: str, kind: type[StrEnum], *, blank: bool = False) -> models.CheckConstraint:
    """A constraint that `column` holds a member of `kind` (or nothing, when `blank`)."""
    allowed = values(kind) + ([""] if blank else [])
    return models.CheckConstraint(name=name, condition=models.Q(**{f"{column}__in": allowed}))
