"""`manage.py up`."""

import sys
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from config.environment import BadEnvironment
from stack import up
from stack.errors import CannotStart


class Command(BaseCommand):
    help = "Bring the whole product up: servers, web, reaper and workers, until Ctrl-C or SIGTERM."
    requires_system_checks = []

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            up.run(settings.RERAIL)
        except (BadEnvironment, CannotStart) as error:
            sys.exit(f"rerail: {error}")
