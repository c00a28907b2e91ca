"""The RQ worker: receives execution ids, forks an execution process for each, and answers for it when it is gone.

RQ delivers; PostgreSQL decides. What RQ's own worker does to keep its records of a job in Redis is left out, since
nothing here reads them and a Redis that is away must end nothing.
"""

import contextlib
import gc
import logging
import os
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

import psutil
import redis.exceptions
from django.conf import settings
from django.db import DatabaseError, InterfaceError, connection
from rq import Queue, Worker
from rq.exceptions import DequeueTimeout, StopRequested
from rq.intermediate_queue import IntermediateQueue
from rq.job import Job

from jobs.commands import executions, workers
from jobs.commands.workers import Boot, Occupation
from workers import execution, hardening, orphans
from workers.runfile import RunFolder

logger = logging.getLogger(__name__)

RETRY_SECONDS = 1.0


class NameTaken(Exception):
    """Another boot took this worker's name over; this one must end."""


class RerailWorker(Worker):
    """One worker: a name, a queue of its own, at most one execution process."""

    def __init__(self, boot: Boot, folder: RunFolder, queue: Queue) -> None:
        self.boot = boot
        self.folder = folder
        self._waiting = False
        self._delivered: tuple[Job, Queue] | None = None
        super().__init__([queue], name=f"{boot.name}.{boot.nonce.hex[:12]}", connection=queue.connection)

    def _set_ip_address(self, connection: Any) -> None:
        """RQ asks Redis for it and would not start without an answer."""
        self.ip_address = "unknown"

    @property
    def connection_timeout(self) -> int:
        """RQ would have the connection wait longer than this worker may keep silent."""
        return 0

    def work(self, *args: Any, **options: Any) -> bool:
        """Serve the queue until asked to stop; then hand back what was not started."""
        self._install_signal_handlers()  # type: ignore[no-untyped-call]
        orphans.adopt()
        try:
            self._settle_past()
            while not self._stop_requested:
                self._renew(idle=True)
                if (execution_id := self._next()) is not None:
                    self._run(execution_id)
        except StopRequested:
            pass
        finally:
            self._leave()
        return True

    # --- stopping -----------------------------------------------------------------------------------------------

    def request_stop(self, signum: int, frame: FrameType | None) -> None:
        """Take no more work; ask the running execution to save, stop and be handed back."""
        self._stop_requested = True
        if self._horse_pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._horse_pid, signal.SIGTERM)
        elif self._waiting:
            raise StopRequested

    def _leave(self) -> None:
        with contextlib.suppress(DatabaseError, InterfaceError):
            workers.went_offline(self.boot)
            workers.hand_back(self.boot)
        with contextlib.suppress(redis.exceptions.RedisError):
            self.register_death()  # type: ignore[no-untyped-call]

    # --- waiting ------------------------------------------------------------------------------------------------

    def _renew(self, *, idle: bool) -> None:
        """Renew the worker's row; while the database is away, that can wait."""
        try:
            if not workers.renew(self.boot, idle=idle):
                raise NameTaken(f"Another worker took the name {self.boot.name} over.")
        except (DatabaseError, InterfaceError) as error:
            logger.warning("The database is away: %s", str(error).strip())
            connection.close()

    def _next(self) -> int | None:
        """The next execution id, waiting for at most one beat."""
        self._waiting = True
        try:
            if self._stop_requested:
                raise StopRequested
            self._announce()
            # RQ's hint says whole seconds; it hands them to BLMOVE, which takes fractions.
            seconds: Any = settings.RERAIL.timing.heartbeat
            found = Queue.dequeue_any(self.queues, seconds, connection=self.connection)
        except DequeueTimeout:
            return None
        except redis.exceptions.RedisError as error:
            logger.warning("Redis is away: %s", error)
            self.birth_date = None
            threading.Event().wait(RETRY_SECONDS)
            return None
        finally:
            self._waiting = False
        return None if found is None else self._received(*found)

    def _announce(self) -> None:
        """Let RQ's tools see this worker: registered once per connection to Redis, then renewed."""
        if self.birth_date is None:
            self.register_birth()  # type: ignore[no-untyped-call]
        self.heartbeat()

    def _received(self, job: Job, queue: Queue) -> int | None:
        self._delivered = (job, queue)
        execution_id = job.args[0] if len(job.args) == 1 else None
        if isinstance(execution_id, int):
            return execution_id
        self._discard_message()
        return None

    def _discard_message(self) -> None:
        """Remove what was delivered: it has done its duty."""
        if self._delivered is None:
            return
        job, queue = self._delivered
        self._delivered = None
        with contextlib.suppress(redis.exceptions.RedisError):
            IntermediateQueue(queue.key, self.connection).remove(job.id)
            job.delete()

    # --- running ------------------------------------------------------------------------------------------------

    def _run(self, execution_id: int) -> None:
        pid = self._fork(execution_id)
        self._horse_pid = pid
        if self._stop_requested:  # the signal came between the fork and the line above
            os.kill(pid, signal.SIGTERM)
        self._discard_message()
        how = self._watch(psutil.Process(pid))
        self._horse_pid = 0
        self._end_tree()
        self._answer_for(execution_id, how)

    def _fork(self, execution_id: int) -> int:
        connection.close()  # a connection must not be shared with the child
        gc.freeze()
        pid = os.fork()
        if pid:
            return pid
        try:
            self._become_execution(execution_id)
        except BaseException:
            logger.exception("The execution process of %s failed.", execution_id)
            os._exit(1)
        os._exit(0)

    def _become_execution(self, execution_id: int) -> None:
        os.setpgrp()  # a terminal's Ctrl-C is for the worker, which passes it on
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        self.folder.let_go_in_child()
        self.folder.write(execution_id, os.getpid())
        hardening.make_undumpable()
        execution.run(execution_id)

    def _watch(self, process: psutil.Process) -> int | None:
        """Wait for an execution process and keep the worker's row meanwhile; returns its exit code, where known."""
        while True:
            try:
                code = process.wait(timeout=settings.RERAIL.timing.heartbeat)
                return None if code is None else int(code)
            except psutil.TimeoutExpired:
                self._renew(idle=False)
                with contextlib.suppress(redis.exceptions.RedisError):
                    self._announce()

    def _end_tree(self) -> None:
        """Return when nothing that the execution process started is left: until then the worker is not free."""
        while not orphans.ended(within=settings.RERAIL.timing.heartbeat):
            logger.warning("Worker %s waits for the end of what its execution left running.", self.boot.name)
            self._renew(idle=False)

    def _answer_for(self, execution_id: int, code: int | None) -> None:
        """Report an execution whose process is gone without a word, and that this worker is free."""
        how = "is gone" if code is None else f"was killed by signal {-code}" if code < 0 else f"exited with code {code}"
        message = f"The execution process on worker {self.boot.name} {how} without reporting an outcome."

        def answer() -> None:
            executions.crashed(execution_id, self.boot.name, message)
            if self._stop_requested:  # or it would be given the next job in its last moments
                workers.went_offline(self.boot)
            workers.freed(self.boot, execution_id)

        self._insist(answer)
        self.folder.clear()

    def _insist(self, write: Callable[[], None]) -> None:
        """Write although the database may be away, for as long as this worker is to live."""
        while True:
            try:
                write()
                return
            except (DatabaseError, InterfaceError) as error:
                logger.warning("The database is away: %s", str(error).strip())
                connection.close()
                if self._stop_requested:
                    return
                threading.Event().wait(RETRY_SECONDS)

    # --- the past -----------------------------------------------------------------------------------------------

    def _settle_past(self) -> None:
        """Enter the worker, and settle what an earlier start of this name left: running, unstarted, or gone."""
        left = self.folder.read()
        process = left.process() if left else None
        adopted = left.execution_id if left and process else None
        occupied: list[Occupation | None] = []
        self._insist(lambda: occupied.append(workers.register(self.boot, still_running=adopted)))
        if process is not None and adopted is not None:
            self._adopt(process, adopted)
        elif occupied and (occupation := occupied[0]) is not None:
            self._settle(occupation)

    def _adopt(self, process: psutil.Process, execution_id: int) -> None:
        logger.info("Worker %s waits for execution %s of its earlier start.", self.boot.name, execution_id)
        self._horse_pid = process.pid
        how = self._watch(process)
        self._horse_pid = 0
        self._answer_for(execution_id, how)

    def _settle(self, occupation: Occupation) -> None:
        if occupation.unstarted:
            self._run(occupation.execution_id)
        else:
            self._answer_for(occupation.execution_id, None)
