"""Which jobs a person asks for, at a cost that does not grow with the number of jobs."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from django.contrib.auth.models import User
from django.db.models import Q, QuerySet

from jobs.models import Job
from jobs.models.choices import values
from jobs.selectors import pages
from jobs.selectors.pages import Page
from jobs.states import JobState

SCANNED = 10_000
"""How many jobs one page may look at for words and labels, which no index finds in the order of the list."""


@dataclass(frozen=True, kw_only=True)
class Filter:
    """Which jobs: in one of `states`, of one owner, with `q` in the name (or as number), with all of `labels`."""

    states: Sequence[JobState] = ()
    owner: str | None = None
    q: str = ""
    labels: Sequence[str] = ()
    """Each `key=value`, or a key alone."""

    @property
    def is_empty(self) -> bool:
        return not (self.states or self.owner is not None or self.q or self.labels)


def narrowed(jobs: QuerySet[Job], wanted: Filter, limit: int, after: Sequence[int] | None = None) -> Page[int]:
    """The ids of those of `jobs` that `wanted` lets through, newest first, from after the id in `after` on."""
    if wanted.owner is not None:
        # Looked up first: by a join, the planner would walk everybody's jobs to find one person's.
        owner = User.objects.filter(username=wanted.owner).values_list("pk", flat=True).first()
        jobs = jobs.none() if owner is None else jobs.filter(owner_id=owner)
    if after:
        jobs = jobs.filter(pk__lt=after[0])
    condition = _unindexed(wanted)
    if condition is None:
        return pages.cut(_newest(jobs, wanted.states, limit + 1), limit, key=lambda pk: [pk])
    return _searched(jobs, wanted.states, condition, limit)


def _searched(jobs: QuerySet[Job], states: Sequence[JobState], condition: Q, limit: int) -> Page[int]:
    """Those of the newest SCANNED jobs that fit `condition`; the next page begins where these were searched up to."""
    last = list(_newest(jobs, states, SCANNED)[SCANNED - 1 : SCANNED])
    if states:
        jobs = jobs.filter(state__in=values(set(states)))
    if last:
        jobs = jobs.filter(pk__gte=last[0])
    page = pages.cut(_ids(jobs.filter(condition))[: limit + 1], limit, key=lambda pk: [pk])
    return Page(items=page.items, next=pages.encode(last[0])) if last and page.next is None else page


def _newest(jobs: QuerySet[Job], states: Sequence[JobState], number: int) -> QuerySet[Any, int]:
    """The ids of the newest jobs in any of `states`, each state read along its own stretch of the index."""
    chosen = sorted(set(states))
    if jobs.query.is_empty():  # a union of nothing can't be put in order
        return _ids(jobs)
    if len(chosen) < 2:
        return _ids(jobs.filter(state=chosen[0].value) if chosen else jobs)[:number]
    stretches = [_ids(jobs.filter(state=state.value))[:number] for state in chosen]
    merged = stretches[0].union(*stretches[1:], all=True)
    return merged.order_by("-pk")[:number]


def _ids(jobs: QuerySet[Job]) -> QuerySet[Any, int]:
    return jobs.order_by("-pk").values_list("pk", flat=True)


def _unindexed(wanted: Filter) -> Q | None:
    conditions = [_carries(label) for label in wanted.labels]
    if wanted.q:
        named = Q(name__icontains=wanted.q)
        number = int(wanted.q) if wanted.q.isascii() and wanted.q.isdigit() and len(wanted.q) < 19 else None
        conditions.append(named if number is None else named | Q(pk=number))
    return reduce(Q.__and__, conditions) if conditions else None


def _carries(label: str) -> Q:
    key, given, value = label.partition("=")
    return Q(labels__contains={key: value}) if given else Q(labels__has_key=key)
