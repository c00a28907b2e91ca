"""Whether and when a job is tried again; no database, no clock."""

import random
from dataclasses import dataclass

from jobs.states import REASON_CLASS, Reason


@dataclass(frozen=True, kw_only=True)
class Budget:
    """A job's retry policy and what it has used of it."""

    max_attempts: int
    used: int
    """Charged attempts so far, the one that just ended not counted."""
    retry_on: frozenset[str]


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What follows from an attempt's end."""

    retry: bool
    charged: bool
    exhausted: bool = False
    """A retry was due, but no attempt is left."""
    delay: float = 0.0
    """Seconds to wait before the next attempt."""


def judge(budget: Budget, reason: Reason, *, started: bool, base: float, limit: float) -> Verdict:
    """Judge an attempt that ended for `reason`; `base` and `limit` are seconds of backoff.

    An attempt that never started is tried again at no charge. The first retry is immediate, the second comes after
    `base` seconds, and each further one after twice as long, up to `limit`, shortened at random by up to a quarter so
    that jobs lost together do not return together.
    """
    kind = REASON_CLASS.get(reason)
    if not started:
        return Verdict(retry=True, charged=False)
    if kind is None or kind.value not in budget.retry_on:
        return Verdict(retry=False, charged=True)
    used = budget.used + 1
    if used >= budget.max_attempts:
        return Verdict(retry=False, charged=True, exhausted=True)
    return Verdict(retry=True, charged=True, delay=backoff(used, base, limit))


def backoff(used: int, base: float, limit: float) -> float:
    """Seconds before the retry that follows the `used`-th charged attempt."""
    if used <= 1:
        return 0.0
    full = min(base * 2.0 ** min(used - 2, 60), limit)
    return full * random.uniform(0.75, 1.0)
