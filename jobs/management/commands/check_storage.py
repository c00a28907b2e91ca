"""`manage.py check_storage`: compare the database with storage and say what differs."""

import json
from dataclasses import asdict
from typing import Any

from django.core.management.base import CommandParser

from jobs.commands import storage_check
from jobs.commands.storage_check import Difference
from jobs.console.base import ConsoleCommand
from jobs.storage.objects import StorageFailed

DIFFERS = 1


class Command(ConsoleCommand):
    help = "Read all checkpoints and say which are damaged and what is superfluous. Exit code 1 where anything is left."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--repair", action="store_true", help="Remove what is superfluous; nothing else.")
        parser.add_argument("--json", action="store_true", help="Answer as JSON, a line for each difference.")

    def handle(self, *args: Any, **options: Any) -> None:
        left = 0
        try:
            for difference in storage_check.compare(repair=options["repair"]):
                self.say(json.dumps(asdict(difference)) if options["json"] else _plainly(difference))
                left += not difference.repaired
        except StorageFailed as error:
            raise self.error(str(error)) from None
        if left:
            raise SystemExit(DIFFERS)
        if not options["json"]:
            self.say("Database and storage agree.")


def _plainly(difference: Difference) -> str:
    done = " Removed." if difference.repaired else ""
    return f"{difference.where}: {difference.what}: {difference.why}{done}"
