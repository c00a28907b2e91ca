"""Starting, watching and ending one training script.

`Script.spawn` starts the program in `launcher`, which starts the script. All that is known of the script afterwards
comes over one socket, which becomes readable when the script has ended and nothing it started is left.
"""

import array
import contextlib
import json
import os
import py_compile
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import Any

import psutil

HERE = Path(__file__).parent
LAUNCHER = "import sys; sys.path.append(sys.argv[1]); from workers.launcher import main; main()"
LAUNCHER_MODULES = ("launcher", "descendants", "kernel", "mounts")
OUTPUTS = b">"
"""The byte with which the launcher is handed the script's outputs."""
START_SECONDS = 60.0
CREDENTIALS_BYTES = 12  # struct ucred: pid, uid, gid


class SpawnError(Exception):
    """The script could not be started; the text is one sentence for people."""


class Level(StrEnum):
    """How much keeps a script from the service and from what it left running, best first."""

    NAMESPACE = "namespace"
    UID = "uid"
    ENVIRONMENT = "environment"


@dataclass(frozen=True, kw_only=True)
class Confinement:
    """What a script may see. The paths count at level `namespace` only, and may lie in each other."""

    level: Level
    uid: int | None = None
    """Uid and gid of the script; None keeps our own."""
    hidden: Sequence[Path] = ()
    """Appear empty and read-only (a file: empty). Missing ones are ignored."""
    writable: Sequence[Path] = ()
    """Bound back wherever they lie; must exist."""
    readonly: Sequence[Path] = ()
    lockdown: bool = False
    """Make all the rest of the file system read-only too."""


@dataclass(frozen=True, kw_only=True)
class ScriptSpec:
    """What to run. `stdout` and `stderr` are descriptors of ours, which stay open here; stdin is /dev/null."""

    argv: Sequence[str]
    env: Mapping[str, str]
    folder: Path
    stdout: int
    stderr: int
    confinement: Confinement = field(default_factory=lambda: Confinement(level=Level.ENVIRONMENT))


@dataclass(frozen=True)
class Exit:
    """How the script's main process ended: by an exit code or by a signal, never both."""

    code: int | None
    signal: int | None

    @classmethod
    def from_status(cls, status: int) -> "Exit":
        if os.WIFSIGNALED(status):
            return cls(None, os.WTERMSIG(status))
        return cls(os.waitstatus_to_exitcode(status), None)


def base_python() -> Path:
    """The interpreter under the service's virtual environment, which knows nothing of the service's packages."""
    return Path(getattr(sys, "_base_executable", None) or sys.executable).resolve()


class Script:
    """A running script. Every method may be called from any thread; `fileno` may be polled for readability."""

    def __init__(self, launcher: subprocess.Popen[bytes], control: socket.socket) -> None:
        self._launcher = launcher
        self._control = control
        self._lock = threading.Lock()
        self._messages = _messages(control)
        self._exit: Exit | None = None
        self._pidfd: int | None = None
        self.pid = 0
        """Pid of the script's main process, as seen from here."""

    @classmethod
    def warm_up(cls) -> None:
        """Start a launcher ahead of the script that this process will spawn next, which then starts sooner.

        Where none is spawned, the launcher ends with this process.
        """
        if not _warm:
            with contextlib.suppress(SpawnError):
                _warm.append(cls._launch())

    @classmethod
    def spawn(cls, spec: ScriptSpec) -> "Script":
        """Start the script and return when it has been executed. Raises SpawnError."""
        script = _warm.pop() if _warm else cls._launch()
        try:
            script._start(spec)
        except BaseException:
            script.kill()
            script.close()
            raise
        return script

    @classmethod
    def _launch(cls) -> "Script":
        ours, theirs = socket.socketpair()
        with theirs:
            if hasattr(socket, "SO_PASSCRED"):
                ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
            try:
                launcher = _start_launcher(theirs.fileno())
            except OSError as error:
                ours.close()
                raise SpawnError(f"Cannot run the launcher: {error}.") from error
        return cls(launcher, ours)

    def _start(self, spec: ScriptSpec) -> None:
        self._control.settimeout(START_SECONDS)
        try:
            with contextlib.suppress(ConnectionError):  # then it has said why, or ended
                socket.send_fds(self._control, [OUTPUTS], [spec.stdout, spec.stderr])
                self._control.sendall(launch_order(spec))
            self._await_running()
        except TimeoutError:
            raise SpawnError(f"The script did not start within {START_SECONDS:.0f} s.") from None
        self._control.settimeout(None)

    def _await_running(self) -> None:
        for sender, message in self._messages:
            if "pid" in message:
                self._know_pid(sender or message["pid"])
            elif "error" in message:
                raise SpawnError(_sentence(message["error"]))
            elif "running" in message:
                return
        raise SpawnError("The launcher died before the script had started.")

    def _know_pid(self, pid: int) -> None:
        self.pid = pid
        with contextlib.suppress(OSError, AttributeError):  # without it signals go by pid
            self._pidfd = os.pidfd_open(pid)

    def fileno(self) -> int:
        """A descriptor that becomes readable when `wait` would return at once. Only poll it."""
        return self._control.fileno()

    def wait(self, timeout: float | None = None) -> Exit | None:
        """How the script ended, once no descendant of it is left; None if that takes more than `timeout` seconds."""
        deadline = None if timeout is None else time.monotonic() + timeout
        if self._exit is None and self._readable(deadline):
            with self._lock:
                self._collect()
        return self._exit

    def _readable(self, deadline: float | None) -> bool:
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        left = None if deadline is None else max(0.0, deadline - time.monotonic()) * 1000
        return bool(poll.poll(left)) or self._exit is not None

    def _collect(self) -> None:
        if self._exit is not None:
            return
        status = next((message["status"] for _, message in self._messages if "status" in message), None)
        self._launcher.wait()
        # Without a word: launcher and init were killed, which kills the script.
        self._exit = Exit(None, signal.SIGKILL) if status is None else Exit.from_status(status)

    def terminate(self) -> None:
        """Send SIGTERM to the script's main process alone: its data loaders must live until it has saved."""
        if self._exit is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            if self._pidfd is not None:
                signal.pidfd_send_signal(self._pidfd, signal.SIGTERM)
            elif self.pid:
                os.kill(self.pid, signal.SIGTERM)

    def kill(self, timeout: float | None = None) -> Exit | None:
        """SIGKILL everything and return when every descendant is gone; None if that takes more than `timeout` s."""
        with contextlib.suppress(OSError):  # it has ended already
            self._control.shutdown(socket.SHUT_WR)
        with contextlib.suppress(ProcessLookupError):
            self._launcher.send_signal(signal.SIGCONT)
        return self.wait(timeout)

    def tree(self) -> list[psutil.Process]:
        """The script's processes, those that left its session included, without our launcher and init."""
        try:
            watchers = psutil.Process(self._launcher.pid).children()
            return [process for watcher in watchers for process in watcher.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def rss(self) -> int:
        """Resident bytes of the whole tree; pages that its processes share count in each."""
        total = 0
        for process in self.tree():
            with contextlib.suppress(psutil.NoSuchProcess):
                total += process.memory_info().rss
        return total

    def close(self) -> None:
        """Give the descriptors back. A script that still runs is killed, not awaited."""
        self._control.close()
        if self._pidfd is not None:
            os.close(self._pidfd)
            self._pidfd = None

    def __enter__(self) -> "Script":
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self.close()


_warm: list[Script] = []


def launch_order(spec: ScriptSpec) -> bytes:
    """The line of JSON that the launcher reads."""
    confinement = spec.confinement
    order = {
        "owner": os.getpid(),
        "level": confinement.level.value,
        "uid": confinement.uid,
        "hidden": _resolved(confinement.hidden),
        "writable": _resolved(confinement.writable),
        "readonly": _resolved(confinement.readonly),
        "lockdown": confinement.lockdown,
        "argv": list(spec.argv),
        "env": dict(spec.env),
        "cwd": os.path.realpath(spec.folder),
    }
    return json.dumps(order).encode() + b"\n"


def _resolved(paths: Sequence[Path]) -> list[str]:
    return sorted({os.path.realpath(path) for path in paths} - {"/"})


@lru_cache(maxsize=1)
def _compile_launcher() -> None:
    """Have the launcher's bytecode lie ready, which spares each start 8 ms; without it where we may not write."""
    for name in ("__init__", *LAUNCHER_MODULES):
        with contextlib.suppress(OSError):
            py_compile.compile(str(HERE / f"{name}.py"), doraise=True)


def _start_launcher(control: int) -> subprocess.Popen[bytes]:
    _compile_launcher()
    return subprocess.Popen(
        [str(base_python()), "-I", "-S", "-B", "-c", LAUNCHER, str(HERE.parent), str(control)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=(control,),
        env={},
        cwd="/",
        start_new_session=True,
    )


def _messages(control: socket.socket) -> Iterator[tuple[int | None, dict[str, Any]]]:
    """The launcher's messages with the sender's pid, which the kernel translates into our PID namespace."""
    buffer = b""
    while True:
        try:
            data, ancillary, _, _ = control.recvmsg(65536, socket.CMSG_SPACE(CREDENTIALS_BYTES))
        except ConnectionError:
            return
        if not data:
            return
        *lines, buffer = (buffer + data).split(b"\n")
        for line in lines:
            yield _sender(ancillary), json.loads(line)


def _sender(ancillary: list[tuple[int, int, bytes]]) -> int | None:
    for _, kind, data in ancillary:
        if kind == getattr(socket, "SCM_CREDENTIALS", None):
            return array.array("i", data[:4])[0]
    return None


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:].rstrip(".") + "."
