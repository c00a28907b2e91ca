"""Events: how they are numbered and written."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db import connection
from psycopg.types.json import Jsonb

from jobs.sql import storable
from jobs.states import EventKind, Reason


@dataclass(frozen=True, kw_only=True)
class Fact:
    """An event to be written: what happened, as one sentence for people and as details for programs."""

    kind: EventKind
    message: str
    reason: Reason | None = None
    execution_id: int | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    at: datetime | None = None
    """When it happened, where that is not now."""


def record(job_id: int, last_seq: int, facts: Sequence[Fact], actor: str) -> None:
    """Write `facts` as the events that end with number `last_seq`.

    The caller holds the job's row lock and has just raised its counter by as many: that is what keeps the numbers
    free of gaps and in commit order.
    """
    first = last_seq - len(facts) + 1
    rows = [_row(job_id, first + index, fact, actor) for index, fact in enumerate(facts)]
    with connection.cursor() as cursor:
        # Written by hand: it is part of every change, and Django takes four times as long to put it together.
        cursor.execute(_INSERT + ", ".join([_VALUES] * len(rows)), [value for row in rows for value in row])


_INSERT = "INSERT INTO jobs_event (job_id, seq, execution_id, kind, message, reason, details, actor, at) VALUES "
_VALUES = "(%s, %s, %s, %s, %s, %s, %s, %s, coalesce(%s, statement_timestamp()))"


def _row(job_id: int, seq: int, fact: Fact, actor: str) -> tuple[Any, ...]:
    return (
        job_id,
        seq,
        fact.execution_id,
        fact.kind.value,
        storable(fact.message),
        fact.reason.value if fact.reason else "",
        Jsonb(storable(fact.details)),
        actor,
        fact.at,
    )
