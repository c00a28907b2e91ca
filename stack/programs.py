"""The parts of the stack, as one table."""

import socket
import sys

from config.environment import BASE_DIR, Environment
from stack import postgres, valkey
from stack.places import Places
from stack.program import Program

WEB = "web"
SLACK_SECONDS = 10
"""What a worker may need on top of its own limits to end."""


def of(environment: Environment, places: Places) -> list[Program]:
    """Everything that `up` runs, servers first; a service that the environment names is left out."""
    return [
        *([] if environment.database_url else [_postgres(environment, places)]),
        *([] if environment.redis_url else [valkey.program(places)]),
        _web(environment),
        _managed("reaper", "reap_zombies", "--loop"),
        *(_worker(environment, name) for name in worker_names(environment)),
        _managed("housekeeping", "rqworker", "default"),
    ]


def worker_names(environment: Environment) -> list[str]:
    """`w1`, `w2` …; with the host's name in front where other hosts may work for the same database."""
    prefix = f"{socket.gethostname()}-" if environment.database_url else ""
    return [f"{prefix}w{number}" for number in range(1, environment.workers + 1)]


def _postgres(environment: Environment, places: Places) -> Program:
    # A worker and its execution process hold up to four connections, web, reaper and people the rest.
    return postgres.program(places, connections=80 + 4 * environment.workers)


def _web(environment: Environment) -> Program:
    options = ["--bind", environment.bind, "--port", str(environment.port), "--no-server-name"]
    if environment.behind_proxy:
        options.append("--proxy-headers")
    return Program(
        name=WEB,
        command=(sys.executable, "-m", "config.server", *options, "config.asgi:application"),
        directory=str(BASE_DIR),
        environment={"DJANGO_SETTINGS_MODULE": "config.web", "PYTHONUNBUFFERED": "1"},
    )


def _worker(environment: Environment, name: str) -> Program:
    patience = environment.timing.stop_grace + environment.timing.publish + SLACK_SECONDS
    return _managed(name, "run_worker", "--name", name, stop_seconds=patience)


def _managed(name: str, *arguments: str, stop_seconds: float = 10) -> Program:
    return Program(
        name=name,
        command=(sys.executable, "manage.py", *arguments),
        directory=str(BASE_DIR),
        environment={"DJANGO_SETTINGS_MODULE": "config.settings", "PYTHONUNBUFFERED": "1"},
        stop_seconds=stop_seconds,
    )
