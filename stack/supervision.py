"""supervisord, which keeps the parts running: its configuration, its process, and questions to it."""

from __future__ import annotations

import configparser
import http.client
import io
import shlex
import signal
import socket
import subprocess
import sys
import xmlrpc.client
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from stack.places import Places
from stack.program import Program

NAME = "supervisord"
START_SECONDS = 5
"""A part that ends sooner counts as one that can't start, and is started again after a growing pause."""
START_RETRIES = 10
"""Pauses grow from 1 to as many seconds; then supervisord gives up, and `stack.watch` starts the part once more."""

ANSWER_SECONDS = 10


@dataclass(frozen=True)
class PartState:
    """What supervisord says of a part."""

    name: str
    state: str
    """`STARTING`, `RUNNING`, `BACKOFF` (ended too soon, pausing), `FATAL` (given up), `STOPPED` and so on."""
    pid: int
    started: int
    """When it was last started, in seconds since the epoch."""


class Supervisor:
    """One supervisord and the parts it was told of; none of them starts by itself."""

    def __init__(self, places: Places, programs: Iterable[Program], locks: list[int]) -> None:
        self._places = places
        self._programs = {program.name: program for program in programs}
        self._locks = locks
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def launch(self) -> None:
        """Start supervisord alone. It keeps the locks for as long as it lives, even without us."""
        self._places.supervisor_config.write_text(self._configuration())
        # The socket of one that was killed would make this one look ready before it is.
        self._places.supervisor_socket.unlink(missing_ok=True)
        program = Program(
            name=NAME,
            command=(sys.executable, "-m", "supervisor.supervisord", "--configuration", self._config_path),
        )
        command = program.starter(self._places)
        # In a session of its own, Ctrl-C reaches only us, and we stop things in order.
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, pass_fds=self._locks, start_new_session=True
        )

    def ready(self) -> bool:
        """Whether it takes orders by now."""
        return self._places.supervisor_socket.exists() and bool(self.states())

    def start(self, names: Iterable[str]) -> None:
        """Start parts without waiting for them."""
        for name in names:
            self._ask("startProcess", self._full(name), False)

    def stop(self, names: Iterable[str]) -> None:
        """Ask parts to end without waiting for them; those that take too long are killed."""
        for name in names:
            self._ask("stopProcess", self._full(name), False)

    def states(self) -> dict[str, PartState]:
        """Every part's state by name; empty when supervisord doesn't answer."""
        answer: list[dict[str, Any]] = self._ask("getAllProcessInfo") or []
        return {info["name"]: PartState(info["name"], info["statename"], info["pid"], info["start"]) for info in answer}

    def shut_down(self) -> None:
        """Ask supervisord to stop what still runs, servers last, and to end."""
        if self._process is not None and self.alive and not self._ask("shutdown"):
            self._process.send_signal(signal.SIGTERM)

    def ended(self) -> bool:
        """Whether it has ended. Each question also turns its loop, which by itself looks around once a second."""
        if self.alive:
            self.states()
        return not self.alive

    def kill(self) -> None:
        if self._process is not None and self.alive:
            self._process.kill()
            self._process.wait()

    def _ask(self, method: str, *arguments: object) -> Any:
        transport = _UnixTransport(str(self._places.supervisor_socket))
        with xmlrpc.client.ServerProxy("http://localhost", transport=transport) as proxy:
            try:
                return getattr(proxy.supervisor, method)(*arguments)
            except (OSError, xmlrpc.client.Error):
                # Gone, or the part is already what was asked for: whoever asks looks at states again.
                return None

    @property
    def _config_path(self) -> str:
        return str(self._places.supervisor_config)

    def _full(self, name: str) -> str:
        return f"{_group(self._programs[name])}:{name}"

    def _configuration(self) -> str:
        config = configparser.RawConfigParser()
        config["supervisord"] = {
            "nodaemon": "true",
            "silent": "true",
            "logfile": _value(str(self._places.log_of(NAME))),
            "pidfile": _value(str(self._places.sockets / "supervisord.pid")),
        }
        config["unix_http_server"] = {"file": _value(str(self._places.supervisor_socket)), "chmod": "0700"}
        config["rpcinterface:supervisor"] = {
            "supervisor.rpcinterface_factory": "supervisor.rpcinterface:make_main_rpcinterface"
        }
        for program in self._programs.values():
            config[f"program:{program.name}"] = self._section(program)
        # Groups start in the order of their priority, and stop in the reverse order, each when the one before is done.
        for priority, group in enumerate(("servers", "parts"), start=1):
            members = [program.name for program in self._programs.values() if _group(program) == group]
            if members:
                config[f"group:{group}"] = {"programs": ",".join(members), "priority": str(priority)}
        return _text(config)

    def _section(self, program: Program) -> dict[str, str]:
        return {
            "command": _value(shlex.join(program.starter(self._places, parent=self._places.run / f"{NAME}.pid"))),
            "autostart": "false",
            "autorestart": "true",
            "startsecs": str(START_SECONDS),
            "startretries": str(START_RETRIES),
            "stopsignal": program.stop_signal.name.removeprefix("SIG"),
            "stopwaitsecs": str(round(program.stop_seconds)),
            # Only for a part that overran that time: what an operator's SIGKILL of a worker leaves behind goes on.
            "killasgroup": "true",
            "stdout_logfile": "NONE",
            "stderr_logfile": "NONE",
        }


class _UnixTransport(xmlrpc.client.Transport):
    """XML-RPC over a unix socket, where a supervisord that hangs can't hang us."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path

    def make_connection(self, host: Any) -> http.client.HTTPConnection:
        connection = http.client.HTTPConnection("localhost")
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.settimeout(ANSWER_SECONDS)
        connection.sock.connect(self._path)
        return connection


def _group(program: Program) -> str:
    return "servers" if program.server else "parts"


def _value(text: str) -> str:
    """`text` for a file in which supervisord expands percent signs."""
    return text.replace("%", "%%")


def _text(config: configparser.RawConfigParser) -> str:
    file = io.StringIO()
    config.write(file)
    return file.getvalue()
