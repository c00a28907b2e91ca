"""The program between an execution process and its training script.

    execution process ── launcher ── init ── script

It runs as ``python -I -S -B launcher.py FD``. FD is a stream socket: one line of JSON comes in (see
`process.launch_order`), lines of JSON go out: ``{"pid": n}`` from the script's process just before it execs,
``{"running": true}`` or ``{"error": "…"}``, and at the very end ``{"status": n}`` with the wait status of the script's
process, once no descendant of it is left. A byte on the socket, its end of file, or the death of the execution process
means: kill everything now.

*Init* is process 1 of a PID namespace, whose death makes the kernel kill whatever is left in there. Where namespaces
are refused it is an ordinary process that adopts orphans and kills them itself; should it be killed, the launcher,
which adopts too, does that.

Standard library only, and few modules of it: their import is most of what a start costs (`typing` alone 4 ms).
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import select
import signal
import stat
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, NoReturn

    Spec = dict[str, Any]

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_REMOUNT, MS_NOATIME, MS_NODIRATIME, MS_BIND, MS_REC = 32, 1024, 2048, 4096, 16384
MS_PRIVATE, MS_RELATIME = 1 << 18, 1 << 21
CLONE_NEWNS, CLONE_NEWIPC, CLONE_NEWUSER, CLONE_NEWPID = 0x00020000, 0x08000000, 0x10000000, 0x20000000
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 4, 36, 38
SCRATCH = ("/tmp", "/var/tmp", "/dev/shm")
KEPT_FLAGS = {"nosuid": MS_NOSUID, "nodev": MS_NODEV, "noexec": MS_NOEXEC, "noatime": MS_NOATIME,
              "nodiratime": MS_NODIRATIME, "relatime": MS_RELATIME}  # fmt: skip
LINUX = sys.platform.startswith("linux")

libc = ctypes.CDLL(None, use_errno=True)


class LaunchError(Exception):
    """One sentence about why the script could not be started."""


def call(what: str, function: str, *args: object) -> None:
    """Call into libc; failure becomes a sentence that begins with `what`."""
    if getattr(libc, function)(*args) != 0:
        raise LaunchError(f"{what}: {os.strerror(ctypes.get_errno())}")


def prctl(option: int, value: int) -> None:
    if LINUX:
        call(f"prctl {option} failed", "prctl", option, value, 0, 0, 0)


def say(control: int, **message: object) -> None:
    with contextlib.suppress(OSError):  # the execution process is gone; its end is noticed where we wait
        os.write(control, json.dumps(message).encode() + b"\n")


# --- what the script sees of the file system -------------------------------------------------------------------------


def mount(what: str, source: str, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    encoded = [None if text is None else os.fsencode(text) for text in (source, target, kind)]
    options = None if data is None else data.encode()
    call(what, "mount", *encoded, ctypes.c_ulong(flags), options)


def unshare(spec: Spec) -> None:
    """Leave the mount, IPC and (for the next child) PID namespaces, by way of a user namespace when not root."""
    uid, gid = os.getuid(), os.getgid()
    flags = CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWPID | (CLONE_NEWUSER if spec["uid"] is None else 0)
    call("namespaces are refused here", "unshare", flags)
    if spec["uid"] is None:
        for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
            write(f"/proc/self/{name}", text)


def write(path: str, text: str) -> None:
    try:
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
    except OSError as error:
        raise LaunchError(f"cannot write {path}: {error.strerror}") from None


def arrange_mounts(spec: Spec) -> None:
    """Give this mount namespace its own /proc and scratch folders, cover what is hidden, bind back what is needed.

    Shallow paths come first, so that a bound folder in a hidden one, or the other way round, ends up on top.
    """
    mount("cannot make the mounts private", "none", "/", None, MS_REC | MS_PRIVATE)
    # Opened before anything is covered, since covering hides them from lookups by path.
    sources = {path: open_path(path) for path in [*spec["readonly"], *spec["writable"]]}
    mount("cannot mount /proc", "proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    if spec["lockdown"]:
        make_everything_readonly()
    covers = {*SCRATCH, *spec["hidden"]} - set(sources)
    empty = [path for path in sorted(covers | set(sources), key=depth) if place(path, sources, spec)]
    for path in empty:
        remount(path, MS_NOSUID | MS_NODEV | MS_RDONLY)


def depth(path: str) -> int:
    return path.count("/")


def open_path(path: str) -> int:
    try:
        return os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError as error:
        raise LaunchError(f"cannot bind {path}: {error.strerror}") from None


def place(path: str, sources: dict[str, int], spec: Spec) -> bool:
    """Cover `path`, or bind it back; true for a cover that is to be made read-only when all is in place."""
    if path in sources:
        bind(sources[path], path, readonly=path not in spec["writable"])
        return False
    if not os.path.lexists(path):
        return False
    if not os.path.isdir(path):
        mount(f"cannot hide {path}", "/dev/null", path, None, MS_BIND)
        return False
    mode = "1777" if path in SCRATCH else "0755"
    mount(f"cannot hide {path}", "tmpfs", path, "tmpfs", MS_NOSUID | MS_NODEV, f"mode={mode}")
    return path not in SCRATCH


def bind(source: int, path: str, *, readonly: bool) -> None:
    is_folder = stat.S_ISDIR(os.fstat(source).st_mode)
    try:
        make_mount_point(path, is_folder=is_folder)
    except OSError as error:
        raise LaunchError(f"cannot bind {path}: {error.strerror}") from None
    mount(f"cannot bind {path}", f"/proc/self/fd/{source}", path, None, MS_BIND | MS_REC)
    remount(path, kept_flags(path) | (MS_RDONLY if readonly else 0))


def remount(path: str, flags: int) -> None:
    mount(f"cannot change the mount at {path}", "none", path, None, MS_REMOUNT | MS_BIND | flags)


def make_mount_point(path: str, *, is_folder: bool) -> None:
    if os.path.lexists(path):
        return
    os.makedirs(path if is_folder else os.path.dirname(path), mode=0o755, exist_ok=True)
    if not is_folder:
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))


def kept_flags(path: str) -> int:
    """The flags of the mount at `path` that an unprivileged remount must repeat or is refused."""
    have = os.statvfs(path).f_flag
    pairs = ((os.ST_NOSUID, MS_NOSUID), (os.ST_NODEV, MS_NODEV), (os.ST_NOEXEC, MS_NOEXEC),
             (os.ST_NOATIME, MS_NOATIME), (os.ST_NODIRATIME, MS_NODIRATIME), (os.ST_RELATIME, MS_RELATIME))  # fmt: skip
    return sum(mount_flag for statvfs_flag, mount_flag in pairs if have & statvfs_flag)


def make_everything_readonly() -> None:
    """Remount every mount but /proc read-only: the script has our own uid, so permissions alone protect nothing."""
    found = [(path, options) for path, options in mounts() if path != "/proc" and not path.startswith("/proc/")]
    for path, options in found:
        flags = MS_REMOUNT | MS_BIND | MS_RDONLY | sum(KEPT_FLAGS.get(option, 0) for option in options)
        libc.mount(b"none", os.fsencode(path), None, ctypes.c_ulong(flags), None)
    # Judged by the result: a mount that lies below another one can't be changed, nor need it be.
    for path, _ in found:
        if os.access(path, os.W_OK) and os.path.isdir(path) and not os.statvfs(path).f_flag & os.ST_RDONLY:
            raise LaunchError(f"cannot make {path} read-only")


def mounts() -> Iterator[tuple[str, list[str]]]:
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            fields = line.split(" ")
            path = fields[4].replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\")
            yield path, fields[5].split(",")


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
        os.execvpe(argv[0], argv, environment)
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
    control = int(sys.argv[1])
    os.set_inheritable(control, False)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)  # meant for the script's owner, who will tell us
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


def read_line(descriptor: int) -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        part = os.read(descriptor, 65536)
        if not part:
            sys.exit(1)
        line += part
    return line


if __name__ == "__main__":
    main()
