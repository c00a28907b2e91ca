"""The one place that reads the process environment.

Everything else asks ``django.conf.settings``; a bad value raises `BadEnvironment` with one sentence that names it.
"""

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from environs import Env, EnvError

BASE_DIR = Path(__file__).resolve().parent.parent

# sun_path holds 108 bytes, and PostgreSQL appends "/.s.PGSQL.5432.lock" to the folder.
LONGEST_SOCKET_FOLDER = 80


class BadEnvironment(ValueError):
    """A variable holds something that can't be used; the message is one sentence for people."""


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Periods and limits of the control plane, all in seconds (fractions allowed)."""

    heartbeat: float = 5.0
    lease: float = 20.0
    sweep: float = 5.0
    checkpoint: float = 300.0
    stop_grace: float = 30.0
    publish: float = 600.0
    never_started: float = 30.0
    dataset_timeout: float = 600.0
    review_timeout: float = 60.0
    retry_backoff: float = 5.0
    retry_backoff_limit: float = 300.0


@dataclass(frozen=True, kw_only=True)
class Environment:
    """What the environment says, checked; paths are absolute. What may hold a secret is left out of its `repr`."""

    data_dir: Path
    bind: str
    port: int
    admin_password: str | None = field(repr=False)
    secret_key: str | None = field(repr=False)
    allowed_hosts: tuple[str, ...]
    trusted_origins: tuple[str, ...]
    behind_proxy: bool
    workers: int
    max_running_per_owner: int | None
    max_dataset_bytes: int
    dataset_cache_bytes: int
    timing: Timing
    database_url: str | None = field(repr=False)
    redis_url: str | None = field(repr=False)
    storage_url: str | None = field(repr=False)
    runtime_base: Path

    @property
    def socket_dir(self) -> Path:
        """Folder of the embedded servers' unix sockets: short, and one per data folder."""
        digest = hashlib.sha256(os.fsencode(self.data_dir)).hexdigest()[:8]
        return self.runtime_base / f"rerail-{os.getuid()}-{digest}"

    @property
    def deployed(self) -> bool:
        """Whether people reach this installation through a proxy that speaks TLS."""
        return self.behind_proxy


def read() -> Environment:
    """Check every variable that Rerail knows and return them; raises BadEnvironment for the first bad one."""
    reader = _Reader()
    timing = Timing(
        heartbeat=reader.seconds("RERAIL_HEARTBEAT_SECONDS", Timing.heartbeat),
        lease=reader.seconds("RERAIL_LEASE_SECONDS", Timing.lease),
        sweep=reader.seconds("RERAIL_REAP_SECONDS", Timing.sweep),
        checkpoint=reader.seconds("RERAIL_CHECKPOINT_SECONDS", Timing.checkpoint),
        stop_grace=reader.seconds("RERAIL_STOP_GRACE_SECONDS", Timing.stop_grace),
        dataset_timeout=reader.seconds("RERAIL_DATASET_TIMEOUT_SECONDS", Timing.dataset_timeout),
        review_timeout=reader.seconds("RERAIL_REVIEW_TIMEOUT_SECONDS", Timing.review_timeout),
        retry_backoff=reader.seconds("RERAIL_RETRY_BACKOFF_SECONDS", Timing.retry_backoff),
    )
    return Environment(
        data_dir=_absolute(reader.text("RERAIL_DATA_DIR") or ".rerail"),
        bind=reader.text("RERAIL_BIND") or "127.0.0.1",
        port=reader.whole("RERAIL_PORT", 8000, least=1, most=65535),
        admin_password=reader.text("RERAIL_ADMIN_PASSWORD"),
        secret_key=reader.text("RERAIL_SECRET_KEY"),
        allowed_hosts=reader.words("RERAIL_ALLOWED_HOSTS"),
        trusted_origins=reader.origins("RERAIL_TRUSTED_ORIGINS"),
        behind_proxy=reader.flag("RERAIL_BEHIND_PROXY"),
        workers=reader.whole("RERAIL_WORKERS", 2, least=0, most=256),
        max_running_per_owner=reader.whole("RERAIL_MAX_RUNNING_PER_OWNER", 0, least=0, most=1_000_000) or None,
        max_dataset_bytes=reader.mebibytes("RERAIL_MAX_DATASET_MB", 20_000, most=50_000),
        dataset_cache_bytes=reader.mebibytes("RERAIL_DATASET_CACHE_MB", 50_000, most=100_000_000),
        timing=timing,
        database_url=reader.url("DATABASE_URL", ("postgres", "postgresql")),
        redis_url=reader.url("REDIS_URL", ("redis", "rediss", "unix")),
        storage_url=reader.url("RERAIL_STORAGE_URL", ("file", "s3")),
        runtime_base=_runtime_base(),
    )


def _absolute(path: str) -> Path:
    return Path(os.path.abspath(BASE_DIR / Path(path).expanduser()))


def _runtime_base() -> Path:
    folder = os.environ.get("XDG_RUNTIME_DIR", "")
    usable = folder.startswith("/") and os.path.isdir(folder) and os.access(folder, os.W_OK)
    # As root the servers run as another user, who could not enter root's own runtime folder.
    if usable and os.getuid() != 0 and len(os.fsencode(folder)) + 30 < LONGEST_SOCKET_FOLDER:
        return Path(folder)
    return Path("/tmp")


class _Reader:
    """Reads single variables; an empty one counts as not set."""

    def __init__(self) -> None:
        self._env = Env()

    def text(self, name: str) -> str | None:
        return os.environ.get(name) or None

    def words(self, name: str) -> tuple[str, ...]:
        return tuple(word.strip() for word in (self.text(name) or "").split(",") if word.strip())

    def seconds(self, name: str, default: float) -> float:
        wanted = "a number of seconds above 0, such as 5 or 0.5"
        value: float = self._parsed(name, self._env.float, default, wanted)
        if not 0 < value < 10_000_000:
            raise _bad(name, wanted)
        return value

    def whole(self, name: str, default: int, *, least: int, most: int) -> int:
        wanted = f"a whole number from {least} to {most}"
        value: int = self._parsed(name, self._env.int, default, wanted)
        if not least <= value <= most:
            raise _bad(name, wanted)
        return value

    def mebibytes(self, name: str, default: int, *, most: int) -> int:
        return self.whole(name, default, least=1, most=most) * 1024 * 1024

    def flag(self, name: str) -> bool:
        value: bool = self._parsed(name, self._env.bool, False, "true or false")
        return value

    def origins(self, name: str) -> tuple[str, ...]:
        origins = self.words(name)
        if not all(urlsplit(origin).scheme in {"http", "https"} and urlsplit(origin).netloc for origin in origins):
            raise _bad(name, "origins with their scheme, separated by commas, such as https://rerail.example.org")
        return origins

    def url(self, name: str, schemes: tuple[str, ...]) -> str | None:
        value = self.text(name)
        if value is not None and urlsplit(value).scheme not in schemes:
            # The value stays out of the sentence: such an address may hold a password.
            beginnings = " or ".join(f"{scheme}://" for scheme in schemes)
            raise BadEnvironment(f"{name} must be an address that starts with {beginnings}.")
        return value

    def _parsed(self, name: str, parse: Callable[[str], Any], default: Any, wanted: str) -> Any:
        if self.text(name) is None:
            return default
        try:
            return parse(name)
        except EnvError as error:
            raise _bad(name, wanted) from error


def _bad(name: str, wanted: str) -> BadEnvironment:
    return BadEnvironment(f"{name} must be {wanted}, not {os.environ.get(name)!r}.")
