"""Doing something in a process of its own: to be killed on the way, or to have its memory measured."""

import os
import re
import signal
import traceback
from collections.abc import Callable
from pathlib import Path

from django.db import connections


def fork(work: Callable[[], object]) -> int:
    """Start `work` in a child, with a database connection of its own; returns its pid."""
    connections.close_all()
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        work()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def wait(pid: int) -> int:
    """The child's exit code, or the negative number of the signal that ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def die_after(count: int) -> None:
    """Kill this process once it has written that many bytes to files, in the middle of a write if need be."""
    write, left = os.write, count

    def mortal(fd: int, content: bytes) -> int:
        nonlocal left
        if len(content) < left:
            left -= len(content)
            return write(fd, content)
        write(fd, bytes(content)[:left])
        os.kill(os.getpid(), signal.SIGKILL)
        return 0

    os.write = mortal  # type: ignore[assignment]


def growth(work: Callable[[], object]) -> int:
    """Peak growth of a process's resident memory by `work`, in bytes."""
    reading, writing = os.pipe()

    def measured() -> None:
        Path("/proc/self/clear_refs").write_text("5")
        before = _status("VmRSS")
        work()
        os.write(writing, str(_status("VmHWM") - before).encode())

    pid = fork(measured)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        told = pipe.read()
    assert wait(pid) == 0
    return int(told)


def _status(name: str) -> int:
    found = re.search(rf"{name}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) * 1024
