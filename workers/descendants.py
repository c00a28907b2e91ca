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


def reaped(options: int = os.WNOHANG) -> Iterator[tuple[int, int]]:
    """Each child that has ended, reaped; returns when none is left that has."""
    while True:
        try:
            pid, status = os.waitpid(-1, options)
        except ChildProcessError:
            return
        if pid == 0:
            return
        yield pid, status


def kill_descendants(script: int | None) -> None:
    """Kill and reap every descendant. Orphans come to us, so none is left when we have no child any more."""
    if not os.path.isdir("/proc/self"):
        kill_group(script)
        return
    while has_children():
        freeze_descendants()
        for pid in descendants():
            send(pid, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def kill_group(script: int | None) -> None:
    """All that can be done without /proc: the script's process group."""
    if script is not None:
        with contextlib.suppress(OSError):
            os.killpg(script, signal.SIGKILL)


def freeze_descendants() -> None:
    """Stop them all before killing one, or a script that keeps forking stays ahead of us."""
    seen: set[int] = set()
    while fresh := set(descendants()) - seen:
        for pid in fresh:
            send(pid, signal.SIGSTOP)
        seen |= fresh


def has_children() -> bool:
    for _ in reaped():
        pass
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def descendants() -> list[int]:
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit() and (parent := parent_of(entry)) is not None:
            children.setdefault(parent, []).append(int(entry))
    found, todo = [], [os.getpid()]
    while todo:
        new = children.get(todo.pop(), [])
        found += new
        todo += new
    return found


def parent_of(pid: str) -> int | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[1])
    except (OSError, IndexError):
        return None


def send(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
