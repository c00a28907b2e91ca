"""Becomes one part of the stack: `python -IS part.py SPEC`, where SPEC is a file that `stack.programs` wrote.

It records which process the part is, gives it a log of its own, ties its life to its parent's, gives up root where the
part asks for it, and then executes the part's program. Standard library only, so that this costs some 20 ms.

The log is a file, not a pipe to the supervisor: a part (or an execution process that outlives its worker) must be able
to go on writing when whoever started it is gone.
"""

import ctypes
import json
import os
import pwd
import signal
import sys
from typing import Any

HELD = 9
HELD_FOLDER = f"/proc/self/fd/{HELD}"
"""How a part names the folder that it holds open: a server without root's rights gets into its own folder this way
even where it may not pass through the folders above, such as a home of mode 0700."""

PR_SET_PDEATHSIG = 1


def become(spec: dict[str, Any]) -> None:
    """Turn this process into the part; returns only by an exception."""
    log_to(spec["log"])
    record(spec["record"])
    parent = pid_of_parent(spec["parent"])
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    if spec["hold"]:
        os.dup2(os.open(spec["hold"], os.O_RDONLY | os.O_DIRECTORY), HELD, inheritable=True)
    if spec["user"]:
        drop_root(spec["user"])
    os.chdir(spec["directory"])
    # After the change of user, which would clear it.
    die_with_parent(parent, spec["death_signal"])
    command = spec["command"]
    os.execve(command[0], command, {**os.environ, **spec["environment"]})  # noqa: S606


def log_to(path: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.close(descriptor)


def record(path: str) -> None:
    """Say which process this is, in a way that a later process of the same number can't be mistaken for it."""
    draft = f"{path}.new"
    with open(draft, "w") as file:
        json.dump({"pid": os.getpid(), "started": started(os.getpid())}, file)
    os.replace(draft, path)  # noqa: PTH105 (pathlib would double the cost of this process)


def started(pid: int) -> str | None:
    """When process `pid` started, by the kernel's own count; null if there is no such process, or only a zombie."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
        with open("/proc/sys/kernel/random/boot_id") as file:
            boot = file.read().strip()
    except OSError:
        return None
    return None if fields[0] in "ZX" else f"{boot}/{fields[19]}"


def pid_of_parent(parent: int | str) -> int:
    """Whose end ends this part: told by number, or by the record that the parent itself left."""
    if isinstance(parent, int):
        return parent
    with open(parent) as file:
        return int(json.load(file)["pid"])


def drop_root(name: str) -> None:
    entry = pwd.getpwnam(name)
    os.setgroups([])
    os.setgid(entry.pw_gid)
    os.setuid(entry.pw_uid)


def die_with_parent(parent: int, number: int) -> None:
    """Have the kernel send signal `number` when the parent ends; SystemExit if it has ended by now.

    Another process may be our parent already: that is why the caller must know the right one by other means.
    """
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:
        sys.exit("The supervisor is gone.")


if __name__ == "__main__":
    with open(sys.argv[1]) as file:
        become(json.load(file))
