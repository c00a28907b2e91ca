"""`manage.py issue_token`: a token for the API."""

from typing import Any

from django.core.management.base import CommandParser

from jobs.commands import tokens
from jobs.console import people
from jobs.console.base import ConsoleCommand


class Command(ConsoleCommand):
    help = "Make an API token for a user and print it, alone. It is not shown again."
    cannot = 1

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("user", help="Whose token it is.")
        parser.add_argument("--name", default="", help="What it is for, as the list of tokens shows it.")

    def handle(self, *args: Any, **options: Any) -> None:
        if len(options["name"]) > 100:
            raise self.error("--name may have at most 100 characters.")
        self.say(tokens.issue(people.named(self, options["user"]), options["name"]))
