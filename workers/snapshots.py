"""The thread that takes checkpoints of `output/` while the script runs, with a database connection of its own.

One is due every so many seconds, and whenever the script asks. A failed one is told on the timeline once, until one
succeeds again, and tried again sooner; training never notices.
"""

import logging
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from django.db import DatabaseError, InterfaceError, connection

from jobs.commands import checkpoints
from jobs.commands.executions import Lease
from jobs.errors import Stale
from jobs.storage.manifests import Manifest
from workers import collecting
from workers.checkpointer import NICE, Published, PublishFailed, PublishInterrupted, publish
from workers.requests import Requests
from workers.stopping import FENCED, Stop

logger = logging.getLogger(__name__)

LOOK_SECONDS = 0.2
"""How often the script's requests are looked for."""
RETRY_SECONDS = 30.0
"""A failed snapshot is tried again after this time, or with the next one that is due."""


class Publisher:
    """Publishes one attempt's `output/` again and again, and remembers what is in storage by now."""

    def __init__(self, lease: Lease, output: Path, *, attempt: int, restored: Manifest | None, stop: Stop) -> None:
        self._lease, self._output, self._attempt, self._stop = lease, output, attempt, stop
        # A fork's source is another job's: everything is stored anew, and the first checkpoint is never superfluous.
        self._latest = restored if restored is not None and restored.job_id == lease.job_id else None
        self._stored: Manifest | None = None
        self._failing = False

    def publish(
        self, *, step: int | None, final: bool = False, nice: bool = False, stop: Callable[[], bool] = lambda: False
    ) -> Published | None:
        """Publish as `checkpointer.publish` does; a failure is told on the timeline before it is raised."""
        try:
            published = publish(
                self._lease,
                self._output,
                attempt=self._attempt,
                known=[manifest for manifest in (self._stored, self._latest) if manifest is not None],
                latest=self._latest,
                step=step,
                final=final,
                nice=nice,
                stop=lambda: stop() or self._stop.fenced,
                keep=lambda: not self._stop.fenced,
            )
        except PublishInterrupted as interrupted:
            self._stored = interrupted.stored
            raise
        except PublishFailed as failure:
            self._stored = failure.stored
            self._tell(failure)
            raise
        self._failing = False
        if published is not None:
            self._latest, self._stored = published.manifest, None
            collecting.collect(self._lease)
        return published

    def _tell(self, failure: PublishFailed) -> None:
        if self._failing:
            return
        try:
            checkpoints.failed(self._lease, str(failure))
            self._failing = True
        except (DatabaseError, InterfaceError) as error:
            logger.warning("The database is away: %s", str(error).strip())
            connection.close()


class Snapshots:
    """Takes snapshots from entering to leaving; leaving interrupts one that is under way, and keeps what it stored."""

    def __init__(
        self, publisher: Publisher, stop: Stop, requests: Requests, *, every: float, step: Callable[[], int | None]
    ) -> None:
        self._publisher, self._stop, self._requests, self._step = publisher, stop, requests, step
        self._every = every
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="snapshots", daemon=True)

    def __enter__(self) -> "Snapshots":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        # Whoever lost the execution ends without looking back; everyone else publishes next, and alone.
        while self._thread.is_alive() and not self._stop.fenced:
            self._thread.join(LOOK_SECONDS)

    def _run(self) -> None:
        with suppress(OSError):  # threads have priorities of their own on Linux alone
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)
        due = time.monotonic() + self._every
        while not self._ended.wait(LOOK_SECONDS) and not self._stop.fenced:
            if self._requests.look() or time.monotonic() >= due:
                due = self._take()

    def _take(self) -> float:
        """Take a snapshot; returns when the next one is due."""
        asked = self._requests.asked
        began = time.monotonic()
        try:
            # A request's own step is fresher than what the metrics file told half a second ago.
            step = asked.step if self._requests.waiting and asked.step is not None else self._step()
            self._publisher.publish(step=step, nice=True, stop=self._ended.is_set)
        except PublishInterrupted:
            return began
        except Stale:
            self._stop.request(FENCED)
            return began
        except Exception as error:  # whatever it is, the script goes on training
            if not isinstance(error, PublishFailed):
                logger.exception("A snapshot failed.")
            self._requests.answer(asked, stored=False)
            return time.monotonic() + min(self._every, RETRY_SECONDS)
        finally:
            connection.close()
        self._requests.answer(asked, stored=True)
        return began + self._every
