"""`manage.py run_worker`: serve as one worker, or as several on one machine."""

import argparse
import os
import socket
import sys
import uuid
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError, CommandParser
from rq import Queue

from config.version import VERSION
from jobs import dispatch
from jobs.commands.workers import Boot
from jobs.console.base import ConsoleCommand
from jobs.errors import Refused
from workers import capacity, hardening, isolation, workspace
from workers.runfile import PLAIN_NAME, AlreadyRunning, RunFolder
from workers.worker import NameTaken, RerailWorker


class Command(ConsoleCommand):
    help = "Run training jobs on this machine, one at a time, until stopped."
    requires_system_checks = "__all__"

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--name", default=socket.gethostname(), help="Unique among all workers.")
        parser.add_argument("--gpus", type=_count, default=0, help="Cards it may give to a job.")
        parser.add_argument("--gpu-memory-mb", type=_count, default=0, help="Memory of each card.")
        parser.add_argument("--ram-mb", type=_count, default=None, help="Default: this machine's.")
        parser.add_argument("--disk-mb", type=_count, default=None, help="Default: what is free for scratch.")
        parser.add_argument("--label", action="append", default=[], type=_label, metavar="KEY=VALUE")
        parser.add_argument("--requires-review", action="store_true", help="Run nothing without an approval.")

    def handle(self, *args: Any, **options: Any) -> None:
        hardening.make_undumpable()
        name = options["name"]
        if not PLAIN_NAME.fullmatch(name):
            raise CommandError(f"{name!r} can't be a worker's name: use letters, digits, dots, dashes and underscores.")
        try:
            folder = RunFolder(name)
            folder.claim()
            _worker(_boot(options), folder).work()
        except (AlreadyRunning, Refused, NameTaken) as error:
            raise CommandError(str(error)) from None
        except OSError as error:
            raise CommandError(f"The worker can't use its data folder: {error}.") from None


def _boot(options: dict[str, Any]) -> Boot:
    scratch = workspace.scratch()
    scratch.mkdir(mode=0o711, parents=True, exist_ok=True)
    detected = isolation.detect(scratch)
    if detected.why:
        sys.stderr.write(f"Scripts are isolated at level {detected.level}: {detected.why}\n")
    machine = capacity.of_this_machine(scratch)
    return Boot(
        name=options["name"],
        nonce=uuid.uuid4(),
        host=socket.gethostname(),
        pid=os.getpid(),
        gpus=options["gpus"],
        gpu_memory_mb=options["gpu_memory_mb"],
        ram_mb=machine.ram_mb if options["ram_mb"] is None else options["ram_mb"],
        disk_mb=machine.disk_mb if options["disk_mb"] is None else options["disk_mb"],
        cpus=machine.cpus,
        labels=dict(options["label"]),
        requires_review=options["requires_review"],
        isolation=detected.level.value,
        version=VERSION,
    )


def _worker(boot: Boot, folder: RunFolder) -> RerailWorker:
    # It waits on its queue for a beat at a time; a Redis that hangs must not keep it from renewing its row.
    connection = dispatch.redis_client(settings.RERAIL.timing.heartbeat + settings.REDIS_TIMEOUT_SECONDS)
    return RerailWorker(boot, folder, Queue(dispatch.queue_name(boot.name), connection=connection))


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) > 2**31 - 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at most 2147483647")
    return int(text)


def _label(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form KEY=VALUE")
    return key, value
