"""Where the stack keeps things."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from config.environment import Environment


@dataclass(frozen=True)
class Places:
    """The folders and files of one stack: lasting ones in `data`, sockets in `sockets` while it runs."""

    data: Path
    sockets: Path

    @classmethod
    def of(cls, environment: Environment) -> Places:
        return cls(environment.data_dir, environment.socket_dir)

    @property
    def logs(self) -> Path:
        return self.data / "logs"

    @property
    def run(self) -> Path:
        """What each part is to execute (`NAME.json`) and which process it became (`NAME.pid`)."""
        return self.data / "run"

    @property
    def lock(self) -> Path:
        return self.data / "lock"

    @property
    def admin_password(self) -> Path:
        return self.data / "admin_password"

    @property
    def postgres_data(self) -> Path:
        return self.data / "postgres"

    @property
    def valkey_data(self) -> Path:
        return self.data / "valkey"

    @property
    def postgres_sockets(self) -> Path:
        return self.sockets / "postgres"

    @property
    def valkey_socket(self) -> Path:
        return self.sockets / "valkey" / "valkey.sock"

    @property
    def supervisor_socket(self) -> Path:
        return self.sockets / "supervisor.sock"

    @property
    def supervisor_config(self) -> Path:
        return self.sockets / "supervisord.conf"

    def log_of(self, name: str) -> Path:
        return self.logs / f"{name}.log"
