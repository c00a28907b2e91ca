"""What a worker leaves on its disk so that its next start knows what still runs under its name."""

import fcntl
import json
import os
import re
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil
from django.conf import settings

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class AlreadyRunning(Exception):
    """Another live process has the worker's name."""


@dataclass(frozen=True, kw_only=True)
class Running:
    """An execution process: identified by pid, start time and the machine's boot, so that no reused pid deceives."""

    execution_id: int
    pid: int
    started: float
    boot_id: str

    def process(self) -> psutil.Process | None:
        """The process, if it lives."""
        if self.boot_id != machine_boot():
            return None
        try:
            process = psutil.Process(self.pid)
            same = abs(process.create_time() - self.started) < 0.05
            return process if same and process.status() != psutil.STATUS_ZOMBIE else None
        except psutil.NoSuchProcess:
            return None


class RunFolder:
    """The lock and the run file of one worker name on this machine."""

    def __init__(self, name: str) -> None:
        self._folder = Path(settings.RERAIL.data_dir) / "workers"
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._file = self._folder / f"{name}.json"
        self._name = name
        self._lock = -1

    def claim(self) -> None:
        """Hold the name on this machine until this process ends; raises AlreadyRunning while another one does."""
        self._lock = os.open(self._folder / f"{self._name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise AlreadyRunning(f"A worker named {self._name} is running on this machine already.") from None

    def let_go_in_child(self) -> None:
        """A forked child shares the lock: it closes its copy, or it would hold the name after its parent's death."""
        os.close(self._lock)

    def write(self, execution_id: int, pid: int) -> None:
        """Note the execution process that was just forked."""
        running = Running(
            execution_id=execution_id, pid=pid, started=psutil.Process(pid).create_time(), boot_id=machine_boot()
        )
        draft = self._file.with_suffix(".draft")
        draft.write_text(json.dumps(asdict(running)))
        draft.replace(self._file)

    def read(self) -> Running | None:
        """What an earlier process of this name left, if anything readable."""
        try:
            return Running(**json.loads(self._file.read_text()))
        except (OSError, ValueError, TypeError):
            return None

    def clear(self) -> None:
        self._file.unlink(missing_ok=True)


def machine_boot() -> str:
    """Identifies this start of the machine; empty where the system does not say."""
    try:
        return BOOT_ID.read_text().strip()
    except OSError:
        return ""
