"""Events: how they are numbered and written."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db.models.functions import Now

from jobs.models import Event
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
    Event.objects.bulk_create(
        Event(
            job_id=job_id,
            seq=first + index,
            execution_id=fact.execution_id,
            kind=fact.kind,
            message=storable(fact.message),
            reason=fact.reason or "",
            details=storable(fact.details),
            actor=actor,
            at=fact.at or Now(),
        )
        for index, fact in enumerate(facts)
    )
