"""Processes that are provably ours: found by their record, signalled through a descriptor that can't mean another."""

import contextlib
import ctypes
import json
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from stack.part import PR_SET_PDEATHSIG, started

PR_SET_CHILD_SUBREAPER = 36


@dataclass(frozen=True)
class Recorded:
    """A process that wrote down who it is."""

    name: str
    pid: int
    started: str

    @property
    def alive(self) -> bool:
        return started(self.pid) == self.started

    def send(self, number: signal.Signals) -> None:
        """Signal this very process, or nobody when it is gone."""
        with contextlib.suppress(ProcessLookupError), _descriptor(self.pid) as descriptor:
            # Looked at only now: the descriptor keeps meaning this process, whoever gets the number next.
            if self.alive:
                signal.pidfd_send_signal(descriptor, number)


def recorded(path: Path) -> Recorded | None:
    """The living process that `path` records, if there is one."""
    try:
        content = json.loads(path.read_text())
        found = Recorded(path.stem, int(content["pid"]), str(content["started"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return found if found.alive else None


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends, so that a stop can find them all."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1)


def end_with_parent() -> None:
    """Take the end of this process's parent as a request to stop."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def adopted(*, except_pid: int | None) -> list[psutil.Process]:
    """The living children of this process that it didn't start itself; `except_pid` is the one it did."""
    return [child for child in psutil.Process().children() if child.pid != except_pid and _living(child)]


def bury(*, except_pid: int | None) -> None:
    """Reap the adopted children that ended; somebody else waits for `except_pid`."""
    with contextlib.suppress(ChildProcessError):
        while ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            if ended.si_pid == except_pid:
                return
            os.waitpid(ended.si_pid, 0)


def _living(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    return False


@contextlib.contextmanager
def _descriptor(pid: int) -> Iterator[int]:
    descriptor = os.pidfd_open(pid)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
