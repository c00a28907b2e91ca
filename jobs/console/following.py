"""Following a job: each event once and in order, whatever happens to the database meanwhile."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from django.db import InterfaceError, OperationalError, connection

from jobs.console.base import first_line
from jobs.selectors import following
from jobs.selectors.following import Look

POLL_SECONDS = 0.3


class Gone(Exception):
    """The job does not exist (any more)."""


@dataclass(frozen=True, kw_only=True)
class Away:
    """The database can't be reached for now; the next look comes when it can."""

    why: str


class Source(Protocol):
    """Where news of a job come from. The numbers of events make any source safe to ask again."""

    def look(self, after: int) -> Look:
        """The job now, with its events after number `after`; raises Gone, and database errors while it is away."""
        ...

    def wait(self) -> None:
        """Return when another look may be worth it; sooner than necessary does no harm."""
        ...


class Polling:
    """Asks the database again and again."""

    def __init__(self, job_id: int, seconds: float = POLL_SECONDS) -> None:
        self._job_id = job_id
        self._seconds = seconds

    def look(self, after: int) -> Look:
        found = following.look(self._job_id, after)
        if found is None:
            raise Gone(f"There is no job {self._job_id}.")
        return found

    def wait(self) -> None:
        time.sleep(self._seconds)


def follow(source: Source, after: int = 0) -> Iterator[Look | Away]:
    """Look at a job until it has ended and every event is told; the last look is the ended job.

    Events number `after` and below are left out. An outage is told once.
    """
    away = False
    while True:
        try:
            look = source.look(after)
        except (OperationalError, InterfaceError) as error:
            connection.close()
            if not away:
                yield Away(why=first_line(error))
            away = True
            source.wait()
            continue
        away = False
        yield look
        after = look.events[-1].seq if look.events else after
        if after < look.last_seq:
            continue
        if look.ended:
            return
        source.wait()
