"""`manage.py reap_zombies`: find what is overdue and put it back on the track."""

import json
import os
import signal
import socket
import threading
import uuid
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError, CommandParser
from django.db import DatabaseError, InterfaceError, connection

from jobs import reaper
from jobs.commands import cleaning
from jobs.console.base import ConsoleCommand
from jobs.console.tidying import Tidying
from jobs.reaper import Sweep
from workers import hardening

LEAST_PAUSE = 0.05


class Command(ConsoleCommand):
    help = "Requeue executions whose worker died, and act on every other deadline. Any number may run; one is active."
    requires_system_checks = "__all__"

    def add_arguments(self, parser: CommandParser) -> None:
        how = parser.add_mutually_exclusive_group()
        how.add_argument("--once", action="store_true", help="Sweep once and end (the default; for cron).")
        how.add_argument("--loop", action="store_true", help="Sweep until stopped.")
        parser.add_argument("--interval", type=float, default=settings.RERAIL.timing.sweep, help="Seconds.")
        parser.add_argument("--dry-run", action="store_true", help="Say what a sweep would do and why; do nothing.")
        parser.add_argument("--json", action="store_true", help="Answer as JSON, a line for each sweep.")

    def handle(self, *args: Any, **options: Any) -> None:
        hardening.make_undumpable()
        self._json = options["json"]
        self._interval: float = options["interval"]
        if not self._interval > 0:
            raise CommandError("--interval must be a number of seconds above 0.")
        if options["dry_run"]:
            self._tell(reaper.sweep(dry_run=True), dry_run=True)
        elif options["loop"]:
            self._loop()
        else:
            self._once()

    def _once(self) -> None:
        holder = uuid.uuid4()
        if not self._lead(holder):
            self._tell(None)
            return
        try:
            self._tell(reaper.sweep())
            cleaning.sweep_ended()
        finally:
            reaper.retire(holder)

    def _loop(self) -> None:
        holder, stopped = uuid.uuid4(), threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stopped.set())
        with Tidying(self._interval) as tidying:
            while not stopped.is_set():
                pause = self._interval
                try:
                    tidying.wanted = self._lead(holder)
                    if tidying.wanted:
                        sweep = reaper.sweep()
                        if sweep.findings or self._json:
                            self._tell(sweep)
                        pause = self._pause(sweep)
                except (DatabaseError, InterfaceError) as error:
                    self.stderr.write(f"The database is away: {str(error).strip()}")
                    connection.close()
                stopped.wait(pause)
        reaper.retire(holder)

    def _lead(self, holder: uuid.UUID) -> bool:
        return reaper.lead(holder, socket.gethostname(), os.getpid(), seconds=3 * self._interval + 5)

    def _pause(self, sweep: Sweep) -> float:
        """Sleep until the interval is over, or the next lease runs out if that is sooner."""
        left = reaper.seconds_to_next_expiry()
        if left is None or (left <= 0 and not sweep.findings):
            return self._interval  # what is overdue can't be ended now: another holds it
        return max(LEAST_PAUSE, min(self._interval, left))

    def _tell(self, sweep: Sweep | None, *, dry_run: bool = False) -> None:
        if self._json:
            answer = {"active": sweep is not None, "dry_run": dry_run, **(sweep.as_dict() if sweep else {})}
            self.stdout.write(json.dumps(answer))
        elif sweep is None:
            self.stdout.write("Another reaper is active; nothing was done.")
        else:
            self._tell_plainly(sweep, "would be" if dry_run else "was")

    def _tell_plainly(self, sweep: Sweep, verb: str) -> None:
        for finding in sweep.findings:
            what = finding.execution or f"job {finding.job_id}"
            self.stdout.write(f"{what} {verb} ended by {finding.action}: {finding.why}")
        if not sweep.findings:
            self.stdout.write("Nothing is overdue.")
