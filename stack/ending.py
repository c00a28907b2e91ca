"""Ending what must not be left running."""

import contextlib
import signal

import psutil

from stack import postgres, processes, valkey
from stack.places import Places
from stack.processes import Recorded, recorded
from stack.waiting import Waiting

SERVERS = (postgres.NAME, valkey.NAME)
SERVER_SECONDS = 60
ORPHAN_SECONDS = 10


def leftovers(places: Places) -> list[Recorded]:
    """The parts that a killed supervisor left; the kernel has told them to end."""
    return [found for path in sorted(places.run.glob("*.pid")) if (found := recorded(path))]


def end_leftovers(places: Places, waiting: Waiting, patience: float) -> None:
    """Wait until they have ended, workers for `patience` seconds, and then the servers; kill those that take longer."""
    _see_off([part for part in leftovers(places) if part.name not in SERVERS], waiting, patience)
    _see_off([part for part in leftovers(places) if part.name in SERVERS], waiting, SERVER_SECONDS)


def _see_off(parts: list[Recorded], waiting: Waiting, patience: float) -> None:
    if not waiting.until(lambda: not any(part.alive for part in parts), seconds=patience):
        for part in parts:
            part.send(signal.SIGKILL)
        waiting.until(lambda: not any(part.alive for part in parts), seconds=SERVER_SECONDS)


def end_orphans(waiting: Waiting, patience: float, *, except_pid: int | None) -> None:
    """End the processes whose parents are gone; executions of killed workers get `patience` seconds."""
    for orphan in processes.adopted(except_pid=except_pid):
        with contextlib.suppress(psutil.NoSuchProcess):
            orphan.terminate()

    def ended() -> bool:
        processes.bury(except_pid=except_pid)
        return not processes.adopted(except_pid=except_pid)

    if waiting.until(ended, seconds=ORPHAN_SECONDS, step=0.1):
        return
    if any(map(_is_execution, processes.adopted(except_pid=except_pid))):
        waiting.until(ended, seconds=patience, step=0.5)
    for orphan in processes.adopted(except_pid=except_pid):
        _kill_tree(orphan)
    waiting.until(ended, seconds=ORPHAN_SECONDS, step=0.1)


def _is_execution(process: psutil.Process) -> bool:
    try:
        return "run_worker" in process.cmdline()
    except psutil.Error:
        return False


def _kill_tree(process: psutil.Process) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        for doomed in (process, *process.children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess):
                doomed.kill()
