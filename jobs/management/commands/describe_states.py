"""`manage.py describe_states`: write the page on states, or say whether it is what the table says."""

from typing import Any

from django.conf import settings
from django.core.management.base import CommandParser

from jobs.console import states_page
from jobs.console.base import ConsoleCommand

PAGE = settings.BASE_DIR / "docs" / "states.md"


class Command(ConsoleCommand):
    help = "Write docs/states.md from the table of states. Needs no database."
    cannot = 1

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--check", action="store_true", help="Write nothing; exit code 1 if the page is stale.")

    def handle(self, *args: Any, **options: Any) -> None:
        page = states_page.text()
        if not options["check"]:
            PAGE.write_text(page, encoding="utf-8")
        elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != page:
            raise self.error("docs/states.md is not what the table says: run manage.py describe_states.")
