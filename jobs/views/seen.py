"""What a job's page shows already, as its address for the next look carries it."""

import re
import time
from dataclasses import astuple, dataclass

from jobs.selectors.watching import Pulse, Watched
from jobs.states import FINAL

_WRITTEN = re.compile(r"[0-9]{1,18}(?:\.[0-9]{1,18}){6}")
RETOLD_SECONDS = 15
"""How often an unfinished job's sentence is told again though nothing happened to it: its reasons lie elsewhere."""


@dataclass(frozen=True, kw_only=True)
class Seen:
    """The last event, attempt, bytes of log (stored, and shown), step, first event shown, and when."""

    last_seq: int
    attempt: int
    log_bytes: int
    log_offset: int
    step: int
    first: int
    told: int

    @classmethod
    def of(cls, watched: Watched, *, first: int, log_offset: int) -> "Seen":
        latest, progress = watched.latest, watched.view.progress
        return cls(
            last_seq=watched.job.last_seq,
            attempt=watched.job.attempt,
            log_bytes=latest.log_bytes if latest else 0,
            log_offset=log_offset,
            step=_counted(progress.step),
            first=first,
            told=0 if watched.job.state in FINAL else int(time.time()),
        )

    @classmethod
    def parse(cls, written: str) -> "Seen | None":
        """What `str` wrote; None for anything else."""
        if not _WRITTEN.fullmatch(written):
            return None
        last_seq, attempt, log_bytes, log_offset, step, first, told = map(int, written.split("."))
        return cls(
            last_seq=last_seq,
            attempt=attempt,
            log_bytes=log_bytes,
            log_offset=log_offset,
            step=step,
            first=first,
            told=told,
        )

    def __str__(self) -> str:
        return ".".join(str(number) for number in astuple(self))

    def agrees(self, pulse: Pulse) -> bool:
        """Whether nothing has happened since."""
        seen = (self.last_seq, self.attempt, self.log_bytes, self.step)
        stale = self.told and time.time() - self.told >= RETOLD_SECONDS
        return not stale and seen == (pulse.last_seq, pulse.attempt, pulse.log_bytes, _counted(pulse.step))


def _counted(step: int | None) -> int:
    # No step yet is another thing to show than step 0.
    return 0 if step is None else max(step, 0) + 1
