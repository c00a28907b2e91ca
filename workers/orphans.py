"""What an execution process leaves behind when it dies becomes the worker's child, to be awaited or ended."""

import contextlib
import os
import time

import psutil

from workers.kernel import PR_SET_CHILD_SUBREAPER, prctl

PATIENCE = 2.0
"""Seconds until what is left is killed: its own parent-death signals are quicker."""
INTERVAL = 0.02


def adopt() -> None:
    """Become the parent of every orphan among this process's descendants. Does nothing off Linux."""
    prctl(PR_SET_CHILD_SUBREAPER, 1)


def ended(within: float) -> bool:
    """Wait up to `within` seconds until this process has no children left, killing those that linger."""
    begun = time.monotonic()
    while _reap():
        waited = time.monotonic() - begun
        if waited > within:
            return False
        if waited > PATIENCE:
            _kill_all()
        time.sleep(INTERVAL)
    return True


def _reap() -> bool:
    """Take leave of children that have ended; returns whether any other is left."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def _kill_all() -> None:
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
