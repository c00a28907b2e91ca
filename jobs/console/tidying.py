"""Tidying storage beside a loop that must not wait for it."""

import logging
import threading

from django.db import DatabaseError, InterfaceError, connection

from jobs.commands import cleaning

logger = logging.getLogger(__name__)

LONGEST_PAUSE = 5.0


class Tidying:
    """A thread that tidies the storage of ended jobs every few seconds, while it is `wanted`."""

    def __init__(self, interval: float) -> None:
        self.wanted = False
        self._pause = min(interval, LONGEST_PAUSE)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tidying", daemon=True)

    def __enter__(self) -> "Tidying":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()  # a call to storage under way dies with the process; the next one begins where it was

    def _run(self) -> None:
        while not self._ended.wait(self._pause):
            try:
                if self.wanted:
                    cleaning.sweep_ended()
            except (DatabaseError, InterfaceError) as error:
                logger.warning("Storage is not tidied: the database is away: %s", str(error).strip())
                connection.close()
            except Exception:  # nobody would start the thread again
                logger.exception("Storage is not tidied.")
        connection.close()
