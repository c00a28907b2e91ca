"""The execution process: takes one execution over and brings it to its end.

Forked by the worker for each execution. It reads top to bottom: take over, prepare, restore, train, publish, report.
Whatever happens to this process, the script dies with it, and its worker reports what it could not.
"""

import logging
import signal
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from django.conf import settings
from django.db import DatabaseError, InterfaceError, connection

from jobs.commands import executions, orders
from jobs.commands.executions import Failure
from jobs.commands.orders import Order
from jobs.errors import Stale
from jobs.states import Phase, Reason
from jobs.storage.manifests import Manifest
from jobs.storage.objects import StorageFailed
from jobs.storage.restore import CheckpointRejected
from workers import checkpoints, datasets, environment, training, workspace
from workers.checkpointer import Published, PublishFailed, PublishInterrupted
from workers.heartbeat import Heartbeat
from workers.process import Exit, Script, SpawnError
from workers.requests import Requests
from workers.shipper import Shipper
from workers.snapshots import Publisher, Snapshots
from workers.stopping import Stop
from workers.training import Ended, Prepared
from workers.workspace import Workspace

logger = logging.getLogger(__name__)

RETRY_SECONDS = 1.0
NO_SPACE = 28  # errno.ENOSPC


def run(execution_id: int) -> None:
    """Run an execution if it still waits to be started; what RQ delivers twice is run once."""
    Script.warm_up()
    order = orders.read(execution_id, uuid.uuid4())
    if order is None:
        logger.info("Execution %s does not wait to be started any more.", execution_id)
        return
    stop = Stop()
    _listen(stop)
    try:
        executions.start(order.lease)
    except Stale:
        logger.info("Execution %s was taken back before it started.", order.lease.label)
        return
    with Heartbeat(order.lease, stop) as heartbeat:
        report = _Attempt(order, stop, heartbeat).outcome()
        _hand_in(report, stop)


def _listen(stop: Stop) -> None:
    """SIGTERM is the worker's word that it is being shut down."""
    signal.signal(signal.SIGTERM, lambda *_: stop.request(Reason.DRAINED))


Report = Callable[[], None]
"""The one command that tells how the attempt ended."""


class _Attempt:
    """One attempt, from preparation to the report of its outcome."""

    def __init__(self, order: Order, stop: Stop, heartbeat: Heartbeat) -> None:
        self._order = order
        self._lease = order.lease
        self._stop = stop
        self._heartbeat = heartbeat
        self._held = ExitStack()
        """What this attempt keeps others from removing."""

    def outcome(self) -> Report:
        """Run the attempt; returns how it is to be reported."""
        try:
            space = workspace.create(self._lease.label, self._order.script)
        except OSError as error:
            return self._failed(_setup_failure(error))
        try:
            with (
                Shipper(self._lease, self._stop, space.log, space.metrics) as shipper,
                Requests(space.requests, space.answers) as requests,
            ):
                return self._outcome_in(space, shipper, requests)
        except OSError as error:
            return self._failed(_setup_failure(error))
        finally:
            self._held.close()
            space.remove()

    def _outcome_in(self, space: Workspace, shipper: Shipper, requests: Requests) -> Report:
        try:
            dataset = self._download()
            restored = self._restore(space)
            prepared = training.prepare(self._order, space, resumed=restored is not None, dataset=dataset)
            if (failure := self._make_environment(prepared, space)) is not None:
                shipper.flush(give_up=self._hurried)
                return self._ended_early(failure)
            publisher = self._publisher(space, restored)
            with self._snapshots(publisher, requests, shipper):
                ended = training.run(
                    prepared.plan.run,
                    prepared,
                    space.log,
                    self._stop,
                    started=lambda: self._persist(lambda: self._enter(Phase.TRAINING)),
                    each_tick=self._watch(),
                )
        except (SpawnError, environment.RefusedVariable) as error:
            return self._ended_early(Failure(reason=Reason.SETUP_FAILED, message=str(error)))
        except datasets.DatasetFailed as error:
            return self._ended_early(Failure(reason=error.reason, message=str(error)))
        except InterruptedError:
            return self._stopped(None)
        except CheckpointRejected as error:
            return self._ended_early(Failure(reason=Reason.CHECKPOINT_CORRUPT, message=str(error)))
        except StorageFailed as error:
            return self._ended_early(Failure(reason=Reason.PUBLISH_FAILED, message=f"Nothing was restored: {error}"))
        except Stale:
            return self._nothing
        shipper.flush(give_up=self._hurried)
        return self._published(publisher, ended, shipper.step)

    # --- the stations -------------------------------------------------------------------------------------------

    def _download(self) -> Path | None:
        """Have the job's dataset here, and keep it here until the attempt ends."""
        if self._order.dataset is None:
            return None
        self._enter(Phase.DOWNLOADING)
        return self._held.enter_context(datasets.ready(self._order.dataset, lambda: self._stop.reason is not None))

    def _restore(self, space: Workspace) -> Manifest | None:
        """Put what an earlier attempt saved into output/."""
        if self._order.resume_from is None:
            return None
        self._enter(Phase.RESTORING)
        return checkpoints.until(
            lambda: checkpoints.resume(self._order, space.output, uid=None, stop=self._is_stopped),
            seconds=settings.RERAIL.timing.publish,
            gone=self._is_stopped,
        )

    def _make_environment(self, prepared: Prepared, space: Workspace) -> Failure | None:
        """Have the script's packages installed, where it asks for any; its output is shown only if that fails."""
        if prepared.plan.prepare is None:
            return None
        ended = training.run(
            prepared.plan.prepare, prepared, space.setup_log, self._stop, each_tick=self._heartbeat.ensure
        )
        if ended.exit.code == 0 and not ended.stopped:
            return None
        output = space.setup_log.read_bytes()
        with space.log.open("ab") as log:
            log.write(output)
        said = environment.setup_failure(output.decode("utf-8", "replace"))
        return Failure(
            reason=Reason.SETUP_FAILED,
            message=f"Its dependencies could not be installed: {said}",
            details={"resolver": said},
        )

    def _publisher(self, space: Workspace, restored: Manifest | None) -> Publisher:
        return Publisher(self._lease, space.output, attempt=self._order.attempt, restored=restored, stop=self._stop)

    def _snapshots(self, publisher: Publisher, requests: Requests, shipper: Shipper) -> Snapshots:
        every = self._order.checkpoint_seconds
        return Snapshots(publisher, self._stop, requests, every=every, step=lambda: shipper.step)

    def _published(self, publisher: Publisher, ended: Ended, step: int | None) -> Report:
        """Publish output/ and say how the script ended; where publishing fails for good, that is how it ended."""
        if self._stop.fenced:
            return self._nothing
        final = ended.exit.code == 0 and not ended.stopped

        def attempt() -> Published | None:
            return publisher.publish(step=step, final=final)

        try:
            self._persist(lambda: self._enter(Phase.PUBLISHING))
            seconds = settings.RERAIL.timing.publish
            checkpoints.until(attempt, seconds=seconds, gone=lambda: self._stop.fenced)
        except (Stale, PublishInterrupted):
            return self._nothing
        except PublishFailed as error:
            if not ended.stopped:
                reason = Reason.DISK_FULL if error.disk_full else Reason.PUBLISH_FAILED
                return self._failed(Failure(reason=reason, message=str(error)))
        return self._verdict(ended)

    def _verdict(self, ended: Ended) -> Report:
        if self._stop.fenced:
            return self._nothing
        # A script that ended by itself has ended so, whatever was asked of it a moment later.
        if not ended.stopped:
            return self._succeeded if ended.exit.code == 0 else self._failed(_script_failure(ended.exit))
        return self._stopped(ended.exit)

    # --- the reports --------------------------------------------------------------------------------------------

    def _nothing(self) -> None:
        logger.warning("Execution %s was taken away; its outcome is not reported.", self._lease.label)

    def _succeeded(self) -> None:
        executions.succeed(self._lease)

    def _failed(self, failure: Failure) -> Report:
        return lambda: executions.fail(self._lease, failure)

    def _ended_early(self, failure: Failure) -> Report:
        """The attempt ended before its script ran: because of a stop, or by `failure`."""
        return self._failed(failure) if self._stop.reason is None else self._stopped(None)

    def _stopped(self, end: Exit | None) -> Report:
        reason = self._stop.reason
        if self._stop.fenced:
            return self._nothing
        code, by_signal = (end.code, end.signal) if end else (None, None)
        if reason is Reason.CANCELLED:
            return lambda: executions.stop(self._lease, exit_code=code, signal=by_signal)
        if reason is Reason.DRAINED:
            return lambda: executions.release(self._lease)
        assert isinstance(reason, Reason)
        message = _LIMIT_SENTENCES.get(reason, f"Stopped: {reason.value}.")
        return self._failed(Failure(reason=reason, message=message, exit_code=code, signal=by_signal))

    # --- helpers ------------------------------------------------------------------------------------------------

    def _enter(self, phase: Phase) -> None:
        executions.change_phase(self._lease, phase)

    def _persist(self, write: Callable[[], None]) -> None:
        _persistently(write, lambda: self._stop.fenced)

    def _is_stopped(self) -> bool:
        return self._stop.reason is not None

    def _hurried(self) -> bool:
        """Whether nobody waits for a database that is away: the worker is being shut down."""
        return self._stop.reason is Reason.DRAINED

    def _watch(self) -> Callable[[], None]:
        """What is looked after while a script runs: the heartbeat thread, and the time limit."""
        limit = self._order.time_limit_seconds
        deadline = None if limit is None else time.monotonic() + limit

        def watch() -> None:
            self._heartbeat.ensure()
            if deadline is not None and time.monotonic() > deadline and self._stop.reason is None:
                self._persist(lambda: executions.time_limit_reached(self._lease, limit or 0))
                self._stop.request(Reason.TIME_LIMIT)

        return watch


_LIMIT_SENTENCES = {
    Reason.TIME_LIMIT: "It was stopped at its time limit.",
    Reason.STALLED: "It was stopped because it made no progress.",
    Reason.OUT_OF_MEMORY: "It was stopped because it used more memory than it asked for.",
}


def _script_failure(end: Exit) -> Failure:
    if end.signal is not None:
        name = _signal_name(end.signal)
        return Failure(reason=Reason.KILLED_BY_SIGNAL, message=f"The script was killed by {name}.", signal=end.signal)
    return Failure(reason=Reason.SCRIPT_ERROR, message=f"The script exited with code {end.code}.", exit_code=end.code)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _setup_failure(error: OSError) -> Failure:
    if error.errno == NO_SPACE:
        return Failure(reason=Reason.DISK_FULL, message="The worker's disk is full.")
    what = error.strerror or str(error)
    return Failure(reason=Reason.SETUP_FAILED, message=f"The worker could not set the script up: {what}.")


def _hand_in(report: Report, stop: Stop) -> None:
    """Report the outcome; while the database is away, keep trying until it is back or the lease is another's."""
    try:
        _persistently(report, lambda: stop.fenced)
    except Stale as error:
        logger.warning("%s", error)


def _persistently(write: Callable[[], None], give_up: Callable[[], bool]) -> None:
    while True:
        try:
            write()
            return
        except (DatabaseError, InterfaceError) as error:
            logger.warning("The database is away: %s", str(error).strip())
            connection.close()
            if give_up():
                return
            threading.Event().wait(RETRY_SECONDS)
