"""UPDATE … RETURNING, which Django's queries do not offer, times on the database's clock, and texts it takes."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from django.db import connection
from django.db.models import Model, QuerySet, sql
from django.db.models.expressions import CombinedExpression
from django.db.models.functions import Now


def update_returning(queryset: QuerySet[Any], returning: Sequence[str], **changes: Any) -> list[tuple[Any, ...]]:
    """Update the rows of a plain filter (no joins, no slices); returns `returning` of each, as it is afterwards."""
    query = queryset.query.chain(sql.UpdateQuery)
    query.add_update_values(storable(changes))  # type: ignore[attr-defined]
    statement, parameters = query.get_compiler(connection=connection).as_sql()
    columns = ", ".join(connection.ops.quote_name(_column(queryset.model, name)) for name in returning)
    with connection.cursor() as cursor:
        cursor.execute(f"{statement} RETURNING {columns}", parameters)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
    return rows


def _column(model: type[Model], name: str) -> str:
    return model._meta.get_field(name).column  # type: ignore[union-attr, return-value]


def in_seconds(seconds: float) -> CombinedExpression:
    """The database's time `seconds` from now."""
    return Now() + timedelta(seconds=seconds)


def storable(value: Any) -> Any:
    """`value` with what PostgreSQL refuses in texts replaced: NUL, and the halves of characters that a decoder left.

    What scripts and their tools say ends up in messages; no end may be lost to a byte in it.
    """
    if isinstance(value, str):
        return value.encode(errors="replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")
    if isinstance(value, Mapping):
        return {storable(key): storable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [storable(item) for item in value]
    return value
