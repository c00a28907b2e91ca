"""`manage.py watch`: a job's timeline as it happens."""

import sys
from typing import Any

from django.core.management.base import CommandParser

from jobs.console import arguments, outcome
from jobs.console.base import ConsoleCommand
from jobs.selectors import following


class Command(ConsoleCommand):
    help = f"Show a job's timeline as it happens, until the job has ended. {outcome.EXPLAINED}"

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("job", type=arguments.number, help="The job's id.")
        parser.add_argument(
            "--after", type=arguments.number, default=0, metavar="SEQ", help="Leave out the events up to this number."
        )

    def handle(self, *args: Any, **options: Any) -> None:
        # Only once it has been there is a database that is away something to wait for.
        if following.look(options["job"], options["after"]) is None:
            raise self.error(f"There is no job {options['job']}.")
        sys.exit(outcome.follow(self, options["job"], options["after"]))
