"""Killing all that descends from this process, where no PID namespace does it.

The process must adopt orphans (PR_SET_CHILD_SUBREAPER): whoever leaves session and parent then ends up as our child.
"""

from __future__ import annotations

import contextlib
import os
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


def reaped() -> Iterator[tuple[int, int]]:
    """Each child that has ended, reaped; returns when none is left that has."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        yield pid, status


def kill_descendants(script: int | None) -> None:
    """Kill and reap every descendant; `script` is the pid whose process group goes where there is no /proc.

    Only ever our own children, as fast as we can: what they leave behind becomes our children next. When none is left
    nothing is. Looking through all of /proc for the whole tree takes longer than a script that keeps forking needs.
    """
    if not os.path.isdir("/proc/self"):
        kill_group(script)
        return
    hurry()
    while True:
        for pid in children():
            send(pid, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return
        for _ in reaped():
            pass


def kill_group(script: int | None) -> None:
    if script is not None:
        with contextlib.suppress(OSError):
            os.killpg(script, signal.SIGKILL)


def hurry() -> None:
    """Come before all that we are about to kill, where we may: there can be many of them."""
    with contextlib.suppress(OSError, AttributeError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))


def children() -> list[int]:
    me = os.getpid()
    try:
        with open(f"/proc/self/task/{me}/children", "rb") as file:
            return [int(pid) for pid in file.read().split()]
    except FileNotFoundError:  # a kernel without CONFIG_PROC_CHILDREN
        return [int(entry) for entry in os.listdir("/proc") if entry.isdigit() and parent_of(entry) == me]


def parent_of(pid: str) -> int | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[1])
    except (OSError, IndexError):
        return None


def send(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
