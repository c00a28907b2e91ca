"""Watching over the parts while the stack runs: telling people of those that can't stay up, and turning over logs."""

import os
import shutil
import time
from pathlib import Path

from stack.places import Places
from stack.supervision import PartState, Supervisor

MAX_LOG_BYTES = 20 * 1024 * 1024
RETRY_GIVEN_UP_SECONDS = 30


class Watch:
    """What is known of the parts from look to look."""

    def __init__(self, places: Places, supervisor: Supervisor) -> None:
        self._places = places
        self._supervisor = supervisor
        self._failed_starts: dict[str, set[int]] = {}
        self._reported: set[str] = set()
        self._given_up_at: dict[str, float] = {}

    @property
    def troubled(self) -> frozenset[str]:
        """The parts that can't stay up."""
        return frozenset(self._reported)

    def look(self) -> list[str]:
        """Look once, start again what supervisord gave up, and return what people should know, a line each."""
        lines = [line for state in self._supervisor.states().values() if (line := self._judge(state))]
        self._turn_over_logs()
        return lines

    def _judge(self, part: PartState) -> str | None:
        if part.state == "RUNNING":
            return self._recovered(part.name)
        if part.state in {"BACKOFF", "FATAL"}:
            self._failed_starts.setdefault(part.name, set()).add(part.started)
        if part.state == "FATAL":
            self._start_again(part.name)
        return self._trouble(part.name)

    def _trouble(self, name: str) -> str | None:
        # Once may be an accident: somebody killed it just after its start.
        if name in self._reported or len(self._failed_starts.get(name, ())) < 2:
            return None
        self._reported.add(name)
        return f"{name} ends soon after each start; trying again with pauses. Its log: {self._places.log_of(name)}"

    def _recovered(self, name: str) -> str | None:
        self._failed_starts.pop(name, None)
        self._given_up_at.pop(name, None)
        if name not in self._reported:
            return None
        self._reported.remove(name)
        return f"{name} stays up again."

    def _start_again(self, name: str) -> None:
        if time.monotonic() - self._given_up_at.setdefault(name, time.monotonic()) > RETRY_GIVEN_UP_SECONDS:
            del self._given_up_at[name]
            self._supervisor.start([name])

    def _turn_over_logs(self) -> None:
        for log in self._places.logs.glob("*.log"):
            if log.stat().st_size > MAX_LOG_BYTES:
                turn_over(log)


def turn_over(log: Path) -> None:
    """Move a log's content to `NAME.log.1`; whoever writes it goes on at the start of the emptied file."""
    former = log.with_name(f"{log.name}.1")
    shutil.copyfile(log, former)
    former.chmod(0o600)
    os.truncate(log, 0)
