"""The thread that carries a script's output and metrics into the database while it runs."""

import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path

from django.db import DatabaseError, InterfaceError, connection

from jobs.commands import logs, metrics
from jobs.commands.executions import Lease
from jobs.errors import Stale
from workers.metrics import LONGEST_LINE, Reader
from workers.stopping import FENCED, Stop

logger = logging.getLogger(__name__)

INTERVAL = 0.5
CHUNK = 256 * 1024
RETRY_INTERVAL = 1.0


class _Tail:
    """Reads what is appended to a file, through one descriptor: what a script puts in its place is never opened."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        self._position = 0

    def read(self) -> bytes:
        if os.fstat(self._fd).st_size < self._position:
            self._position = 0  # emptied and begun anew
        data = os.pread(self._fd, CHUNK, self._position)
        self._position += len(data)
        return data

    def close(self) -> None:
        os.close(self._fd)


class Shipper:
    """Ships until stopped; `flush` ships the rest. Without a database it keeps what it has read and tries again."""

    def __init__(self, lease: Lease, stop: Stop, log: Path, metrics_file: Path) -> None:
        self._lease = lease
        self._stop = stop
        self._log = _Tail(log)
        self._metrics = _Tail(metrics_file)
        self._unsent_log = b""
        self._log_offset = 0
        self._unsent_metrics = b""
        self._metrics_offset = 0
        self._reader = Reader()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="shipper", daemon=True)

    def __enter__(self) -> "Shipper":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._halt()
        self._log.close()
        self._metrics.close()

    @property
    def step(self) -> int | None:
        """The latest step that the script reported."""
        return self._reader.step

    def flush(self, *, give_up: Callable[[], bool]) -> bool:
        """Stop the thread and ship the rest from this one, until done or `give_up` says so; returns whether it is done.

        To be called when nothing writes to the files any more.
        """
        self._halt()
        while not self._stop.fenced:
            try:
                self._ship_all(rest=True)
                return True
            except (DatabaseError, InterfaceError) as error:
                logger.warning("Output of %s is not shipped yet: %s", self._lease.label, str(error).strip())
                connection.close()
            if give_up():
                return False
            threading.Event().wait(RETRY_INTERVAL)
        return False

    def _halt(self) -> None:
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(INTERVAL):
            try:
                self._ship_all(rest=False)
            except (DatabaseError, InterfaceError) as error:
                logger.warning("Output of %s waits for the database: %s", self._lease.label, str(error).strip())
                connection.close()
                self._ended.wait(RETRY_INTERVAL)
        connection.close()

    def _ship_all(self, *, rest: bool) -> None:
        try:
            while self._ship_log():
                pass
            while self._ship_metrics(rest=rest):
                pass
        except Stale:
            self._stop.request(FENCED)
            self._ended.set()

    def _ship_log(self) -> bool:
        self._unsent_log = self._unsent_log or self._log.read()
        if not self._unsent_log:
            return False
        stored = logs.append(self._lease, self._log_offset, self._unsent_log)
        # After a lost answer the database may be ahead of us by what it stored.
        self._unsent_log = self._unsent_log[stored - self._log_offset :]
        self._log_offset = stored
        return True

    def _ship_metrics(self, *, rest: bool) -> bool:
        fresh = self._metrics.read()
        self._unsent_metrics += fresh
        end = self._unsent_metrics.rfind(b"\n") + 1
        if (rest and not fresh) or (len(self._unsent_metrics) > LONGEST_LINE and not end):
            end = len(self._unsent_metrics)
        if not end:
            return bool(fresh)
        report = self._reader.read(self._unsent_metrics[:end].splitlines())
        stored = metrics.append(
            self._lease, self._metrics_offset, self._metrics_offset + end, report.points, report.progress
        )
        self._unsent_metrics = self._unsent_metrics[stored - self._metrics_offset :]
        self._metrics_offset = stored
        return True
