"""The program between an execution process and its training script.

    execution process ── launcher ── init ── script

`process.LAUNCHER` runs `main` by ``python -I -S -B -c … FOLDER FD``. FD is a stream socket: a byte comes in with the
descriptors of the script's outputs, then one line of JSON (see `process.launch_order`); lines of JSON go out:
``{"pid": n}`` from the script's process just before it execs, ``{"running": true}`` or ``{"error": "…"}``, and at the
very end ``{"status": n}`` with the wait status of the script's process, once no descendant of it is left. A byte on the
socket, its end of file, or the death of the execution process means: kill everything now.

*Init* is process 1 of a PID namespace, whose death makes the kernel kill whatever is left in there. Where namespaces
are refused it is an ordinary process that adopts orphans and kills them itself; should it be killed, the launcher,
which adopts too, does that.

Standard library only, and few modules of it: their import is most of what a start costs (`typing` alone 4 ms).
"""

from __future__ import annotations

import _socket
import contextlib
import json
import os
import resource
import select
import signal
import sys

from workers.descendants import kill_descendants, reaped, send
from workers.kernel import (
    PR_SET_CHILD_SUBREAPER,
    PR_SET_DUMPABLE,
    PR_SET_NO_NEW_PRIVS,
    PR_SET_PDEATHSIG,
    LaunchError,
    prctl,
)
from workers.mounts import arrange_mounts, unshare

INT_BYTES = 4

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

    Spec = dict[str, Any]


def say(control: int, **message: object) -> None:
    with contextlib.suppress(OSError):  # the execution process is gone; its end is noticed where we wait
        os.write(control, json.dumps(message).encode() + b"\n")


# --- the script's process --------------------------------------------------------------------------------------------


def become_script(spec: Spec, control: int, trouble: int) -> NoReturn:
    """Turn this process into the script; a failure goes to `trouble`, which closes by itself when exec succeeds."""
    try:
        os.setsid()
        say(control, pid=os.getpid())
        reset_signals()
        give_up_privileges(spec)
        enter(spec["cwd"])
        execute(spec["argv"], spec["env"])
    except LaunchError as error:
        os.write(trouble, str(error).encode("utf-8", "replace"))
    except Exception as error:
        os.write(trouble, f"cannot start the script: {error!r}".encode())
    os._exit(127)


def reset_signals() -> None:
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        if signal.getsignal(number) is not None:
            signal.signal(number, signal.SIG_DFL)
    signal.set_wakeup_fd(-1)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def give_up_privileges(spec: Spec) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.umask(0o022)
    uid = spec["uid"]
    if uid is not None:
        try:
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
        except OSError as error:
            raise LaunchError(f"cannot become uid {uid}: {error.strerror}") from None
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    # After setuid, which clears it. Should init be dead already, its namespace is too, or the launcher has adopted us
    # and kills what it adopts.
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def enter(folder: str) -> None:
    try:
        os.chdir(folder)
    except OSError as error:
        raise LaunchError(f"cannot enter the folder {folder}: {error.strerror}") from None


def execute(argv: list[str], environment: dict[str, str]) -> NoReturn:
    try:
        os.execvpe(argv[0], argv, environment)  # noqa: S606
    except OSError as error:
        raise LaunchError(f"cannot run {argv[0]}: {error.strerror}") from None


# --- the processes around it -----------------------------------------------------------------------------------------


def run_init(spec: Spec, control: int, leash: int, report: int) -> NoReturn:
    """Start the script, reap until it ends or the launcher dies, report the script's wait status, leave nothing."""
    in_namespace = spec["level"] == "namespace"
    if in_namespace:
        # The parent is outside this PID namespace: getppid() is 0 anyway, and the leash tells of a parent long dead.
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        arrange_mounts(spec)
    else:
        prctl(PR_SET_CHILD_SUBREAPER, 1)
    wake, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    script = start_script(spec, control)
    status = reap_until_end(script, wake, leash)
    if status is not None:
        os.write(report, str(status).encode())
    if not in_namespace:
        kill_descendants(script)
    os._exit(0)


def start_script(spec: Spec, control: int) -> int:
    trouble, trouble_write = os.pipe()
    script = os.fork()
    if script == 0:
        become_script(spec, control, trouble_write)
    os.close(trouble_write)
    message = read_all(trouble)
    if message:
        raise LaunchError(message.decode("utf-8", "replace"))
    say(control, running=True)
    return script


def read_all(descriptor: int) -> bytes:
    parts = []
    while part := os.read(descriptor, 65536):
        parts.append(part)
    os.close(descriptor)
    return b"".join(parts)


def reap_until_end(script: int, wake: int, leash: int) -> int | None:
    """Wait status of the script's process, or None when the launcher let go of the leash first."""
    poll = select.poll()
    poll.register(wake, select.POLLIN)
    poll.register(leash, select.POLLIN)
    while True:
        ready = {descriptor for descriptor, _ in poll.poll()}
        if leash in ready:
            return None
        os.read(wake, 4096)
        for pid, status in reaped():
            if pid == script:
                return status


def supervise(spec: Spec, control: int, init: int, leash: int, report: int) -> None:
    """Wait for init's end, or bring it about when the execution process asks or dies; then tell the script's status."""
    in_namespace = spec["level"] == "namespace"
    wait_for_end(control, report, spec["owner"])
    if in_namespace:
        send(init, signal.SIGKILL)
    os.close(leash)
    text = read_all(report)
    os.waitpid(init, 0)  # returns after the kernel has killed and reaped the whole namespace
    if not in_namespace:
        kill_descendants(None)
    say(control, status=int(text) if text else signal.SIGKILL)


def wait_for_end(control: int, report: int, owner: int) -> None:
    poll = select.poll()
    poll.register(control, select.POLLIN)
    poll.register(report, select.POLLIN)
    if hasattr(os, "pidfd_open"):
        # Beside the socket's end: a process forked from the owner may hold a copy of that. PDEATHSIG would not do, as
        # it fires when the *thread* that started us ends.
        with contextlib.suppress(OSError):
            poll.register(os.pidfd_open(owner), select.POLLIN)
    if os.getppid() == owner:
        poll.poll()


def child(spec: Spec, control: int, leash: int, report: int) -> NoReturn:
    code = 1
    try:
        run_init(spec, control, leash, report)
    except LaunchError as error:
        say(control, error=str(error))
    except BaseException as error:
        say(control, error=f"cannot start the script: {error!r}")
    finally:
        os._exit(code)


def guarded(step: Callable[[], None], control: int) -> None:
    try:
        step()
    except LaunchError as error:
        say(control, error=str(error))
        sys.exit(1)


def main() -> None:
    control = int(sys.argv[2])
    os.set_inheritable(control, False)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)  # meant for the script's owner, who will tell us
    take_outputs(control)
    spec: Spec = json.loads(read_line(control))
    if spec["level"] == "namespace":
        guarded(lambda: unshare(spec), control)
    else:
        prctl(PR_SET_CHILD_SUBREAPER, 1)
    prctl(PR_SET_DUMPABLE, 0)
    leash, leash_write = os.pipe()
    report, report_write = os.pipe()
    init = os.fork()
    if init == 0:
        os.close(leash_write)
        child(spec, control, leash, report_write)
    os.close(leash)
    os.close(report_write)
    supervise(spec, control, init, leash_write, report)
    os._exit(0)  # spares the interpreter's tidying up, for which somebody waits


def take_outputs(control: int) -> None:
    """Make the descriptors that come over the socket this process's stdout and stderr, which the script inherits."""
    socket = _socket.socket(fileno=control)
    data, ancillary, _, _ = socket.recvmsg(1, _socket.CMSG_SPACE(2 * INT_BYTES))
    socket.detach()
    if not data:
        sys.exit(1)  # nothing is to be run after all
    outputs = memoryview(ancillary[0][2]).cast("i")
    for descriptor, target in zip(outputs, (1, 2), strict=True):
        os.dup2(descriptor, target)
    for descriptor in outputs:
        os.close(descriptor)


def read_line(descriptor: int) -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        part = os.read(descriptor, 65536)
        if not part:
            sys.exit(1)
        line += part
    return line
