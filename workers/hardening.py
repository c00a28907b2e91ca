"""What a service process does to itself so that scripts and accidents can't reach it."""

import os
import signal

from workers.kernel import LINUX, PR_SET_DUMPABLE, PR_SET_PDEATHSIG, prctl


def make_undumpable() -> None:
    """Keep this process's memory, environment and core dumps from others of its uid. Does nothing off Linux.

    A program that is executed later starts dumpable again; a forked child inherits it.
    """
    prctl(PR_SET_DUMPABLE, 0)


def die_with_parent(number: signal.Signals, parent: int | None = None) -> None:
    """Have `number` sent to this process when the *thread* that forked it ends. Does nothing off Linux.

    `parent` is the pid of that parent, taken before the fork: if it has died already, the signal comes at once.
    Lost on setuid and on exec of a set-id program, so call it after those.
    """
    prctl(PR_SET_PDEATHSIG, number)
    if LINUX and parent is not None and os.getppid() != parent:
        os.kill(os.getpid(), number)
