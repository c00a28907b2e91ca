"""The thread that keeps an execution's lease, with a database connection of its own."""

import logging
import threading
import time

from django.conf import settings
from django.db import DatabaseError, InterfaceError, connection

from jobs.commands import executions
from jobs.commands.executions import Lease
from jobs.errors import Stale
from workers.stopping import FENCED, Stop

logger = logging.getLogger(__name__)


class Heartbeat:
    """Beats until stopped; tells `stop` what it learns. Beats that a pause swallowed are not made up for."""

    def __init__(self, lease: Lease, stop: Stop) -> None:
        self._lease = lease
        self._stop = stop
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> "Heartbeat":
        self.ensure()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join(timeout=settings.RERAIL.timing.heartbeat)

    def ensure(self) -> None:
        """Start the thread, or start it again if it died."""
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        interval = settings.RERAIL.timing.heartbeat
        while not self._ended.wait(interval):
            started = time.monotonic()
            self._beat()
            if (took := time.monotonic() - started) > interval:
                logger.warning("A heartbeat of %s took %.1f s.", self._lease.label, took)
        connection.close()

    def _beat(self) -> None:
        try:
            if connection.connection is None:
                # A beat lost in a crash of the server is renewed in a moment; it need not wait for the disk.
                with connection.cursor() as cursor:
                    cursor.execute("SET synchronous_commit = off")
            if reason := executions.beat(self._lease):
                self._stop.request(reason)
        except Stale:
            logger.warning("Execution %s belongs to another process now; its script is stopped.", self._lease.label)
            self._stop.request(FENCED)
            self._ended.set()
        except (DatabaseError, InterfaceError) as error:
            logger.warning("A heartbeat of %s did not get through: %s", self._lease.label, str(error).strip())
            connection.close()
