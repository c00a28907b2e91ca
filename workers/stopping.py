"""Why a script must stop: decided once, by whoever says so first, and awaited together with the script's end."""

import os
import threading
from enum import StrEnum

from jobs.states import Reason


class Fenced(StrEnum):
    """The one stop that is no reason of the job's: this process lost the execution to another."""

    FENCED = "fenced"


FENCED = Fenced.FENCED
StopReason = Reason | Fenced


class Stop:
    """A request to stop, set at most once; losing the execution overrides everything else."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._read, self._write = os.pipe()
        self._reason: StopReason | None = None

    @property
    def reason(self) -> StopReason | None:
        return self._reason

    @property
    def fenced(self) -> bool:
        return self._reason is FENCED

    def request(self, reason: StopReason) -> None:
        """Ask for a stop. Safe in any thread and in a signal handler's deferred call."""
        with self._lock:
            first = self._reason is None
            if first or reason is FENCED:
                self._reason = reason
        if first:
            os.write(self._write, b"!")

    def fileno(self) -> int:
        """A descriptor that is readable from the first request on."""
        return self._read
