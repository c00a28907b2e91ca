"""Series of numbers that scripts reported."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import connection

from jobs.models import Execution, MetricPoint

MAX_KEYS = 50
"""How many series one read returns."""

Sample = tuple[int, float | None, datetime]
"""Step, value (None where it is no finite number) and time."""


@dataclass(frozen=True, kw_only=True)
class Series:
    """Every key of an execution, and the points of those asked for."""

    keys: Sequence[str]
    series: Mapping[str, Sequence[Sample]]


# Buckets of equally many points; the least and the greatest of each keep every peak of a curve visible.
_EXTREMES = """
    WITH bucketed AS (
        SELECT id, key, step, value, at, ntile(%(buckets)s) OVER (PARTITION BY key ORDER BY step, id) AS bucket
        FROM jobs_metricpoint WHERE execution_id = %(execution)s AND key = ANY(%(keys)s)
    ), ranked AS (
        SELECT *, row_number() OVER (PARTITION BY key, bucket ORDER BY value, id) AS least,
            row_number() OVER (PARTITION BY key, bucket ORDER BY value DESC, id DESC) AS greatest
        FROM bucketed
    )
    SELECT key, step, value, at FROM ranked WHERE least = 1 OR greatest = 1 ORDER BY key, step, id
"""


def read(execution: Execution, wanted: Sequence[str] = (), points: int = 500) -> Series:
    """The series named by `wanted`, or the first MAX_KEYS of all, in at most 2 · `points` points each."""
    known = MetricPoint.objects.filter(execution=execution).order_by("key").values_list("key", flat=True)
    keys = list(known.distinct())
    chosen = [key for key in keys if key in set(wanted)] if wanted else keys
    series: dict[str, list[Sample]] = {key: [] for key in chosen[:MAX_KEYS]}
    with connection.cursor() as cursor:
        cursor.execute(_EXTREMES, {"buckets": points, "execution": execution.pk, "keys": list(series)})
        for key, step, value, at in cursor.fetchall():
            series[key].append((step, value if math.isfinite(value) else None, at))
    return Series(keys=keys, series=series)
