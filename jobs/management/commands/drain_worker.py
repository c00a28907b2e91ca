"""`manage.py drain_worker`: let a worker finish and take nothing new."""

from typing import Any

from django.core.management.base import CommandParser

from jobs.commands import workers
from jobs.console.base import ConsoleCommand
from jobs.models import WorkerMode


class Command(ConsoleCommand):
    help = "Let a worker finish what it runs and take nothing new, until it is restarted or resumed."
    cannot = 1

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="The worker's name.")

    def handle(self, *args: Any, **options: Any) -> None:
        workers.set_mode(options["name"], WorkerMode.DRAINING, "Drained from the console.")
        self.say(f"Worker {options['name']} finishes what it runs and takes nothing new.")
