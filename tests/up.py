"""`make up` as a process of the tests' own."""

import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import psutil
import pytest

from config.environment import BASE_DIR
from stack import processes
from stack.processes import recorded
from tests.waiting import eventually

PATIENCE = 120


class Up:
    """One `manage.py up`."""

    def __init__(self, data_dir: Path, **environment: str):
        self.data_dir = data_dir
        self.port = int(environment.setdefault("RERAIL_PORT", str(free_port())))
        inherited = {key: value for key, value in os.environ.items() if not key.startswith(("RERAIL_", "DJANGO_"))}
        self.environment = {"RERAIL_WORKERS": "1", **inherited, "RERAIL_DATA_DIR": str(data_dir), **environment}
        self.output = ""
        self.process: subprocess.Popen[str]

    def launch(self, *command: str) -> "Up":
        self.process = subprocess.Popen(
            command or (sys.executable, "manage.py", "up"),
            cwd=BASE_DIR,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            # Whoever ends the tests midway ends this too.
            preexec_fn=processes.end_with_parent,
        )
        return self

    def told(self, text: str) -> str:
        """Wait for a line that contains `text`; fails if `up` ends without one."""
        assert self.process.stdout
        for line in self.process.stdout:
            self.output += line
            if text in line:
                return line
        pytest.fail(f"up ended without saying {text!r}, but: {self.output}")

    def ready(self) -> "Up":
        self.told("Ctrl-C stops everything")
        return self

    def ended(self) -> int:
        self.output += self.process.communicate(timeout=PATIENCE)[0]
        return self.process.returncode

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.ended()

    def part(self, name: str) -> psutil.Process:
        """The process that is this part, once there is one."""
        eventually(lambda: recorded(self.data_dir / "run" / f"{name}.pid") is not None)
        found = recorded(self.data_dir / "run" / f"{name}.pid")
        assert found
        return psutil.Process(found.pid)

    def replaced(self, former: psutil.Process, name: str) -> psutil.Process:
        """The process that is this part after `former`."""
        eventually(lambda: self.part(name) != former)
        return self.part(name)

    def everything(self) -> list[psutil.Process]:
        root = psutil.Process(self.process.pid)
        return [root, *root.children(recursive=True)]

    def get(self, path: str) -> int:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=10) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def admin_password(self) -> str:
        return (self.data_dir / "admin_password").read_text().strip()

    def command(self, *arguments: str) -> str:
        """What a management command beside the stack prints."""
        command = [sys.executable, "manage.py", *arguments]
        ran = subprocess.run(command, cwd=BASE_DIR, env=self.environment, check=True, text=True, stdout=subprocess.PIPE)
        return ran.stdout.strip()

    def manage(self, code: str) -> str:
        """What `code` prints in a management command beside the stack."""
        return self.command("shell", "--verbosity=0", "-c", code)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
